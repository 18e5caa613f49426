"""What to type after a red result: commands that can be copied, whatever a path holds."""

import os
from collections.abc import Callable, Container, Iterable, Sequence
from pathlib import Path

from twincheck.common.logs.key import BUFFER, Key, parent_of
from twincheck.common.system.door import shown, to_type
from twincheck.common.system.reasons import Kind

PAGE = "docs/red-check.md"
# Options that step 1 of the same model takes over, and that a judging of its logs does.
_FORWARD = "preset device dtype autocast seed weights case mode torch-python paddle-python"
_EXTRA = ("preset", "mode", "seed", "weights", "torch-python", "paddle-python")
OTHER = ("candidate", "against", "reference", "dtype", "autocast")  # than Paddle's float32
_JUDGING = ("candidate", "against", "case", "probe", "no-probe", "allow", "strict")
_PLACE = ("model", "out")  # which are said of every command


def next_commands(result, findings: Sequence, results: Sequence = ()) -> list[tuple[str, str]]:
    """(what it is for, command) of what helps with findings of a red result; the first tensor's.

    results  all of the check: of the model's step 1 nothing is asked that is among them
    """
    step, found = result.step, []
    key = next((f.row.key for f in findings if f.places and not (step.other or f.is_start)), None)
    ran = any((one.step.number, one.model) == (1, result.model) for one in results)
    if step.number > 1 and not (ran or step.data or step.other):  # the forward pass may be another
        forward = _run(result, "step1", *_typed(result, _FORWARD.split()))
        found.append((Kind.TYPE_STEP_1(), forward))
    if key:
        found.append((Kind.TYPE_SHOW(), look(result, key)))
        found.append((Kind.TYPE_LESS(), _less(result, key)))
    mends = Kind.TYPE_MEND()
    if findings and all(one.row.verdict == "PRECISION" for one in findings):  # the same function
        mends = Kind.TYPE_MEND_PRECISION()
        found.append((Kind.TYPE_ALLOW_PRECISION(), f"{again(result)} --allow precision"))
    found.append((mends, extra(result, "mend")))
    found.append((Kind.TYPE_ISSUE(), extra(result, "issue")))
    found.append((Kind.TYPE_AGAIN(), again(result)))
    if not any(name == "compare-only" for name, _ in result.typed):
        judged = _run(result, result.step.command, *_typed(result, _JUDGING), "--compare-only")
        found.append((Kind.TYPE_COMPARE_ONLY(), judged))
    return [(why, command) for why, command in found if command]


def mend_of_start(result) -> list[tuple[str, str]]:
    """(what it is for, command) where initial values are not torch's, which decides nothing."""
    mend = extra(result, "mend") if result.initial else ""
    return [(Kind.TYPE_MEND_START(), mend)] if mend else []


def again(result) -> str:
    """Return the command that repeats a result's run, with its options and every row written."""
    names = {name for name, _ in result.typed}
    rows = () if "json" in names else ("--json", "rows.json")
    return _run(result, result.step.command, *_typed(result, names.difference(_PLACE)), *rows)


def extra(result, name: str) -> str:
    """A command that looks for more in a user's own port; empty where it cannot."""
    asked = {name for name, _ in result.typed}
    fits = result.step.number in (1, 3, 4) or name == "mend" and result.starts
    if not fits or not (result.asked_for and asked.isdisjoint(OTHER)):
        return ""
    return _run(result, name, *_typed(result, _EXTRA))


def whole(
    command: str, typed: Iterable[tuple[str, Sequence[str]]], spelled: Callable = to_type
) -> str:
    """A command of some models and its options, as who typed them may type it again.

    spelled   by whom: to_type or for_others (system/door.py)
    """
    given = {name: list(words) for name, words in typed}
    models, out = given.get("model", [])[1::2], given.get("out", [])[1:]
    if len(models) != 1:
        return spelled(command, *(word for words in given.values() for word in words))
    others = [word for name, words in given.items() if name not in _PLACE for word in words]
    return spelled(command, *_of_model(models[0], Path(out[0]) if out else None), *others)


def _typed(result, names: Container[str]) -> list[str]:
    return [word for name, words in result.typed if name in names for word in words]


def _run(result, command: str, *words: str, key: Sequence[str] = ()) -> str:
    """A command for a result's model and the place of its logs, with further words.

    key   what stands before the model
    """
    model = shown(result.asked_for) if result.asked_for else result.model
    if result.asked_for and os.sep not in model:
        model = os.path.join(os.curdir, model)  # or it may be a name
    return to_type(command, *key, *_of_model(model, _out(result)), *words)


def _out(result) -> Path | None:
    """Return the --out of a result's logs; None where they are in the step's own folder."""
    if result.folder == Path():  # nothing is there
        return next((Path(words[1]) for name, words in result.typed if name == "out"), None)
    base = result.folder.parent.parent if result.step.other else result.folder.parent
    return None if base == result.step.folder / "log" else base.parent


def _of_model(model: str, out: Path | None) -> list[str | Path]:
    """A command's words for a model, and for the place of its logs unless that is the usual one.

    What is named alone has its logs beside it, or here; by --model in a checkout's own folders.
    """
    if out is None:
        return ["--model", model]
    usual = Path(model, "log") if os.path.isdir(model) else Path("log")
    return [model] if out.absolute() == usual.absolute() else [model, "--out", out]


def look(result, key: str) -> str:
    """The command that shows both sides' values around a row's worst element; none of an error."""
    if result.error:
        return ""
    return _run(result, "show", "--step", str(result.step.number), key=[key])


def _less(result, key: str) -> str:
    """Return the command for a row's case and module alone; empty where none is smaller."""
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
    dropped = {"probe", "no-probe", "json", "compare-only", *_PLACE}
    dropped |= {"case"} if "--case" in narrower else set()
    if not narrower:
        return ""
    return _run(result, result.step.command, *_typed(result, names - dropped), *narrower)


def module_of(result, key: str) -> str:
    """The module that a row's value belongs to, by torch's name; empty where none is known."""
    parts = Key.parse(key, result.cases)
    module = parts.site.partition("/")[0]
    if parts.kind in ("grad", BUFFER):
        return parent_of(module)
    return module if key in result.classes.get("torch", {}) else ""
