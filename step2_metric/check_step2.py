"""Step 2, metric: do both sides read the same batches, predict the same and score the same?

    python step2_metric/check_step2.py --model fastformer
    python step2_metric/check_step2.py --model fastformer --agree DATA [--weights CHECKPOINT]

With --agree: on which of the examples in DATA (an .npz, a folder of images, a text) do the sides
choose otherwise, and does rounding decide there?
"""

import sys
from pathlib import Path

# This folder holds folders called torch and paddle: the checkout takes its place in the search.
if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parent.parent)
    from common.system.start import begin

    begin("numpy", "rich")

import numpy as np

from common.check.command_line import check_main
from common.check.flags import Parser, positive
from common.check.guard import guarded
from common.check.options import CheckOptions
from common.check.steps import Launch, Step
from common.logs.reader import read_log
from common.logs.result_folder import ResultFolder
from common.pair.sentencepieces import MODEL
from common.system.errors import UserError
from common.verdict.row import Row, claim
from step2_metric.agree import BATCH_SIZE, agree
from step2_metric.series_opinion import forecast_opinion, series_opinion
from step2_metric.tokenizer_opinion import tokenizer_opinion

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
            rows += [
                claim(
                    f"scikit-learn/{name}/{side}",
                    abs(float(log[name]) - opinion),
                    SCORE_ALLOWED,
                    f"{side} says {float(log[name]):.6f}, scikit-learn {opinion:.6f}",
                )
                for name, opinion in opinions.items()
            ]
    return rows


STEP = Step(
    number=2,
    title="metric",
    script="metric",
    launches=(Launch({"data_weights": "stirred"}),),
    judged=("metric_all",),
    guide_stem="metric",
    data=True,
    tokenizes=True,
    extra=third_opinion,
)

# What --agree goes by; other options of this check mean nothing there.
OF_AGREEMENT = (
    *("agree", "batch-size", "resume", "model", "preset", "device", "seed", "weights", "out"),
    *("tokenizer", "transplant", "torch-python", "paddle-python", "json", "debug"),
)


def options_parser() -> Parser:
    """What this check takes."""
    parser = Parser(__doc__).take(*STEP.takes, "resume")
    group = parser.add_argument_group("agreement on data")
    group.add_argument(
        "--agree",
        type=Path,
        metavar="DATA",
        help="compare both sides' choices on an .npz, a folder or a text: --agree images",
    )
    group.add_argument(
        "--batch-size",
        type=positive,
        metavar="N",
        help=f"of --agree, examples at a time, {BATCH_SIZE} by default: --batch-size 8",
    )
    return parser


def main() -> int:
    """See the module's docstring; returns the exit status."""
    given = options_parser().parse_args()
    names = [name for name, _ in given.typed]
    if given.agree is None and not {"batch-size", "resume"} & set(names):
        return check_main(STEP, parser=options_parser())

    def run() -> int:
        if given.agree is None:
            raise UserError("--batch-size and --resume belong to --agree DATA: give it, too")
        idle = [f"--{name}" for name in names if name not in OF_AGREEMENT]
        if idle:
            raise UserError(f"--agree: {', '.join(idle)} has no use with it: leave it out")
        size = given.batch_size or BATCH_SIZE
        return agree(STEP, CheckOptions.of(given), given.agree, size, given.json)

    return guarded(given.debug, run, "; --resume goes on with it")


if __name__ == "__main__":
    sys.exit(main())
