"""Whether a folder's logs can show anything, asked before they are judged.

Every log in the folder must be the file that its sidecar describes, made by the side and in the
precision that its name says; what belongs together must come from the same model, inputs and start.
A log that is no file, or no log, is refused before anything of it is hashed or read.
"""

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from twincheck.common.logs.guide_pair import has_pair
from twincheck.common.logs.pickle_machine import escaped
from twincheck.common.logs.reader import read_log
from twincheck.common.logs.result_folder import LogName, ResultFolder
from twincheck.common.logs.sidecar import Sidecar, sidecar_of
from twincheck.common.system.frameworks import SIDES, framework_of
from twincheck.common.system.hashes import file_sha256, same_bits

# What the two logs of a pair must agree on, and what it is called.
_MUST_AGREE = {
    "step": "steps",
    "model": "models",
    "preset": "presets",
    "seed": "seeds",
    "mode": "modes (--mode)",
    "probes": "probes (--probe)",
    "no_probe": "probes (--no-probe)",
    "dtype": "dtypes",
    "inputs_sha256": "inputs",
    "weights_sha256": "weights",
}
# Of these, what all logs of a folder must agree on, and what all logs of one stem.
_ONE_RUN = ("model", "preset", "seed", "mode", "probes", "no_probe")
_ONE_START = ("inputs_sha256", "weights_sha256")

AnyPath = str | os.PathLike
ENOUGH_FLOATS = 4  # that agree to the last bit: fewer may do so by chance, as two accuracies do


def folder_problems(
    folder: Path, fresh: Collection[str] = (), backends: tuple[str, str] = SIDES
) -> list[str]:
    """Sentences on why a folder's logs show nothing; none where they can be judged.

    The guide's pair is no evidence of its own: common/logs/guide_pair.py compares it with the full
    logs, which are looked at here.
    fresh     sides whose logs this very check has made: they are not hashed once more
    backends  what was to compute the two sides
    Raises LogError for a log or a sidecar that cannot be read.
    """
    logs = {path: name for path, name in ResultFolder(folder).logs() if not has_pair(name.stem)}
    for path in logs:
        read_log(path).close()
    sidecars = {path: sidecar_of(path) for path in logs}
    return _problems(logs, sidecars, fresh, backends=backends)


def sidecar_problems(logs: Mapping[Path, LogName], sidecars: Mapping[Path, Sidecar]) -> list[str]:
    """What folder_problems says of a folder's sidecars alone; of the logs nothing is read."""
    return _problems(logs, sidecars, SIDES, contents=False)


def _problems(
    logs: Mapping[Path, LogName],
    sidecars: Mapping[Path, Sidecar],
    fresh: Collection[str],
    contents: bool = True,
    backends: tuple[str, str] = SIDES,
) -> list[str]:
    problems = []
    for path, name in logs.items():
        other = path.parent / str(replace(name, side=SIDES[1 - SIDES.index(name.side)]))
        if other not in logs:
            problems += own_problems(path, sidecars[path], name.side, fresh, backends)
        elif name.side == "torch":
            pair = path, other, sidecars[path], sidecars[other]
            problems += check_independence(*pair, fresh, contents, backends)
    # Every log has a sidecar where there are none.
    return problems or _misplaced(logs, sidecars) + _mixed(logs, sidecars)


def _misplaced(logs: Mapping[Path, LogName], sidecars: Mapping[Path, Sidecar]) -> list[str]:
    """Logs that are there under the name of another run of the same side."""
    problems = []
    for path, name in logs.items():
        sidecar = sidecars[path]
        if sidecar.step not in (None, name.stem):
            problems.append(f"{path.name} is a log of {escaped(sidecar.step)}, not of {name.stem}")
        if sidecar.dtype is not None and (sidecar.dtype == "float64") != (name.dtype == "float64"):
            other = escaped(sidecar.dtype)
            problems.append(f"{path.name} holds a {other} run, not a {name.dtype} one")
        if bool(sidecar.teacher_forced) != name.teacher_forced:
            fed = "not fed" if name.teacher_forced else "fed"
            problems.append(f"{path.name} comes from a run that was {fed} the reference's values")
        if bool(sidecar.exact) != name.exact:
            own = "Paddle's own" if name.exact else "exact"
            problems.append(f"{path.name} comes from a run of {own} operators")
    return problems


def _mixed(logs: Mapping[Path, LogName], sidecars: Mapping[Path, Sidecar]) -> list[str]:
    """Logs of one folder that are from different runs, although each pair agrees."""
    problems, first = [], {}
    for path, name in logs.items():
        cases = tuple(sidecars[path].cases)  # a further run may be of some cases alone
        for entries, group in ((_ONE_RUN, ""), (_ONE_START, (name.stem, cases))):
            one = first.setdefault(group, path)
            problems += [
                f"{one.name} and {path.name} are from different {_MUST_AGREE[entry]}"
                for entry in entries
                if getattr(sidecars[path], entry) != getattr(sidecars[one], entry)
            ]
    return problems


def check_independence(
    ref_path: AnyPath,
    cand_path: AnyPath,
    ref: Sidecar,
    cand: Sidecar,
    fresh: Collection[str] = (),
    contents: bool = True,
    backends: tuple[str, str] = SIDES,
) -> list[str]:
    """Sentences on why two logs do not show that two frameworks agree; none where they do.

    fresh     sides whose log needs no hash, having just been made
    contents  whether the logs themselves are looked at
    backends  what was to compute them; of one framework only where that was asked for
    Transplanted operators, which a sidecar's `transplanted` lists, excuse two frameworks in one
    process and logs that are the same to the last bit; so does `told_apart` the latter, since two
    frameworks may well agree so on a small model.
    """
    problems = own_problems(Path(ref_path), ref, SIDES[0], fresh, backends)
    problems += own_problems(Path(cand_path), cand, SIDES[1], fresh, backends)
    problems += _disagreements(ref, cand)
    excused = transplanted((ref, cand)) or not problems and told_apart(ref, cand)
    if contents and not excused and same_content(ref_path, cand_path):
        problems.append(
            f"{Path(ref_path).name} and {Path(cand_path).name} hold the same bits: one side's log "
            "was given twice"
        )
    return problems


def from_one_side(ref_path: AnyPath, cand_path: AnyPath, ref: Sidecar, cand: Sidecar) -> str:
    """Why two logs, which may be anybody's, are from one side; empty where nothing says so."""
    names = f"{Path(ref_path).name} and {Path(cand_path).name}"
    for sidecar in (ref, cand):
        if sidecar.torch_is_paddle and sidecar.framework != "paddle":
            return f"{names}: in the process of one of them `import torch` gave Paddle"
    if ref.framework and ref.framework == cand.framework:
        return f"{names} were both made by {escaped(ref.framework)}"
    if ref.framework_file and ref.framework_file == cand.framework_file:
        return f"{names} were both made by {escaped(ref.framework_file)}"
    two = {ref.framework, cand.framework} == set(SIDES) and ref.sealed and cand.sealed
    if two or transplanted((ref, cand)):
        return ""
    for path in (ref_path, cand_path):  # before anything of a file that is no log is hashed
        read_log(path).close()
    if os.path.samefile(ref_path, cand_path):
        return f"{Path(ref_path).name} was given twice"
    if same_content(ref_path, cand_path):
        return f"{names} hold the same bytes, and no sidecars say that two frameworks made them"
    return ""


def _disagreements(ref: Sidecar, cand: Sidecar) -> list[str]:
    problems: list[str] = []
    if Sidecar() in (ref, cand):
        return problems
    for entry, name in _MUST_AGREE.items():
        values = getattr(ref, entry), getattr(cand, entry)
        if values[0] != values[1]:
            shown = "" if entry.endswith("sha256") else f": {values[0]!r} and {values[1]!r}"
            problems.append(f"the two logs are from different {name}{shown}")
    one = ref.framework_file and ref.framework_file == cand.framework_file
    if one and framework_of(ref.backend) != framework_of(cand.backend):
        problems.append(f"both logs were made by {escaped(ref.framework_file)}")
    return problems


def transplanted(sidecars: Iterable[Sidecar]) -> bool:
    """True where one framework computed operators of the other side."""
    return any(sidecar.transplanted for sidecar in sidecars)


def told_apart(ref: Sidecar, cand: Sidecar) -> bool:
    """True where sealed sidecars say that torch wrote one log and Paddle the other.

    Of one framework, that they ran another kind of graph or another file.
    """
    if not (ref.sealed and cand.sealed) or (ref.side, cand.side) != SIDES:
        return False
    if ref.framework != cand.framework:
        return (ref.framework, cand.framework) == SIDES
    return ref.backend != cand.backend or ref.sources != cand.sources


def own_problems(
    path: Path,
    sidecar: Sidecar,
    side: str,
    fresh: Collection[str] = (),
    backends: tuple[str, str] = SIDES,
) -> list[str]:
    """What a log's own sidecar says against it; see check_independence for the others."""
    problems = []
    if sidecar == Sidecar():
        return [f"{path.name} has no sidecar: nobody knows what made it"]
    made_by, wanted = sidecar.backend, backends[SIDES.index(side)]
    if made_by != wanted or sidecar.framework != framework_of(wanted):
        made_by = escaped(str(made_by if made_by != wanted else sidecar.framework))
        return [f"{path.name} was made by {made_by}, not {wanted}"]
    framework = framework_of(wanted)
    if not sidecar.framework_file:
        problems.append(
            f"{path.name}: its sidecar names no file that {framework} was imported from"
        )
    elif framework not in Path(sidecar.framework_file).parts:
        file = escaped(sidecar.framework_file)
        problems.append(f"{path.name}: its {framework} was imported from {file}")
    if sidecar.torch_is_paddle and framework == "torch":
        return [
            f"{path.name}: in its process `import torch` gave Paddle; remove paddle.enable_compat()"
        ]
    other = next(name for name in SIDES if name != framework)
    if sidecar.framework_kernels and not sidecar.transplanted:
        if framework not in sidecar.framework_kernels or other in sidecar.framework_kernels:
            kernels = escaped(" and ".join(sidecar.framework_kernels))
            problems.append(f"{path.name}: what computed in its process was {kernels}'s own code")
    loaded = sidecar.frameworks_loaded
    if framework not in loaded:
        problems.append(f"{path.name}: its process had not loaded {framework}")
    elif len(loaded) > 1 and not sidecar.transplanted:
        problems.append(f"{path.name}: its process had loaded {escaped(' and '.join(loaded))}")
    if side not in fresh and sidecar.log_sha256 != file_sha256(path):
        problems.append(f"{path.name} is not the file that its sidecar describes: run it again")
    return problems


def two_environments(ref: Sidecar, cand: Sidecar) -> list[str]:
    """Notes on what ran each side, where two Pythons or a GPU did, and on what that means."""
    sides, notes = [], []
    for one in (ref, cand):
        told, gpu = one.environment, one.environment.get("gpu")
        sides.append(
            f"{one.framework} {one.framework_version} on Python {told.get('python')} with "
            f"NumPy {told.get('numpy')}{f', {gpu}' if gpu else ''}"
        )
        if told.get("tf32") == "on":
            notes.append(
                f"{one.framework} multiplies float32 in TF32 here, whose error is up to thousands "
                "of times float32's; Paddle may have torch's. Turn it off: NVIDIA_TF32_OVERRIDE=0"
            )
    if cand.torch_is_paddle:
        notes.append(
            f"the port ran under paddle.enable_compat(): its `import torch` is Paddle "
            f"{cand.framework_version}; the reference is torch {ref.framework_version}, from "
            f"{ref.framework_file}"
        )
    if any(ref.environment.get(n) != cand.environment.get(n) for n in ("executable", "gpu")):
        notes.insert(0, f"two environments: {'; '.join(sides)}")
    return [escaped(note) for note in notes]


def same_content(ref_path: AnyPath, cand_path: AnyPath) -> bool:
    """True if two logs hold the same bits under the same keys, and floats enough to mean it.

    A single number in float64 means nothing: Python made it, as it does a learning rate or an
    accuracy, which are equal by right.  A framework's losses are in float32.
    """
    with read_log(ref_path) as ref, read_log(cand_path) as cand:
        if set(ref) != set(cand):
            return False
        floats = 0
        for key in ref:
            if ref.shape(key) != cand.shape(key) or ref.dtype(key) != cand.dtype(key):
                return False  # nothing of them is read
            if not same_bits(ref[key], cand[key]):
                return False
            of_framework = ref.dtype(key).itemsize < 8 or ref[key].size > 1
            floats += ref[key].size if ref.dtype(key).kind == "f" and of_framework else 0
        return floats >= ENOUGH_FLOATS
