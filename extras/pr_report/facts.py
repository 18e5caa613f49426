"""Figures that people report and no verdict needs: how the outputs differ, both sides' losses.

They are made of a result's logs when a report is written, which are the files that result.json
tells of (results.py).
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from twincheck.common.logs.guide_pair import STEMS
from twincheck.common.logs.reader import read_log
from twincheck.common.logs.result_folder import ResultFolder
from twincheck.common.logs.sidecar import sidecar_of
from twincheck.common.report.scores import scores_of
from twincheck.common.system.frameworks import SIDES

_TOP = 10  # ids of the largest values that are compared
_FIRST = 20  # values that a library's own test holds
_MOST_STEPS = 2000  # of a training's losses, that are kept each by itself


def facts(folder: Path, said: Mapping) -> dict[str, object]:
    """Outputs of step 1, both sides' single values, scores and a training's losses.

    said    the folder's result.json
    """
    found: dict[str, object] = {"outputs": [], "values": {}}
    files, keys = ResultFolder(folder), {row["key"] for row in said["rows"]}
    for stem in said["judged"]:
        paths = [files.log(stem, side) for side in SIDES]
        told = [sidecar_of(path) for path in paths]
        outputs = told[0].outputs.items() if stem == "forward_all" else ()
        with read_log(paths[0]) as torch, read_log(paths[1]) as paddle:
            both = [key for key in torch if key in paddle and key in keys]
            single = [k for k in both if torch.shape(k) == paddle.shape(k) == () and ":" not in k]
            for key in (key for key in single if torch.dtype(key).kind == "f"):
                values = [float(log[key]) for log in (torch, paddle)]
                if np.isfinite(values).all():
                    found["values"][key] = values
            for case, key in ((case, key) for case, keys in outputs for key in keys):
                whole = not any(key in one.sums for one in told)
                figures = output_facts(torch[key], paddle[key]) if whole and key in both else {}
                if figures:
                    more = {"case": case, "key": key, "row": said["outputs"][key]}
                    found["outputs"].append(more | figures)
    stem = "" if said["other"] else STEMS[said["step"] - 1]
    scores = scores_of(folder, stem, said["guide_threshold"])
    found["scores"] = [[one.name, one.torch, one.paddle, one.limit] for one in scores]
    if stem == "train_align":
        found["training"] = _training(files)
    return found


def output_facts(torch: np.ndarray, paddle: np.ndarray) -> dict[str, object]:
    """Measure how an output differs, in the figures of alignment reports; none for integers."""
    if torch.shape != paddle.shape or torch.dtype.kind != "f" or not torch.size:
        return {}
    a, b = (values.astype(np.float64) for values in (torch, paddle))
    with np.errstate(all="ignore"):
        off = np.where(a == b, 0.0, np.abs(a - b))
        both = np.sqrt(np.sum(a * a) * np.sum(b * b))
        figures = {
            "max": off.max(),
            "mean": off.mean(),
            "rms": np.sqrt(np.mean(off * off)),
            "p99": np.quantile(off, 0.99),
            "cosine": np.sum(a * b) / both if both else np.nan,
        }
    said: dict[str, object] = {"shape": list(torch.shape)}
    said |= dict(zip(figures, _finite(figures.values()), strict=True))
    said["first"] = [_finite(values.reshape(-1)[:_FIRST]) for values in (torch, paddle)]
    if torch.ndim > 1 and torch.shape[-1] > 1:
        top = min(_TOP, torch.shape[-1])
        ids = [np.argsort(-one, axis=-1, kind="stable")[..., :top] for one in (a, b)]
        said["next_ids"] = [one[(0, *(-1,) * (one.ndim - 2))].tolist() for one in ids]
        ids = [one.reshape(-1, top) for one in ids]
        said["top"] = top
        said["positions"] = len(ids[0])
        said["same_top1"] = int((ids[0][:, 0] == ids[1][:, 0]).sum())
        said["same_top"] = int((ids[0] == ids[1]).all(axis=1).sum())
    return said


def _finite(values: Iterable[float]) -> list[float | None]:
    return [float(value) if np.isfinite(value) else None for value in values]


def _training(files: ResultFolder) -> dict[str, object] | None:
    """Both sides' loss of each step, and how they differ."""
    paths = [files.log("train_full", side) for side in SIDES]
    if not all(path.is_file() for path in paths):
        return None
    losses = []
    for path in paths:
        with read_log(path) as log:
            losses.append(np.asarray(log["curve/loss"], np.float64))
    steps = min(map(len, losses))
    return losses_facts(*(one[:steps] for one in losses))


def losses_facts(torch: np.ndarray, paddle: np.ndarray) -> dict[str, object]:
    """The two lists of losses, and how far they are apart."""
    kept = sorted({*np.linspace(0, len(torch) - 1, min(len(torch), _MOST_STEPS)).astype(int)})
    with np.errstate(all="ignore"):
        off = np.abs(paddle - torch)
        mean, largest = (off.mean(), off.max()) if off.size else (np.nan, np.nan)
    unequal = np.flatnonzero(torch != paddle)
    return {
        "steps": len(torch),
        "shown": [[int(i) + 1, *_finite((torch[i], paddle[i]))] for i in kept],
        **dict(zip(("mean_abs", "largest"), _finite((mean, largest)), strict=True)),
        "equal_first": int(unequal[0]) if unequal.size else len(torch),
    }
