"""result.json: what a check has found, kept in the result folder beside the logs that show it.

Every row in short, notes, what was asked for, the SHA-256 of each log and sidecar, and `facts`:
figures that people report and no verdict needs (how the outputs differ, both sides' losses), so
that `python -m common.pr_report` computes nothing.  `seal` is the hash of all that follows it: it
tells a mistake, not fraud, against which there is the bundle (docs/logs-from-others.md).
"""

import os
import shlex
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

import numpy as np

from common.check.options import CheckOptions
from common.check.report_json import report_text
from common.check.result import Result
from common.check.steps import Step
from common.logs.reader import read_log
from common.logs.result_folder import ResultFolder
from common.logs.sidecar import Sidecar, sidecar_of, sidecar_path
from common.pair.case_hooks import data_preset, training
from common.pair.option import options_of
from common.pair.pairs import Pair
from common.pair.request import RunRequest
from common.report.scores import scores_of
from common.report.sentences import headline
from common.report.terminal import line_to_look_at
from common.system.checkout import ROOT
from common.system.errors import UserError
from common.system.frameworks import SIDES
from common.system.hashes import file_sha256
from common.system.json_file import write_sealed

# Of a request, what makes other results -> the option that says it.
ASKED = {dest: one.name for dest, one in options_of(RunRequest).items() if one.kept}
_TOP = 10  # ids of the largest values that are compared
_FIRST = 20  # values that a library's own test holds
_MOST_STEPS = 2000  # of a training's losses, that are kept each by itself


def write_record(folder: Path, result: Result, options: CheckOptions, pair: Pair) -> None:
    """Write what was found into the folder of its logs."""
    files, step = ResultFolder(folder), result.step
    sidecars = {log.name: sidecar_of(log) for log, _ in files.logs()}
    asked = asked_of(step.judged[0], folder)
    first = result.first_diverged
    told = {"schema": 1, "step": step.number, "other": step.other, "model": result.model}
    told |= {"pair": _from_root(pair.model), "strict": options.strict, "asked": asked}
    told |= {"allow": list(options.allow), "notes": result.told}
    ran_in = {side: sidecars[files.log(step.judged[0], side).name].environment for side in SIDES}
    pythons = {side: at.get("executable", sys.executable) for side, at in ran_in.items()}
    told["command"] = repeated(step, told["pair"], asked, options, pythons)
    told |= {"judged": list(step.judged), "guide_threshold": step.guide_threshold, "files": {}}
    for name, sidecar in sidecars.items():
        if sidecar.log_sha256:  # of the log; hashing it once more would take its time
            about = sidecar_path(folder / name)
            told["files"] |= {name: sidecar.log_sha256, about.name: file_sha256(about)}
    if first is not None:
        class_name = result.classes.get(first.key, "")
        told["headline"] = headline(first, class_name, result.cases, result.settings)
        told["places"] = {side: line_to_look_at(result, side, first) for side in SIDES}
    told["facts"] = facts(folder, result, sidecars)
    if step.trains and not step.other:
        preset = data_preset(pair, asked.get("preset", "default"))
        settings = {"preset": preset, **training(pair, pair.config(preset), preset)}
        told["facts"] |= {"training": _training(files)}
        told["facts"]["settings"] = settings | {n: asked[n] for n in ("epochs",) if n in asked}
    write_sealed(files.record(), report_text([result], short=True, **told))


def asked_of(stem: str, folder: Path) -> dict[str, object]:
    """What the torch side was asked for, where it is not the default."""
    request = request_of(sidecar_of(ResultFolder(folder).log(stem, "torch")))
    for path in (folder / "request_torch.json", folder / "request_torch_full.json"):
        if path.is_file():
            with suppress(UserError):  # of a later version
                request = RunRequest.read(path)
    found = {name: getattr(request, name) for name in ASKED}
    found = {name: v for name, v in found.items() if v != getattr(RunRequest, name)}
    return {name: list(v) if isinstance(v, tuple) else v for name, v in found.items()}


def request_of(told: Sidecar) -> RunRequest:
    """What a side was asked for, as far as its log says: entries have the request's names."""
    entries = {name: getattr(told, name, None) for name in ASKED}
    entries["weights"] = None if told.weights == "initial" else told.weights
    entries = {n: v for n, v in entries.items() if v and not isinstance(v, dict)}
    return RunRequest(**{n: tuple(v) if isinstance(v, list) else v for n, v in entries.items()})


def repeated(
    step: Step,
    model: str,
    asked: Mapping,
    options: CheckOptions,
    pythons: Mapping[str, str] | None = None,
) -> str:
    """What to type to run the same check again, from the checkout's root.

    pythons   side -> the Python that it ran in, named where it is not this one
    """
    words = ["python", step.check, "--model", model]
    for name, value in asked.items():
        for one in value if isinstance(value, list) else [value]:
            words += [f"--{ASKED[name]}", *([] if one is True else [str(one)])]
    words += ["--strict"] if options.strict else []
    words += [word for name in options.allow for word in ("--allow", name)]
    for side, python in (pythons or {}).items():
        words += [f"--{side}-python", _from_root(python)] if python != sys.executable else []
    return shlex.join(words)


def _from_root(path: str) -> str:
    """A path as it is typed in the checkout's root; a built-in name stays."""
    below = os.path.isabs(path) and Path(path).is_relative_to(ROOT)
    return str(Path(path).relative_to(ROOT)) if below else path


def facts(folder: Path, result: Result, sidecars: Mapping[str, Sidecar]) -> dict[str, object]:
    """Outputs of step 1, both sides' single values and scores.

    sidecars   those of the folder's logs, by the logs' names
    """
    found: dict[str, object] = {"outputs": [], "values": {}}
    files = ResultFolder(folder)
    rows = {row.key: row for row in result.rows}
    for stem in result.step.judged:
        paths = [files.log(stem, side) for side in SIDES]
        told = [sidecars[path.name] for path in paths]
        outputs = told[0].outputs.items() if stem == "forward_all" else ()
        with read_log(paths[0]) as torch, read_log(paths[1]) as paddle:
            both = [key for key in torch if key in paddle and key in rows]
            single = [k for k in both if torch.shape(k) == paddle.shape(k) == () and ":" not in k]
            for key in (key for key in single if torch.dtype(key).kind == "f"):
                values = [float(log[key]) for log in (torch, paddle)]
                if np.isfinite(values).all():
                    found["values"][key] = values
            for case, key in ((case, key) for case, keys in outputs for key in keys):
                whole = not any(key in one.sums for one in told)
                said = output_facts(torch[key], paddle[key]) if whole and key in both else {}
                if said:
                    more = {"case": case, "key": key, "row": rows[key].as_json()}
                    found["outputs"].append(more | said)
    scores = scores_of(folder, result.step.guide_stem, result.step.guide_threshold)
    found["scores"] = [[one.name, one.torch, one.paddle, one.limit] for one in scores]
    return found


def output_facts(torch: np.ndarray, paddle: np.ndarray) -> dict[str, object]:
    """How an output differs, in the figures that alignment reports give; nothing for integers."""
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
            "relative_mean": np.mean(off[a != 0] / np.abs(a[a != 0])) if a.any() else np.nan,
            "relative_max": np.max(off[a != 0] / np.abs(a[a != 0])) if a.any() else np.nan,
        }
        means, deviations = ([measure(one) for one in (a, b)] for measure in (np.mean, np.std))
    said: dict[str, object] = {"shape": list(torch.shape)}
    said |= dict(zip(figures, _finite(figures.values()), strict=True))
    said |= {"means": _finite(means), "deviations": _finite(deviations)}
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
    return losses_facts(*(one[:steps] for one in losses)) | {"lengths": list(map(len, losses))}


def losses_facts(torch: np.ndarray, paddle: np.ndarray) -> dict[str, object]:
    """The two lists of losses and what is said of their difference, Paddle's less torch's."""
    kept = sorted({*np.linspace(0, len(torch) - 1, min(len(torch), _MOST_STEPS)).astype(int)})
    with np.errstate(all="ignore"):
        off = paddle - torch
        figures = {
            "mean": np.mean(off) if off.size else np.nan,
            "median": np.median(off) if off.size else np.nan,
            "mean_abs": np.abs(off).mean() if off.size else np.nan,
            "relative": np.abs(off / torch).mean() if torch.all() and off.size else np.nan,
            "largest": np.abs(off).max() if off.size else np.nan,
        }
    unequal = np.flatnonzero(torch != paddle)
    return {
        "steps": len(torch),
        "shown": [[int(i) + 1, *_finite((torch[i], paddle[i]))] for i in kept],
        **dict(zip(figures, _finite(figures.values()), strict=True)),
        "above": int((off > 0).sum()),
        "below": int((off < 0).sum()),
        "equal_first": int(unequal[0]) if unequal.size else len(torch),
    }
