"""What to type after a red result: commands that can be copied, whatever a path holds."""

import os
import shlex
import shutil
import sys
from pathlib import Path

from common.logs.key import Key, parent_of
from common.system.checkout import ROOT

PAGE = "docs/red-check.md"
_ROWS = ("--json", "rows.json")  # where no other file is asked for


def python() -> str:
    """How this Python is called from here: `python`, where that is the one, or its path."""
    here = shutil.which("python")
    if here and os.path.abspath(here) == os.path.abspath(sys.executable):
        return "python"
    return shown(Path(sys.executable))


def check(result, *more: str) -> list[str]:
    """The words that run a result's check again for its model, with further words."""
    script = shown(ROOT / result.step.check)
    return [python(), script, "--model", model(result), *more]


def model(result) -> str:
    """What --model takes for a result's model, from here."""
    if not result.asked_for:
        return result.model
    path = shown(Path(result.asked_for))
    return path if os.sep in path else os.path.join(os.curdir, path)  # or it may be a name


def again(result) -> str:
    """The same run for this model, with every option that was given, and every row written."""
    typed = [word for name, words in result.typed if name != "model" for word in words]
    more = () if any(name == "json" for name, _ in result.typed) else _ROWS
    return shlex.join(check(result, *typed, *more))


def look(result, key: str) -> str:
    """The command that shows both sides' values around a row's worst element."""
    command = [*program("common/show.py"), key, "--step", str(result.step.number)]
    command += ["--model", model(result)]
    if result.folder != result.step.folder / "log" / result.model:
        command += ["--out", shown(result.folder.parent.parent)]
    return shlex.join(command)


def less(result, key: str) -> str:
    """The same check of a row's case and module alone; empty where it cannot be made smaller."""
    takes = set(result.step.takes)
    whole = {"reference", "transplant"}  # logs of all cases; a search that looks at every tensor
    if "case" not in takes or not whole.isdisjoint(name for name, _ in result.typed):
        return ""
    parts = Key.parse(key, result.cases)
    case = parts.case.rstrip("/")
    narrower = ["--case", case or "main"] if len(result.cases) > 1 and not parts.run else []
    module = parts.site.partition("/")[0]
    module = parent_of(module) if parts.kind in ("grad", "buffer") else module
    if module and key in result.classes:
        narrower += ["--probe", module]
    dropped = {"probe", "no-probe", "json", "model", "compare-only"}
    dropped |= {"case"} if "--case" in narrower else set()
    typed = [word for name, words in result.typed if name not in dropped for word in words]
    return shlex.join(check(result, *typed, *narrower)) if narrower else ""


def judge_again(result) -> str:
    """Judge the logs that are there once more, without running anything."""
    kept = ("out", "case", "probe", "no-probe", "allow", "strict")
    typed = [word for name, words in result.typed if name in kept for word in words]
    return shlex.join(check(result, *typed, "--compare-only"))


def forward_first(result) -> str:
    """Step 1 of the same model; empty where this is step 1, or a step on other data."""
    if result.step.number == 1 or result.step.data or result.step.other:
        return ""
    script = shown(ROOT / "step1_forward" / "check_step1.py")
    takes = (
        "preset",
        "device",
        "dtype",
        "autocast",
        "seed",
        "weights",
        "case",
        "mode",
        "torch-python",
    )
    takes += ("paddle-python", "out")
    typed = [word for name, words in result.typed if name in takes for word in words]
    return shlex.join([python(), script, "--model", model(result), *typed])


def page() -> str:
    """Where the page on red checks is."""
    return shown(ROOT / PAGE)


def next_commands(result, key: str | None) -> list[tuple[str, str]]:
    """(what it is for, command) of what helps with a red result; `key` of its first tensor."""
    before = "step 1 before: where the forward pass differs, so does all behind it"
    found = [
        (before, forward_first(result)),
        ("both sides' values around the worst element", look(result, key) if key else ""),
        ("after an edit, that place alone", less(result, key) if key else ""),
        ("again: the same, with every row in a file", again(result)),
    ]
    if not any(name == "compare-only" for name, _ in result.typed):
        found.append(("judge these logs once more, run nothing", judge_again(result)))
    return [(why, command) for why, command in found if command]


def program(path: str) -> list[str]:
    """How a program of the checkout is run from here: as a module in its root, else by its path."""
    if Path.cwd() == ROOT:
        return [python(), "-m", path.removesuffix(".py").replace("/", ".")]
    return [python(), shown(ROOT / path)]


def shown(path: Path) -> str:
    """A path relative to where the user is, if it is below."""
    try:
        return str(path.relative_to(Path.cwd()))
    except (ValueError, OSError):  # elsewhere, or the user's folder is gone
        return str(path)
