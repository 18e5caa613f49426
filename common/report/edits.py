"""Edits of the Paddle side's source that a finding itself proves: another setting, another class.

Nothing is guessed.  A setting is edited where the call that builds the layer is the only one of its
class at its line and has the value that was found there, as a literal or as what is left out; where
that line is not known, the only one of the file with that value, as a literal.  A class is edited
where both are activations of one name in both frameworks, and the file builds it once.
"""

import ast
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from twincheck.common.system.errors import UserError
from twincheck.common.system.files import open_plain

# A setting -> what Paddle calls the argument, where that is not the setting's name.
_ARGUMENTS = {"rate": "p", "number of groups": "num_groups", "tanh form": "approximate"}
# (Class, argument) -> its place among Paddle's positional arguments: these may be left out.
PLACES = {
    **{(name, "p"): 0 for name in ("Dropout", "Dropout2D", "Dropout3D", "AlphaDropout")},
    **{(name, "alpha"): 0 for name in ("ELU", "CELU")},
    ("LeakyReLU", "negative_slope"): 0,
    ("GELU", "approximate"): 0,
    ("Softplus", "beta"): 0,
    ("Softplus", "threshold"): 1,
    ("LayerNorm", "epsilon"): 1,
    ("GroupNorm", "num_groups"): 0,
    ("GroupNorm", "epsilon"): 2,
    **{(f"BatchNorm{n}D", "momentum"): 1 for n in (1, 2, 3)},
    **{(f"BatchNorm{n}D", "epsilon"): 2 for n in (1, 2, 3)},
}
# Activations that both frameworks call the same, and that are built without an argument.
SAME = """
    CELU ELU GELU Hardshrink Hardsigmoid Hardswish Hardtanh LeakyReLU LogSigmoid Mish ReLU ReLU6
    SELU Sigmoid Softplus Softshrink Softsign Tanh Tanhshrink
""".split()
_TRUTH = {"on": True, "off": False}


@dataclass(frozen=True)
class _Change:
    """What is to be put in the place of a part of a source; ends are as ast counts, in bytes."""

    line: int
    begin: int
    end: int
    text: str


def edits_of(finding: Mapping) -> list[dict[str, object]]:
    """The edits that mend a finding: file, line, the whole line as it is, and as it should be.

    Empty where none is known; where one of several settings has none, the others are there.
    """
    side = finding["paddle"]
    if finding["verdict"] != "DIVERGED" or not (side and side["file"] and side["class"]):
        return []
    try:
        with open_plain(side["file"], links=True) as file:
            source = file.read().decode()
        calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    # It is no longer there, or no Python.
    except (UserError, OSError, ValueError, SyntaxError, MemoryError, RecursionError):
        return []
    calls = [call for call in calls if _name(call) == side["class"]]
    if finding["settings"]:
        changes = _settings(finding, calls)
    else:
        changes = _class(finding, calls)
    lines = source.replace("\r\n", "\n").split("\n")
    edited = {change.line: lines[change.line - 1].encode() for change in changes}
    for change in sorted(changes, key=lambda one: -one.begin):  # from behind: places before it stay
        old = edited[change.line]
        edited[change.line] = old[: change.begin] + change.text.encode() + old[change.end :]
    return [
        {"file": side["file"], "line": line, "old": lines[line - 1], "new": new.decode()}
        for line, new in sorted(edited.items())
    ]


def _name(call: ast.Call) -> str:
    """`LayerNorm` of nn.LayerNorm(…)."""
    return getattr(call.func, "attr", getattr(call.func, "id", ""))


def _settings(finding: Mapping, calls: list[ast.Call]) -> list[_Change]:
    """The changes of the one call that builds the layer."""
    line = finding["paddle"]["line"]
    here = [call for call in calls if call.lineno <= line <= call.end_lineno]
    found = [
        [change for each in finding["settings"] for change in _setting(each, call, bool(here))]
        for call in here or calls
    ]
    # At the line it is one call or another; elsewhere it is the one with that value.
    found = found if here else [changes for changes in found if changes]
    return found[0] if len(found) == 1 else []


def _setting(setting: Mapping, call: ast.Call, adds: bool) -> Iterator[_Change]:
    """One change, or none where the value does not stand there as such.

    adds  whether an argument that is left out may be added
    """
    argument = _ARGUMENTS.get(setting["name"], setting["name"].replace(" ", "_"))
    place = PLACES.get((_name(call), argument))
    starred = any(isinstance(one, ast.Starred) for one in call.args)
    starred |= any(one.arg is None for one in call.keywords)
    value = next((one.value for one in call.keywords if one.arg == argument), None)
    if value is None and place is not None and place < len(call.args) and not starred:
        value = call.args[place]
    if isinstance(value, ast.Constant):
        if value.lineno == value.end_lineno and _alike(value.value, setting["paddle"]):
            text = _literal(setting["wanted"], whole=type(value.value) is int)
            yield _Change(value.lineno, value.col_offset, value.end_col_offset, text)
    elif (
        adds
        and value is None
        and place is not None
        and not starred
        and call.lineno == call.end_lineno
    ):
        comma, end = ", " if call.args or call.keywords else "", call.end_col_offset - 1
        text = f"{comma}{argument}={_literal(setting['wanted'])}"
        yield _Change(call.end_lineno, end, end, text)


def _class(finding: Mapping, calls: list[ast.Call]) -> list[_Change]:
    """The change of the class of the one call that builds it."""
    torch, paddle = (finding[side]["class"] for side in ("torch", "paddle"))
    is_input = ":in/" in finding["key"]
    if is_input or torch == paddle or not {torch, paddle} <= set(SAME) or len(calls) != 1:
        return []
    (call,) = calls
    if call.args or call.keywords or call.func.lineno != call.func.end_lineno:
        return []
    end = call.func.end_col_offset
    return [_Change(call.func.lineno, end - len(paddle), end, torch)]


def _alike(value: object, found: float | str) -> bool:
    """True where a literal is the value that was found."""
    if isinstance(value, bool) or isinstance(found, str):
        return value == _TRUTH.get(found, found)
    return isinstance(value, int | float) and math.isclose(value, found, rel_tol=1e-6)


def _literal(value: float | str, whole: bool = False) -> str:
    """How it is written in Python; a whole number where one stood."""
    if isinstance(value, str):
        return repr(_TRUTH.get(value, value))
    return repr(int(value) if whole and value == int(value) else value)
