"""Whether a folder's logs can show anything, asked before they are judged.

Every log in the folder must be the file that its sidecar describes, made by the side and in the
precision that its name says; what belongs together must come from the same model, inputs and start.
A log that is no file, or no log, is refused before anything of it is hashed or read.
"""

import os
import re
from collections.abc import Collection, Mapping
from pathlib import Path

from common.logs.reader import read_log
from common.logs.sidecar import read_sidecar
from common.system.hashes import file_sha256

# forward_torch.npy, forward_paddle_fp64.npy, forward_paddle_fp64_single_step.npy, …
_NAME = re.compile(r"(?P<stem>.+?)_(?P<side>torch|paddle)(?P<rest>(_[a-z0-9_]+)?)\.npy")
_ONE_RUN = {"model": "models", "preset": "presets", "seed": "seeds", "train": "modes (--train)"}
_ONE_START = {"inputs_sha256": "inputs", "weights_sha256": "weights"}


def folder_problems(folder: Path, fresh: Collection[str] = ()) -> list[str]:
    """Sentences on why a folder's logs show nothing; none where they can be judged.

    fresh  sides whose logs this very check has made: they are not hashed once more
    Raises LogError for a log or a sidecar that cannot be read.
    """
    found = {}
    for path in sorted(folder.glob("*.npy")):
        name = _NAME.fullmatch(path.name)
        if name is not None:
            read_log(path).close()
            found[path] = (name["stem"], name["side"], name["rest"])
    sidecars = {path: read_sidecar(path) for path in found}
    problems = []
    for path, (stem, side, rest) in found.items():
        other = folder / f"{stem}_paddle{rest}.npy"
        if side == "torch" and other in found:
            problems += check_independence(path, other, sidecars[path], sidecars[other], fresh)
        elif side == "torch" or folder / f"{stem}_torch{rest}.npy" not in found:
            problems += own_problems(path, sidecars[path], side, fresh)
    if not problems:
        problems = _misplaced(found, sidecars) + _mixed(found, sidecars)
    return problems


def _misplaced(found: Mapping[Path, tuple], sidecars: Mapping[Path, Mapping]) -> list[str]:
    """Logs that are there under the name of another run of the same side."""
    problems = []
    for path, (stem, _, rest) in found.items():
        step = sidecars[path].get("step", stem)
        if step != stem:
            problems.append(f"{path.name} is a log of {step}, not of {stem}")
        single, dtype = "single_step" in rest, "float64" if "fp64" in rest else "float32"
        told = sidecars[path].get("dtype", dtype)
        if told != dtype:
            problems.append(f"{path.name} holds a {told} run, not a {dtype} one")
        if bool(sidecars[path].get("single_step")) != single:
            fed = "not fed" if single else "fed"
            problems.append(f"{path.name} comes from a run that was {fed} the reference's values")
    return problems


def _mixed(found: Mapping[Path, tuple], sidecars: Mapping[Path, Mapping]) -> list[str]:
    """Logs of one folder that are from different runs, although each pair agrees."""
    problems, first = [], {}
    for path, (stem, _, _) in found.items():
        for entries, group in ((_ONE_RUN, ""), (_ONE_START, stem)):
            one = first.setdefault(group, path)
            for entry, name in entries.items():
                if sidecars[path].get(entry) != sidecars[one].get(entry):
                    problems.append(f"{one.name} and {path.name} are from different {name}")
    return problems


ENOUGH_FLOATS = 4  # that agree to the last bit: fewer may do so by chance, as two accuracies do

_MUST_AGREE = {
    "step": "steps",
    "model": "models",
    "preset": "presets",
    "seed": "seeds",
    "train": "modes (--train)",
    "dtype": "dtypes",
    "inputs_sha256": "inputs",
    "weights_sha256": "weights",
}


def check_independence(
    ref_path: str | os.PathLike,
    cand_path: str | os.PathLike,
    ref_sidecar: Mapping[str, object] | None,
    cand_sidecar: Mapping[str, object] | None,
    fresh: Collection[str] = (),
) -> list[str]:
    """Sentences on why two logs do not show that two frameworks agree; none where they do.

    fresh  sides whose log needs no hash, having just been made
    Transplanted operators, which a sidecar's `transplanted` lists, excuse two frameworks in one
    process and logs that are the same to the last bit.
    """
    problems = []
    sidecars = {}
    for path, sidecar, side in (
        (Path(ref_path), ref_sidecar, "torch"),
        (Path(cand_path), cand_sidecar, "paddle"),
    ):
        if sidecar:
            sidecars[side] = sidecar
        problems += own_problems(path, sidecar, side, fresh)
    if len(sidecars) == 2:
        ref, cand = sidecars.values()
        for entry, name in _MUST_AGREE.items():
            if ref.get(entry) != cand.get(entry):
                told = ""
                if not entry.endswith("sha256"):
                    told = f": {ref.get(entry)!r} and {cand.get(entry)!r}"
                problems.append(f"the two logs are from different {name}{told}")
        if ref.get("framework_file") and ref.get("framework_file") == cand.get("framework_file"):
            problems.append(f"both logs were made by {ref['framework_file']}")
    if not transplanted(sidecars) and same_content(ref_path, cand_path):
        problems.append(
            f"{Path(ref_path).name} and {Path(cand_path).name} hold the same bits: one side's log "
            "was given twice"
        )
    return problems


def transplanted(sidecars: Mapping[str, Mapping[str, object]]) -> bool:
    return any(sidecar.get("transplanted") for sidecar in sidecars.values())


def own_problems(
    path: Path,
    sidecar: Mapping[str, object] | None,
    side: str,
    fresh: Collection[str] = (),
) -> list[str]:
    """What a log's own sidecar says against it; see check_independence for `fresh`."""
    problems = []
    if not sidecar:
        return [f"{path.name} has no sidecar: nobody knows what made it"]
    framework = sidecar.get("framework")
    if framework != side:
        return [f"{path.name} was made by {framework}, not {side}"]
    file = sidecar.get("framework_file")
    if not file:
        problems.append(f"{path.name}: its sidecar names no file that {side} was imported from")
    elif side not in Path(str(file)).parts:
        problems.append(f"{path.name}: its {side} was imported from {file}")
    if sidecar.get("torch_is_paddle"):
        return [
            f"{path.name}: in its process `import torch` gave Paddle; remove paddle.enable_compat()"
        ]
    loaded = sidecar.get("frameworks_loaded")
    if not isinstance(loaded, list) or side not in loaded:
        problems.append(f"{path.name}: its process had not loaded {side}")
    elif len(loaded) > 1 and not sidecar.get("transplanted"):
        problems.append(f"{path.name}: its process had loaded {' and '.join(map(str, loaded))}")
    if side not in fresh and sidecar.get("log_sha256") != file_sha256(path):
        problems.append(f"{path.name} is not the file that its sidecar describes: run it again")
    return problems


def same_content(ref_path: str | os.PathLike, cand_path: str | os.PathLike) -> bool:
    """True if two logs hold the same bits under the same keys, and floats enough to mean it."""
    with read_log(ref_path) as ref, read_log(cand_path) as cand:
        if set(ref) != set(cand):
            return False
        floats = 0
        for key in ref:
            if ref.shape(key) != cand.shape(key) or ref.dtype(key) != cand.dtype(key):
                return False
            if ref[key].tobytes() != cand[key].tobytes():
                return False
            floats += ref[key].size if ref.dtype(key).kind == "f" else 0
        return floats >= ENOUGH_FLOATS
