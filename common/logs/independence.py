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
from twincheck.common.logs.reader import read_log
from twincheck.common.logs.result_folder import LogName, ResultFolder
from twincheck.common.logs.sidecar import Sidecar, sidecar_of
from twincheck.common.system.frameworks import SIDES, framework_of
from twincheck.common.system.hashes import file_sha256, same_bits
from twincheck.common.system.reasons import Kind
from twincheck.common.system.words import escaped

# What the two logs of a pair must agree on, and what it is called.
_MUST_AGREE = {
    "step": Kind.OF_STEPS(),
    "model": Kind.OF_MODELS(),
    "preset": Kind.OF_PRESETS(),
    "seed": Kind.OF_SEEDS(),
    "mode": Kind.OF_MODES(),
    "probes": Kind.OF_PROBES(),
    "no_probe": Kind.OF_NO_PROBES(),
    "dtype": Kind.OF_DTYPES(),
    "inputs_sha256": Kind.OF_INPUTS(),
    "weights_sha256": Kind.OF_WEIGHTS(),
}
# Of these, what all logs of a folder must agree on, and what all logs of one stem.
_ONE_RUN = ("model", "preset", "seed", "mode", "probes", "no_probe")
_ONE_START = ("inputs_sha256", "weights_sha256")

AnyPath = str | os.PathLike
ENOUGH_FLOATS = 4  # that agree to the last bit: fewer may do so by chance, as two accuracies do


def folder_problems(
    folder: Path, fresh: Collection[str] = (), backends: tuple[str, str] = SIDES
) -> list[str]:
    """Return why a folder's logs show nothing; an empty list where they can be judged.

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
    """Return the problems that folder_problems finds in the sidecars alone; no log is read."""
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
        sidecar, log = sidecars[path], path.name
        if sidecar.step not in (None, name.stem):
            other = {"stem": escaped(sidecar.step), "wanted": name.stem}
            problems.append(Kind.LOG_OF_ANOTHER_STEM(log=log, **other))
        if sidecar.dtype is not None and (sidecar.dtype == "float64") != (name.dtype == "float64"):
            other = {"dtype": escaped(sidecar.dtype), "wanted": name.dtype}
            problems.append(Kind.LOG_OF_ANOTHER_DTYPE(log=log, **other))
        if bool(sidecar.teacher_forced) != name.teacher_forced:
            run = Kind.LOG_OF_A_RUN_NOT_FED if name.teacher_forced else Kind.LOG_OF_A_FED_RUN
            problems.append(run(log=log))
        if bool(sidecar.exact) != name.exact:
            run = Kind.LOG_OF_OWN_OPERATORS if name.exact else Kind.LOG_OF_EXACT_OPERATORS
            problems.append(run(log=log))
    return problems


def _mixed(logs: Mapping[Path, LogName], sidecars: Mapping[Path, Sidecar]) -> list[str]:
    """Logs of one folder that are from different runs, although each pair agrees."""
    problems, first = [], {}
    for path, name in logs.items():
        cases = tuple(sidecars[path].cases)  # a further run may be of some cases alone
        for entries, group in ((_ONE_RUN, ""), (_ONE_START, (name.stem, cases))):
            one = first.setdefault(group, path)
            problems += [
                Kind.LOGS_OF_DIFFERENT(log=one.name, other=path.name, what=_MUST_AGREE[entry])
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
    """Return why two logs do not show that two frameworks agree; an empty list where they do.

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
        names = {"log": Path(ref_path).name, "other": Path(cand_path).name}
        problems.append(Kind.LOGS_OF_THE_SAME_BITS(**names))
    return problems


def from_one_side(ref_path: AnyPath, cand_path: AnyPath, ref: Sidecar, cand: Sidecar) -> str:
    """Return why two logs, maybe anybody's, are from one side; empty where nothing says so."""
    names = {"log": Path(ref_path).name, "other": Path(cand_path).name}
    for sidecar in (ref, cand):
        if sidecar.torch_is_paddle and sidecar.framework != "paddle":
            return Kind.LOGS_OF_TORCH_AS_PADDLE(**names)
    if ref.framework and ref.framework == cand.framework:
        return Kind.LOGS_OF_ONE_MAKER(maker=escaped(ref.framework), **names)
    if ref.framework_file and ref.framework_file == cand.framework_file:
        return Kind.LOGS_OF_ONE_MAKER(maker=escaped(ref.framework_file), **names)
    two = {ref.framework, cand.framework} == set(SIDES) and ref.sealed and cand.sealed
    if two or transplanted((ref, cand)):
        return ""
    for path in (ref_path, cand_path):  # before anything of a file that is no log is hashed
        read_log(path).close()
    if os.path.samefile(ref_path, cand_path):
        return Kind.LOG_GIVEN_TWICE(log=names["log"])
    if same_content(ref_path, cand_path):
        return Kind.LOGS_OF_THE_SAME_BYTES(**names)
    return ""


def _disagreements(ref: Sidecar, cand: Sidecar) -> list[str]:
    problems: list[str] = []
    if Sidecar() in (ref, cand):
        return problems
    for entry, what in _MUST_AGREE.items():
        torch, paddle = getattr(ref, entry), getattr(cand, entry)
        if torch != paddle:
            values = {"torch": torch, "paddle": paddle}
            problems.append(
                Kind.TWO_LOGS_OF_DIFFERENT(what=what)
                if entry.endswith("sha256")
                else Kind.TWO_LOGS_OF_DIFFERENT_VALUES(what=what, **values)
            )
    one = ref.framework_file and ref.framework_file == cand.framework_file
    if one and framework_of(ref.backend) != framework_of(cand.backend):
        problems.append(Kind.TWO_LOGS_OF_ONE_FRAMEWORK(file=escaped(ref.framework_file)))
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
    """Return what a log's own sidecar says against it; see check_independence for the others."""
    problems, log = [], path.name
    if sidecar == Sidecar():
        return [Kind.LOG_WITHOUT_SIDECAR(log=log)]
    made_by, wanted = sidecar.backend, backends[SIDES.index(side)]
    if made_by != wanted or sidecar.framework != framework_of(wanted):
        made_by = escaped(str(made_by if made_by != wanted else sidecar.framework))
        return [Kind.LOG_MADE_BY_ANOTHER(log=log, maker=made_by, wanted=wanted)]
    framework = framework_of(wanted)
    if not sidecar.framework_file:
        problems.append(Kind.LOG_WITHOUT_FRAMEWORK_FILE(log=log, framework=framework))
    elif framework not in Path(sidecar.framework_file).parts:
        made = {"framework": framework, "file": escaped(sidecar.framework_file)}
        problems.append(Kind.LOG_OF_ANOTHER_FRAMEWORK_FILE(log=log, **made))
    if sidecar.torch_is_paddle and framework == "torch":
        return [Kind.LOG_OF_TORCH_AS_PADDLE(log=log)]
    other = next(name for name in SIDES if name != framework)
    if sidecar.framework_kernels and not sidecar.transplanted:
        if framework not in sidecar.framework_kernels or other in sidecar.framework_kernels:
            kernels = list(map(escaped, sidecar.framework_kernels))
            problems.append(Kind.LOG_OF_OTHER_KERNELS(log=log, kernels=kernels))
    loaded = sidecar.frameworks_loaded
    if framework not in loaded:
        problems.append(Kind.LOG_WITHOUT_FRAMEWORK(log=log, framework=framework))
    elif len(loaded) > 1 and not sidecar.transplanted:
        problems.append(Kind.LOG_WITH_OTHER_FRAMEWORKS(log=log, loaded=list(map(escaped, loaded))))
    if side not in fresh and sidecar.log_sha256 != file_sha256(path):
        problems.append(Kind.LOG_NOT_ITS_SIDECARS(log=log))
    return problems


def two_environments(ref: Sidecar, cand: Sidecar) -> list[str]:
    """Notes on what ran each side, where two Pythons or a GPU did, and on what that means."""
    sides, notes = [], []
    for one in (ref, cand):
        told, gpu = one.environment, one.environment.get("gpu")
        said = {"framework": one.framework, "version": one.framework_version}
        said |= {name: told.get(name) for name in ("python", "numpy")}
        with_gpu = Kind.ENVIRONMENT_WITH_GPU
        sides.append(with_gpu(gpu=gpu, **said) if gpu else Kind.ENVIRONMENT(**said))
        if told.get("tf32") == "on":
            notes.append(Kind.TF32_IS_ON(framework=one.framework))
    if cand.torch_is_paddle:
        versions = {"paddle": cand.framework_version, "torch": ref.framework_version}
        notes.append(Kind.PORT_UNDER_COMPAT(file=ref.framework_file, **versions))
    if any(ref.environment.get(n) != cand.environment.get(n) for n in ("executable", "gpu")):
        notes.insert(0, Kind.TWO_ENVIRONMENTS(sides=sides))
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
