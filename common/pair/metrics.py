"""Scores of a model's outputs, over batches or over a whole test set.

A case.py's own `metric` is used instead of these; common/pair/pairs.py says what it is called with.
NumPy only.
"""

from collections.abc import Mapping

import numpy as np

from twincheck.common.pair.case_hooks import (
    CURVES,
    call_hook,
    describe_arrays,
    describe_value,
    hook_place,
)
from twincheck.common.pair.data import TEXT_VOCABULARY
from twincheck.common.pair.pairs import Pair
from twincheck.common.system.errors import UserError
from twincheck.common.system.reasons import Kind


def score(
    pair: Pair, outputs: Mapping[str, np.ndarray], inputs: Mapping[str, np.ndarray]
) -> dict[str, float]:
    """Name -> value over the whole test set: case.py's metric, else that of a classification.

    Raises UserError where there is neither, or the metric returns no figures.
    """
    if not hasattr(pair.case, "metric"):
        return default_score(pair, outputs, inputs)
    scores = call_hook(pair, "metric", pair.case.metric, dict(outputs), dict(inputs))
    where = hook_place(pair, "metric")
    if not isinstance(scores, dict) or not scores:
        raise UserError(Kind.METRIC_NO_DICT(hook=where, value=describe_value(scores)))
    for name in CURVES:
        if name in scores:
            raise UserError(Kind.METRIC_NAME_TAKEN(hook=where, name=name))
    for name, value in scores.items():
        figure = np.asarray(value)
        if not isinstance(name, str) or figure.ndim or figure.dtype.kind not in "biuf":
            told = {"hook": where, "name": str(name), "value": describe_value(value)}
            raise UserError(Kind.METRIC_NO_FIGURE(**told))
    return {name: float(value) for name, value in scores.items()}


class Evaluation:
    """Scores over batches, in one of two ways.

    A language model's logits do not fit into memory at once: each batch is added to sums, which
    give the `accuracy` of the next token and `bits_per_token` (`bits_per_byte` where a token is a
    byte).  Every other model's outputs are kept, and scored once all are there.
    """

    def __init__(self, pair: Pair, config: dict):
        self._pair = pair
        self._config = config
        self._parts: dict[str, list[np.ndarray]] = {}
        self._sums: dict[str, tuple[float, float]] = {}
        self._batches = 0

    def add(self, outputs: Mapping[str, np.ndarray], batch: Mapping[str, np.ndarray]) -> None:
        """One batch's outputs (B, ...) and inputs."""
        predicted = self._next_tokens(outputs, batch)
        for name, (total, count) in (next_token_sums(*predicted) if predicted else {}).items():
            before = self._sums.get(name, (0.0, 0))
            self._sums[name] = before[0] + total, before[1] + count
        if not predicted or not self._batches:
            for name, values in outputs.items():
                self._parts.setdefault(name, []).append(values)
        self._batches += 1

    def _next_tokens(self, outputs, batch) -> tuple[np.ndarray, np.ndarray] | None:
        """(logits (B, T, V), labels (B, T)) of a language model; None for any other.

        A language model is one with head "lm", which shifts its labels, or one whose data have no
        labels.
        """
        logits, ids = outputs.get("logits"), batch.get("input_ids")
        labels = batch.get("labels", ids)
        shifts = self._config.get("head") == "lm" or "labels" not in batch
        own = hasattr(self._pair.case, "metric")
        if own or not shifts or logits is None or not _are_of_tokens(logits, labels):
            return None
        return logits, labels

    def outputs(self, samples: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Name -> array of all batches, or of the first; a name that a batch lacks is left out.

        A bare tensor is called logits or predictions where it fits the samples' labels so.
        """
        return named(self._whole(), samples)

    def _whole(self) -> dict[str, np.ndarray]:
        kept = 1 if self._sums else self._batches
        parts = {name: arrays for name, arrays in self._parts.items() if len(arrays) == kept}
        return {name: np.concatenate(arrays) for name, arrays in parts.items()}

    def scores(self, samples: Mapping[str, np.ndarray]) -> dict[str, float]:
        """Name -> value over all samples; `samples` are their inputs (N, ...)."""
        if not self._sums:
            return score(self._pair, self._whole(), samples)
        scores = {name: total / count for name, (total, count) in self._sums.items()}
        if self._config.get("vocab_size") == TEXT_VOCABULARY:
            scores["bits_per_byte"] = scores.pop("bits_per_token")
        return scores


def default_score(pair, outputs, inputs) -> dict[str, float]:
    """Three scores of `logits` against `labels`; a sample whose label is below 0 does not count.

    Of `predictions` against `labels` that are no classes, those of a forecast.  A bare tensor is
    what its shape and the labels make of it.
    """
    outputs = named(outputs, inputs)
    forecast = regression(outputs, inputs)
    if forecast is not None:
        return forecast_scores(*forecast)
    classified = classification(outputs, inputs)
    if classified is None:
        told = {"outputs": describe_arrays(outputs), "inputs": describe_arrays(inputs)}
        raise UserError(Kind.METRIC_MISSING(case=str(pair.folder / "case.py"), **told))
    logits, labels = classified
    kept = labels >= 0
    classes = logits.shape[-1]
    labels, predictions = labels[kept], logits.argmax(axis=-1)[kept]
    scores = {"accuracy": accuracy, "macro_f1": macro_f1, "macro_f_seed": macro_f_seed}
    return {name: rule(labels, predictions, classes) for name, rule in scores.items()}


def named(
    outputs: Mapping[str, np.ndarray], inputs: Mapping[str, np.ndarray]
) -> Mapping[str, np.ndarray]:
    """The outputs; a bare tensor, whose name is output, as logits or predictions where it fits."""
    if outputs.keys() == {"output"} and outputs["output"].dtype.kind == "f":
        for name, fits in (("logits", classification), ("predictions", regression)):
            renamed = {name: outputs["output"]}
            if fits(renamed, inputs) is not None:
                return renamed
    return outputs


def classification(
    outputs: Mapping[str, np.ndarray], inputs: Mapping[str, np.ndarray]
) -> tuple[np.ndarray, np.ndarray] | None:
    """(logits (N, ..., C), labels (N, ...) integer) of a classification; None for any other."""
    logits, labels = outputs.get("logits"), inputs.get("labels")
    if logits is None or labels is None or labels.dtype.kind not in "iu":
        return None
    fits = logits.ndim > 1 and logits.shape[:-1] == labels.shape and logits.shape[-1] > 1
    return (logits, labels) if fits else None


def regression(
    outputs: Mapping[str, np.ndarray], inputs: Mapping[str, np.ndarray]
) -> tuple[np.ndarray, np.ndarray] | None:
    """(predictions, labels), floats (N, ...) of one shape; None for what is no regression."""
    predictions, labels = outputs.get("predictions"), inputs.get("labels")
    if predictions is None or labels is None or labels.dtype.kind != "f":
        return None
    return (predictions, np.asarray(labels)) if predictions.shape == labels.shape else None


# Scores that divide by each label: a near zero decides them, so no training is judged by them.
RELATIVE = ("mape", "mspe")


def forecast_scores(predictions: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """Name -> score of forecasts (N, ...) against labels of the same shape, in float64.

    mae, mse, rmse     the means of absolute and squared errors, and the latter's root
    mape, mspe         the same over the label; infinite where one is 0 and its forecast is not
    rse                the root of the squared errors over those of the labels' own mean
    corr               the mean over the places of a sample of Pearson's correlation over samples
    corr_informer      Informer's own: it divides by the root of the sum of squared products
    """
    predictions, labels = (np.asarray(v, dtype=np.float64) for v in (predictions, labels))
    errors = predictions - labels
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.where(errors == 0.0, 0.0, errors / labels)
        moved = [values - values.mean(axis=0) for values in (predictions, labels)]
        products = (moved[0] * moved[1]).sum(axis=0)
        squares = [np.square(values).sum(axis=0) for values in moved]
        corr = np.mean(products / np.sqrt(squares[0] * squares[1]))
        own = np.mean(products / np.sqrt(np.square(moved[0] * moved[1]).sum(axis=0)))
        spread = np.sqrt(np.square(labels - labels.mean()).sum())
        scores = {
            "mae": np.abs(errors).mean(),
            "mse": np.square(errors).mean(),
            "rmse": np.sqrt(np.square(errors).mean()),
            "mape": np.abs(relative).mean(),
            "mspe": np.square(relative).mean(),
            "rse": np.sqrt(np.square(errors).sum()) / spread,
            "corr": corr,
            "corr_informer": own,
        }
    return {name: float(value) for name, value in scores.items()}


def _are_of_tokens(logits: np.ndarray, ids: np.ndarray | None) -> bool:
    """True for logits (N, T, V) of token ids (N, T)."""
    are_ids = ids is not None and ids.dtype.kind in "iu" and ids.ndim == 2
    return are_ids and logits.ndim == 3 and logits.shape[:2] == ids.shape and ids.shape[1] > 1


def confusion(labels: np.ndarray, predictions: np.ndarray, num_classes: int) -> np.ndarray:
    """Count how often class i was predicted as class j: int64 (num_classes, num_classes) at [i, j].

    `labels` and `predictions` are (N,), integers in 0 .. num_classes - 1.
    Raises ValueError where they are empty, of different lengths, no integers or out of range.
    """
    labels, predictions = np.asarray(labels), np.asarray(predictions)
    if labels.shape != predictions.shape or labels.ndim != 1:
        told = {"labels": labels.shape, "predictions": predictions.shape}
        raise ValueError(Kind.SCORED_LISTS_DIFFER(**told))
    if labels.size == 0:
        raise ValueError(Kind.SCORED_NOTHING())
    for name, values in (("labels", labels), ("predictions", predictions)):
        if values.dtype.kind not in "iu":
            raise ValueError(Kind.SCORED_NO_INTEGERS(name=name, dtype=str(values.dtype)))
        if values.min() < 0 or values.max() >= num_classes:
            told = {"name": name, "least": values.min(), "most": values.max()}
            raise ValueError(Kind.SCORED_NO_CLASSES(**told, last=num_classes - 1))
    counts = np.bincount(
        labels.astype(np.int64) * num_classes + predictions.astype(np.int64),
        minlength=num_classes**2,
    )
    return counts.reshape(num_classes, num_classes)


def accuracy(labels: np.ndarray, predictions: np.ndarray, num_classes: int) -> float:
    """The share of samples whose prediction is right, 0 to 1."""
    table = confusion(labels, predictions, num_classes)
    return float(np.trace(table) / table.sum())


def macro_f1(labels: np.ndarray, predictions: np.ndarray, num_classes: int) -> float:
    """The mean of the classes' F1, 0 to 1, as scikit-learn's f1_score(average="macro").

    A class that is neither a label nor a prediction is left out of the mean; one that is never
    right counts 0.
    """
    table = confusion(labels, predictions, num_classes)
    right = np.diag(table)
    either = table.sum(0) + table.sum(1)  # 2 right + wrongly predicted + missed
    present = either > 0
    return float(np.mean(2 * right[present] / either[present]))


def macro_f_seed(labels: np.ndarray, predictions: np.ndarray, num_classes: int) -> float:
    """F of macro-averaged precision and recall, 0 to 1: the Fastformer port's own score.

    Not the mean of the classes' F1. Every class counts in both means, an absent one as 0; 1e-8 in
    each denominator, which is the port's too, is why a perfect score is a little below 1.
    """
    table = confusion(labels, predictions, num_classes)
    right = np.diag(table)
    precision = np.mean(right / (table.sum(0) + 1e-8))
    recall = np.mean(right / (table.sum(1) + 1e-8))
    return float(2 * precision * recall / (precision + recall + 1e-8))


def next_token_sums(logits: np.ndarray, labels: np.ndarray) -> dict[str, tuple[float, int]]:
    """Name -> (sum, tokens) of logits (N, T, V) that predict the token after each of labels.

    accuracy, and bits_per_token.  labels (N, T) are integers, below 0 where they do not count; a
    row's first token is predicted by nothing.  Bits are computed in float64, a row at a time.
    """
    right, nats, count = 0, 0.0, 0
    for row, tokens in zip(logits, labels, strict=True):
        kept = tokens[1:] >= 0
        scores, wanted = row[:-1][kept].astype(np.float64), tokens[1:][kept]
        right += int(np.count_nonzero(scores.argmax(-1) == wanted))
        scores -= scores.max(-1, keepdims=True)
        chosen = scores[np.arange(len(wanted)), wanted]
        nats += float(np.sum(np.log(np.exp(scores).sum(-1)) - chosen))
        count += len(wanted)
    return {"accuracy": (right, count), "bits_per_token": (nats / np.log(2.0), count)}
