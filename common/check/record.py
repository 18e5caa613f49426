"""result.json: what a check has found, kept in the result folder beside the logs that show it.

Every row in short, those of the outputs whole, notes, what was asked for, and the SHA-256 of each
log and sidecar.  `seal` is the hash of all that follows it: it tells a mistake, not fraud, against
which there is the bundle (docs/logs-from-others.md).
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from twincheck.common.check.options import CheckOptions
from twincheck.common.check.report_json import report_text
from twincheck.common.check.result import Result
from twincheck.common.check.steps import Step
from twincheck.common.logs.result_folder import ResultFolder
from twincheck.common.logs.sidecar import Sidecar, sidecar_of, sidecar_path
from twincheck.common.pair.case_hooks import data_preset, training
from twincheck.common.pair.option import options_of
from twincheck.common.pair.pairs import Pair
from twincheck.common.pair.request import RunRequest
from twincheck.common.report.findings import findings_of
from twincheck.common.system.checkout import ROOT
from twincheck.common.system.door import for_others
from twincheck.common.system.frameworks import SIDES
from twincheck.common.system.hashes import file_sha256
from twincheck.common.system.json_file import write_sealed
from twincheck.common.system.reasons import reasons_json

# Of a request, what makes other results -> the option that says it.
ASKED = {dest: one.name for dest, one in options_of(RunRequest).items() if one.kept}


def write_record(folder: Path, result: Result, options: CheckOptions, pair: Pair) -> None:
    """Write what was found into the folder of its logs."""
    files, step = ResultFolder(folder), result.step
    sidecars = {log.name: sidecar_of(log) for log, _ in files.logs()}
    asked = asked_of(step.judged[0], folder)
    first = next(iter(findings_of(result)), None)
    told = {"schema": 1, "step": step.number, "other": step.other, "model": result.model}
    told |= {"pair": _from_root(pair.model), "strict": options.strict, "asked": asked}
    told |= {"allow": list(options.allow), "notes": result.told}
    ran_in = {side: sidecars[files.log(step.judged[0], side).name].environment for side in SIDES}
    run = options.run
    pythons = {run.framework(s): at.get("executable", sys.executable) for s, at in ran_in.items()}
    told["command"] = repeated(step, pair, asked, options, pythons)
    told |= {"judged": list(step.judged), "guide_threshold": step.guide_threshold, "files": {}}
    for name, sidecar in sidecars.items():
        if sidecar.log_sha256:  # of the log; hashing it once more would take its time
            about = sidecar_path(folder / name)
            told["files"] |= {name: sidecar.log_sha256, about.name: file_sha256(about)}
    if first is not None:
        told |= {"headline": first.headline, "places": first.places}
        told["headline_reasons"] = reasons_json([first.headline])
    outputs = sidecars[files.log(step.judged[0], "torch").name].outputs
    names = {key for keys in outputs.values() for key in keys}
    told["outputs"] = {row.key: row.as_json() for row in result.rows if row.key in names}
    if step.trains and not step.other:
        preset = data_preset(pair, asked.get("preset", "default"))
        settings = {"preset": preset, **training(pair, pair.config(preset), preset)}
        told["settings"] = settings | {n: asked[n] for n in ("epochs",) if n in asked}
    write_sealed(files.record(), report_text([result], short=True, **told))


def asked_of(stem: str, folder: Path) -> dict[str, object]:
    """Return what the torch side was asked for, where it is not the default."""
    request = request_of(sidecar_of(ResultFolder(folder).log(stem, "torch")))
    for path in (folder / "request_torch.json", folder / "request_torch_full.json"):
        if path.is_file():
            request = RunRequest.read(path)
    found = {name: getattr(request, name) for name in ASKED}
    found = {name: v for name, v in found.items() if v != getattr(RunRequest, name)}
    return {name: list(v) if isinstance(v, tuple) else v for name, v in found.items()}


def request_of(told: Sidecar) -> RunRequest:
    """Return a side's request as far as its sidecar says: entries have the request's names."""
    entries = {name: getattr(told, name, None) for name in ASKED}
    entries["weights"] = None if told.weights == "initial" else told.weights
    entries = {n: v for n, v in entries.items() if v and not isinstance(v, dict)}
    return RunRequest(**{n: tuple(v) if isinstance(v, list) else v for n, v in entries.items()})


def repeated(
    step: Step,
    pair: Pair,
    asked: Mapping,
    options: CheckOptions,
    pythons: Mapping[str, str] | None = None,
) -> str:
    """Return what anybody types to run the same check again, with the pair as seen from here.

    pythons   side -> the Python that it ran in, named where it is not this one
    """
    words: list[str | Path] = [pair.model if pair.built_in else pair.folder]
    for name, value in asked.items():
        for one in value if isinstance(value, list) else [value]:
            words += [f"--{ASKED[name]}", *([] if one is True else [str(one)])]
    words += ["--strict"] if options.strict else []
    words += [word for name in options.allow for word in ("--allow", name)]
    for side, python in (pythons or {}).items():
        words += [f"--{side}-python", Path(python)] if python != sys.executable else []
    return for_others(step.command, *words)


def _from_root(path: str) -> str:
    """A path as it is typed in the checkout's root; a built-in name stays."""
    below = os.path.isabs(path) and Path(path).is_relative_to(ROOT)
    return str(Path(path).relative_to(ROOT)) if below else path
