"""What the first loss of a training can be: of one batch, under each way to shift and to reduce.

NumPy only and the same on both sides: the sides' processes read `token_losses`, the check
makes the candidates.  A loss that is not what it should be is told by the one that it equals.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from twincheck.common.pair.data import LABELS
from twincheck.common.system.npz import read_npz
from twincheck.common.system.reasons import is_of
from twincheck.common.system.tree import named_leaves
from twincheck.extras.shared.one_case import asked_precision, data_case
from twincheck.extras.trainers import Kind

IGNORED = -100
SHIFTS = {0: Kind.NOT_SHIFTED(), 1: Kind.SHIFTED_ONCE(), 2: Kind.SHIFTED_TWICE()}
OF_IDS = "ids_"  # before shift_K: of the ids themselves, where some of the labels are ignored
BATCH = "batch"  # stem of the files with batches: batch_0.npz, …


@dataclass(frozen=True)
class Candidate:
    """What the reference's model gives under one way to make a loss of its logits."""

    batch: int  # of the training, from 0
    shift: int | None  # of the labels; None: there is one label a row
    reduction: str
    loss: float

    @property
    def name(self) -> str:
        """In words."""
        shift = "" if self.shift is None else SHIFTS[self.shift]
        of = Kind.OF_BATCH(number=self.batch + 1) if self.batch else ""
        return Kind.CANDIDATE(parts=[shift, self.reduction, of])


def token_losses(logits: np.ndarray, labels: np.ndarray) -> dict[str, np.ndarray]:
    """shift_K -> −log of the label's probability, NaN where a label is ignored or out of range.

    logits (B, T, V) with labels (B, T): shift K compares the logits of place t with label t + K,
    (B, T - K); logits (B, C) with labels (B): `plain`, (B,)
    """
    found = {}
    if logits.ndim == 2 and labels.ndim == 1:
        found["plain"] = _losses(logits, labels)
    elif logits.ndim == 3 and labels.ndim == 2 and logits.shape[:2] == labels.shape:
        for shift in SHIFTS:
            end = labels.shape[1] - shift
            if end > 0:
                found[f"shift_{shift}"] = _losses(logits[:, :end], labels[:, shift:])
    return found


def _losses(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    known = (labels >= 0) & (labels < logits.shape[-1])
    picked = np.take_along_axis(logits, np.where(known, labels, 0)[..., None], axis=-1)[..., 0]
    largest = logits.max(axis=-1)
    total = np.log(np.exp(logits - largest[..., None]).sum(axis=-1)) + largest
    return np.where(known, total - picked, np.nan)


def of_batch(logits: np.ndarray, batch: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """`token_losses` of a batch's labels, and of its ids where some of the labels are ignored."""
    labels, ids = labels_of(batch), batch.get("input_ids")
    if labels is None or labels.dtype.kind not in "iu":
        return {}
    found = token_losses(logits, labels)
    if ids is not None and ids.shape == labels.shape and (labels < 0).any():
        found |= {f"{OF_IDS}{key}": each for key, each in token_losses(logits, ids).items()}
    return found


def labels_of(batch: Mapping[str, np.ndarray]) -> np.ndarray | None:
    """The labels of a batch; of a language model without any, its own ids."""
    return batch.get(LABELS, batch.get("input_ids"))


def candidates(number: int, losses: Mapping[str, np.ndarray], mask) -> Iterator[Candidate]:
    """Every way to make one number of `token_losses`; `mask` (B, T) True: no padding, or None."""
    for key, values in losses.items():
        shift = None if key == "plain" else int(key[-1])
        kept = np.isfinite(values)
        ways = {"": kept}
        if key.startswith(OF_IDS):
            yield from _reduced(number, shift, Kind.PADDING_COUNTED(), values, kept)
            continue
        if mask is not None and shift is not None and mask.shape[1] - shift == values.shape[1]:
            without = kept & mask[:, shift:]
            if without.any() and (without != kept).any():
                ways = {Kind.NO_PADDING(): without, Kind.PADDING_COUNTED(): kept}
        for which, counted in ways.items():
            yield from _reduced(number, shift, which, values, counted)


def _reduced(number: int, shift, which: str, values: np.ndarray, kept: np.ndarray):
    if not kept.any():
        return
    total = float(np.where(kept, values, 0.0).sum())
    rows = len(values)
    if shift is None:
        yield Candidate(number, shift, Kind.MEAN_OVER_ROWS(), total / int(kept.sum()))
        yield Candidate(number, shift, Kind.SUM_OVER_ROWS(), total)
        return
    yield Candidate(number, shift, Kind.MEAN_OVER_TOKENS(which=which), total / int(kept.sum()))
    counts = kept.sum(axis=1)
    means = np.where(kept, values, 0.0).sum(axis=1)[counts > 0] / counts[counts > 0]
    if len(set(counts.tolist())) > 1:
        yield Candidate(number, shift, Kind.MEAN_OF_MEANS(which=which), float(means.mean()))
    yield Candidate(number, shift, Kind.SUM_OVER_TOKENS(which=which), total)
    yield Candidate(number, shift, Kind.SUM_BY_ROWS(which=which, rows=rows), total / rows)
    if is_of(which, Kind.PADDING_COUNTED) or kept.all():
        return
    of = Kind.SUM_BY_PLACES(which=which, places=kept.size)
    yield Candidate(number, shift, of, total / kept.size)


# ---- both sides' scripts -------------------------------------------------------------------------


def first_loss(run):
    """Log the pair's own loss of each batch that is in the run's folder, and each token's."""
    model = run.build(training=False)
    run.session.probing = False
    found = {}
    with run.session.unrecorded():
        for path in sorted(run.folder.glob(f"{BATCH}_*.npz")):
            found |= of_file(run, model, path)
    run.session.begin(prefix=run.prefix)
    for key, values in found.items():
        run.log(key, values)


def of_file(run, model, path):
    """Key -> loss of the batch that a file holds, and what is told of each token."""
    found = {}
    batch = read_npz(path)
    run.session.begin(prefix=f"{run.prefix}{path.stem}/")
    tensors = {key: run.tensor(values) for key, values in batch.items()}
    with run.no_gradients():
        outputs = run.call(model, tensors)
        if hasattr(run.module, "loss"):
            found[f"{path.stem}/loss"] = run.side.array(run.loss(outputs, tensors))
    named = named_leaves(outputs, run.side.is_tensor)
    logits = named.get("logits", named.get("output"))
    if logits is not None:
        for key, values in of_batch(run.side.array(logits), batch).items():
            found[f"{path.stem}/{key}"] = values
    return found


def cases(pair, request):
    """The preset that step 5 trains, once."""
    return [data_case(pair, request)]


SCRIPT = {"stem": "first_loss", "function": first_loss, "dtypes": asked_precision, "cases": cases}
