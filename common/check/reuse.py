"""The reference side's logs taken over: from this checkout (--reuse torch), or from somebody else.

    --reuse torch        the logs of the last check, while all that they depend on is unchanged
    --reference FOLDER   logs that somebody else sent; torch need not be installed

Either way every log must still be the file that its sidecar describes.
"""

import json
import platform
from pathlib import Path

from twincheck.common.check.record import ASKED
from twincheck.common.check.steps import Step
from twincheck.common.logs.result_folder import LogName, ResultFolder
from twincheck.common.logs.sidecar import sidecar_of
from twincheck.common.pair.pairs import Pair, is_checkpoint
from twincheck.common.pair.provenance import (
    changed_sources,
    model_sources,
    workbench_sha256,
)
from twincheck.common.pair.request import RunRequest, device_of
from twincheck.common.system.errors import UserError
from twincheck.common.system.frameworks import SETTINGS, framework_of
from twincheck.common.system.hashes import file_sha256
from twincheck.common.system.interpreters import versions
from twincheck.common.system.json_file import load_json
from twincheck.common.system.processes import environment
from twincheck.common.system.reasons import Kind
from twincheck.common.weights.read import parts

# Of a request, what torch's logs depend on, beside the weights' content.
_FIELDS = {*ASKED} - {"weights", "transplant", "processes"}


def reference_key(
    step: Step, pair: Pair, run: RunRequest, python: str, data: Path
) -> dict[str, str]:
    """Return what the torch side's logs depend on, each part as a text; equal texts, equal logs."""
    configuration = {name: getattr(run, name) for name in sorted(_FIELDS)}
    values = environment(device_of(run.device, "torch"))
    settings = {name: values.get(name) for name in SETTINGS}
    # Files that a pair's case.py may read, by size and time: they may be large.
    others = {
        path.relative_to(pair.folder).as_posix(): [path.stat().st_size, path.stat().st_mtime_ns]
        for path in pair.files()
        if path.suffix not in (".py", ".pyc")
    }
    weights = str(run.weights)
    if is_checkpoint(run.weights):
        weights += f" {[file_sha256(path) for path in parts(run.weights)]}"
    return {
        "sources": json.dumps(model_sources(pair, "torch")),
        Kind.OTHER_PAIR_FILES(): json.dumps(others),
        "workbench": workbench_sha256(pair, "torch", step.module(framework_of(pair.backends[0]))),
        "configuration": json.dumps([configuration, repr(step.launches)]),
        "weights": weights,
        "data": json.dumps({path.name: file_sha256(path) for path in sorted(data.glob("*"))}),
        "environment": json.dumps([python, versions(python), platform.platform(), settings]),
    }


def why_not_reused(folder: Path, key: dict[str, str]) -> str:
    """Return why the torch side must run again; empty where its logs in `folder` still hold."""
    try:
        former = load_json(ResultFolder(folder).reference_key())
    except UserError:
        return Kind.FORMER_LOGS_MISSING()
    changed = [name for name in key if former.get(name) != key[name]]
    if changed:
        return Kind.CHANGED_SINCE(parts=", ".join(changed))
    if ResultFolder(folder).without_weights():
        return Kind.FORMER_WEIGHTS_MISSING()
    return _damage(folder)


def _damage(folder: Path) -> str:
    """Return how a folder's torch logs are not what their sidecars say; empty where all are."""
    logs = [path for path, name in ResultFolder(folder).logs() if name.side == "torch"]
    if not logs:
        return Kind.FORMER_LOGS_MISSING()
    for log in logs:
        sidecar = sidecar_of(log)
        if sidecar.side != "torch" or sidecar.framework != "torch":
            return Kind.LOG_NOT_BY_TORCH(log=log.name)
        if log.is_symlink() or sidecar.log_sha256 != file_sha256(log):
            return Kind.LOG_NOT_AS_DESCRIBED(log=log.name)
    return ""


def find_reference(given: Path, step: Step, pair: Pair) -> Path:
    """The folder below `given` that holds a model's torch logs of a step, all of them whole.

    `given` may be what --out was, a step's log folder, or the folder of the logs themselves.
    Raises UserError where there are none, or where one is not what its sidecar says.
    """
    wanted = str(LogName(step.judged[0], "torch"))
    bases = given / step.name, given / step.name / "log", given / "log", given
    places = [*(base / pair.name for base in bases), given]
    folder = next((place for place in places if (place / wanted).is_file()), None)
    said = str(given)
    if folder is None:
        below = f"{step.name}/{pair.name}"
        raise UserError(Kind.REFERENCE_MISSING(given=said, log=wanted, folder=below))
    if damage := _damage(folder):
        raise UserError(Kind.REFERENCE_DAMAGED(given=said, damage=damage))
    if missing := ResultFolder(folder).without_weights():
        raise UserError(Kind.REFERENCE_WITHOUT_WEIGHTS(given=said, cases=", ".join(missing)))
    return folder


def differing_reference(folder: Path, pair: Pair) -> str:
    """A note where a reference was made from other sources than the pair's here; or empty."""
    for log, name in ResultFolder(folder).logs():
        changed = changed_sources(sidecar_of(log).sources, pair, "torch")
        if name == LogName(name.stem, "torch") and changed:
            return Kind.REFERENCE_FROM_OTHER_SOURCES(files=", ".join(changed))
    return ""
