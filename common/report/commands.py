"""What to type after a red result: commands that can be copied, whatever a path holds."""

import os
import shlex
import shutil
import sys
from collections.abc import Container, Sequence
from pathlib import Path

import twincheck
from twincheck.common.logs.key import BUFFER, Key, parent_of
from twincheck.common.system.checkout import ROOT
from twincheck.common.system.start import spelled

PAGE = "docs/red-check.md"
# Options that step 1 of the same model takes over, and that a judging of its logs does.
_FORWARD = "preset device dtype autocast seed weights case mode torch-python paddle-python out"
_EXTRA = ("preset", "mode", "seed", "weights", "torch-python", "paddle-python", "out")
OTHER = ("candidate", "against", "reference", "dtype", "autocast")  # than Paddle's float32
_JUDGING = ("candidate", "against", "out", "case", "probe", "no-probe", "allow", "strict")


def next_commands(result, findings: Sequence, results: Sequence = ()) -> list[tuple[str, str]]:
    """(what it is for, command) of what helps with findings of a red result; the first tensor's.

    results  all of the check: of the model's step 1 nothing is asked that is among them
    """
    step, found = result.step, []
    key = next((one.row.key for one in findings if one.places and not step.other), None)
    ran = any((one.step.number, one.model) == (1, result.model) for one in results)
    if step.number > 1 and not (ran or step.data or step.other):  # the forward pass may be another
        before = "step 1 before: where the forward pass differs, so does all behind it"
        script = "step1_forward/check_step1.py"
        found.append((before, _check(result, *_typed(result, _FORWARD.split()), script=script)))
    if key:
        found.append(("both sides' values around the worst element", look(result, key)))
        found.append(("after an edit, that place alone", _less(result, key)))
    mends = "the edit that makes it green, tried and proven"
    if findings and all(one.row.verdict == "PRECISION" for one in findings):  # the same function
        mends = "what loses it in the port, such as a cast, tried and proven"
        meant = "where so much less precision is meant, let it pass"
        found.append((meant, f"{again(result)} --allow precision"))
    found.append((mends, extra(result, "mend")))
    found.append(("a small program that shows what differs", extra(result, "issue")))
    found.append(("again: the same, with every row in a file", again(result)))
    if not any(name == "compare-only" for name, _ in result.typed):
        judged = _check(result, *_typed(result, _JUDGING), "--compare-only")
        found.append(("judge these logs once more, run nothing", judged))
    return [(why, command) for why, command in found if command]


def again(result) -> str:
    """The same run for this model, with every option that was given, and every row written."""
    typed = [word for name, words in result.typed if name != "model" for word in words]
    rows = () if any(name == "json" for name, _ in result.typed) else ("--json", "rows.json")
    return _check(result, *typed, *rows)


def extra(result, name: str) -> str:
    """A command that looks for more in a user's own port; empty where it cannot."""
    asked = {name for name, _ in result.typed}
    if result.step.number not in (1, 3, 4) or not (result.asked_for and asked.isdisjoint(OTHER)):
        return ""
    run = ["twincheck"] if twincheck.COMMAND else [python(), shown(ROOT / "twincheck")]
    return shlex.join([*run, name, *_of_model(result, _typed(result, _EXTRA))])


def _typed(result, names: Container[str]) -> list[str]:
    return [word for name, words in result.typed if name in names for word in words]


def _check(result, *words: str, script: str = "") -> str:
    """The command that runs a result's check, or another, for its model, with further words."""
    run = program(script or result.step.check, by_path=True)
    return shlex.join([*run, *_of_model(result, words)])


def _of_model(result, words: Sequence[str]) -> list[str]:
    """A command's words with its model: where by `twincheck`, whose logs are usually beside it."""
    model, words = result.model, list(words)
    if result.asked_for:
        path = shown(Path(result.asked_for))
        model = path if os.sep in path else os.path.join(os.curdir, path)  # or it may be a name
    if not twincheck.COMMAND:
        return ["--model", model, *words]
    at = next((i for i, word in enumerate(words) if word == "--out"), None)
    if at is not None and Path(words[at + 1]).absolute() == Path(model).absolute() / "log":
        del words[at : at + 2]
    return [model, *words]


def look(result, key: str) -> str:
    """The command that shows both sides' values around a row's worst element; none of an error."""
    if result.error:
        return ""
    words = ["--step", str(result.step.number)]
    base = result.folder.parent.parent if result.step.other else result.folder.parent
    if base != result.step.folder / "log":
        words += ["--out", shown(base.parent)]
    return shlex.join([*program("common/show.py"), key, *_of_model(result, words)])


def _less(result, key: str) -> str:
    """The same check of a row's case and module alone; empty where it cannot be made smaller."""
    names = {name for name, _ in result.typed}
    whole = {"reference", "transplant"}  # logs of all cases; a search that looks at every tensor
    if "case" not in result.step.takes or not whole.isdisjoint(names):
        return ""
    parts = Key.parse(key, result.cases)
    case = parts.case.rstrip("/")
    narrower = ["--case", case or "main"] if len(result.cases) > 1 and not parts.run else []
    module = module_of(result, key)
    if module and key in result.classes.get("torch", {}):
        narrower += ["--probe", module]
    dropped = {"probe", "no-probe", "json", "model", "compare-only"}
    dropped |= {"case"} if "--case" in narrower else set()
    return _check(result, *_typed(result, names - dropped), *narrower) if narrower else ""


def module_of(result, key: str) -> str:
    """The module that a row's value belongs to, by torch's name; empty where none is known."""
    parts = Key.parse(key, result.cases)
    module = parts.site.partition("/")[0]
    if parts.kind in ("grad", BUFFER):
        return parent_of(module)
    return module if key in result.classes.get("torch", {}) else ""


def python() -> str:
    """How this Python is called from here: `python`, where that is the one, or its path."""
    here = shutil.which("python")
    if here and os.path.abspath(here) == os.path.abspath(sys.executable):
        return "python"
    return shown(Path(sys.executable))


def program(path: str, by_path: bool = False) -> list[str]:
    """How a program of the checkout is run from here: as a module in its root, else by its path.

    by_path  also there
    """
    if twincheck.COMMAND:
        return spelled(f"python {path}").split()
    if Path.cwd() == ROOT and not by_path:
        return [python(), "-m", path.removesuffix(".py").replace("/", ".")]
    return [python(), shown(ROOT / path)]


def shown(path: Path) -> str:
    """A path relative to where the user is, if it is below."""
    try:
        return str(path.relative_to(Path.cwd()))
    except (ValueError, OSError):  # elsewhere, or the user's folder is gone
        return str(path)
