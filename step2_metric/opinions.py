"""Third opinions: each side's tokens, series and scores against somebody else's."""

from pathlib import Path

import numpy as np

from twincheck.common.logs.reader import read_log
from twincheck.common.logs.result_folder import ResultFolder
from twincheck.common.logs.sidecar import sidecar_of
from twincheck.common.pair.sentencepieces import MODEL
from twincheck.common.report.scores import scores_of, what_hides, what_is_scored
from twincheck.common.system.reasons import Kind
from twincheck.common.verdict.row import Row, claim
from twincheck.step2_metric.series_opinion import forecast_opinion, series_opinion
from twincheck.step2_metric.tokenizer_opinion import tokenizer_opinion

STEM, THRESHOLD = "metric", 1e-6  # the guide's pair of logs, and its limit
SCORE_ALLOWED = 1e-12  # scores are ratios of small counts: only their last bits may differ
SEED_EPSILON = 1e-8  # in the denominators of the seed's macro-F


def third_opinion(folder: Path, pair) -> tuple[list[Row], list[str]]:
    """Each side's tokenizers, series and scores against a third party's."""
    data = folder.parent / "data" / pair.name
    rows, notes = tokenizer_opinion(folder, data / MODEL)
    of_series, more = series_opinion(folder, pair, data)
    return rows + of_series + score_opinion(folder, pair), notes + more


def score_opinion(folder: Path, pair) -> list[Row]:
    """Each side's scores against scikit-learn's, computed from that side's predictions."""
    from sklearn.metrics import accuracy_score, confusion_matrix, f1_score

    rows = []
    for side in ("torch", "paddle"):
        with read_log(ResultFolder(folder).log("metric_all", side)) as log:
            if hasattr(pair.case, "metric") or "test/predictions" not in log:
                return []  # the pair's own metric: its meaning is its own
            if "mse" in log:
                rows += forecast_opinion(side, log)
                continue
            labels, predictions = log["test/labels"], log["test/predictions"]
            labels, predictions = labels[labels >= 0], predictions[labels >= 0]
            classes = range(log.shape("test/logits")[-1])
            table = confusion_matrix(labels, predictions, labels=list(classes))
            hits = np.diag(table)
            precision = float(np.mean(hits / (table.sum(axis=0) + SEED_EPSILON)))
            recall = float(np.mean(hits / (table.sum(axis=1) + SEED_EPSILON)))
            opinions = {
                "accuracy": accuracy_score(labels, predictions),
                "macro_f1": f1_score(labels, predictions, average="macro", zero_division=0),
                "macro_f_seed": 2 * precision * recall / (precision + recall + SEED_EPSILON),
            }
            for name, opinion in opinions.items():
                own = float(log[name])
                said = Kind.SCORE_OF_SCIKIT(side=side, own=own, theirs=opinion)
                key = f"scikit-learn/{name}/{side}"
                rows.append(claim(key, abs(own - opinion), SCORE_ALLOWED, said))
    return rows


def scored(folder: Path, pair) -> tuple[dict[str, object], list[str]]:
    """What was scored, and a note where a difference could not be seen in it."""
    scores = scores_of(folder, STEM, THRESHOLD)
    found = what_is_scored(folder, pair, scores, "metric_all", "test/")
    hidden = what_hides(found)
    if hidden and sidecar_of(ResultFolder(folder).log("metric_all", "torch")).weights == "initial":
        hidden = Kind.SCORES_TRAINED(hidden=hidden)
    return {"scored_by_step_2": found}, list(filter(None, [hidden]))
