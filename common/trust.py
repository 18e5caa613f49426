"""Whether a folder's logs can show anything, asked before they are judged.

Every log in the folder must be the file that its sidecar describes, made by the side and in the
precision that its name says; what belongs together must come from the same model, inputs and start.
A log that is no file, or no log, is refused before anything of it is hashed or read.
"""

import re
from collections.abc import Collection, Mapping
from pathlib import Path

from common.judge import check_independence, own_problems
from common.logs import read_log, read_sidecar

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
