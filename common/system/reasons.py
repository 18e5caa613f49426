"""Reasons: why something is as it is, as data, each with one English sentence.

The core's closed list of kinds, `Kind`, is common/report/reasons/*.toml: a template a kind, whose
fields say by their format which type they are.  An extra has a list of its own (`kinds_of`).  A
kind is one line: Python 3.10, which a side may have, reads no TOML.

    {key}             text, another reason, or a list of them, which "; " joins
    {names:and}       a list, which " and " joins; or `or`, `comma`, `space`, `lines`, `dots`, or
                      `listed`: a, b and c
    {shape!s}         a tuple, as Python prints it
    {count:,}         a whole number; {count:row|rows} counts what is named
    {gap:.1e}         a figure
"""

import json
import math
import string
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cache, cached_property
from pathlib import Path

SENTENCES = Path(__file__).resolve().parent.parent / "report" / "reasons"


# What stands between the parts of a list, by the format of its field; `last` before the last one of
# `listed`.
_JOINTS = {"": "; ", "and": " and ", "or": " or ", "comma": ", ", "space": " ", "lines": "\n"}
_JOINTS |= {"dots": " · ", "listed": ", ", "last": " and "}


@dataclass(frozen=True)
class Language:
    """A language's way to say a reason: its templates and its joints.

    template   gives its template, of the English one
    joints     as above
    """

    template: Callable[[str], str] = lambda english: english
    joints: Mapping[str, str] = field(default_factory=lambda: _JOINTS)

    def said(self, text: str) -> str:
        """Return a reason in this language, or a constant text of several words; names stay."""
        if not isinstance(text, Reason):
            return self.template(text) if isinstance(text, str) and " " in text else text
        return self.filled(self.template(text.kind.template), text.fields)

    def filled(self, template: str, fields: Mapping[str, object]) -> str:
        """Return a template's text; string.Formatter takes three times as long."""
        return "".join(
            text if name is None else text + self.format_field(printed(fields[name]), spec)
            for text, name, spec, printed in _parts(template)
        )

    def format_field(self, value: object, spec: str) -> str:
        """Return a field's text."""
        if "|" in spec:
            return f"{value:,} {spec.split('|')[value != 1]}"
        if isinstance(value, list):
            return self.joined(map(self.said, value), spec)
        return format(self.said(value) if isinstance(value, str) else value, spec)

    def joined(self, parts: Iterable[str], joint: str) -> str:
        """Return the parts that are not empty as one text."""
        parts = list(filter(None, parts))
        if joint == "listed" and parts[1:]:
            *parts, last = parts
            return f"{self.joints[joint].join(parts)}{self.joints['last']}{last}"
        return self.joints[joint].join(parts)


class _Listed(Enum):
    """A member of the list; called with fields, it gives a reason."""

    def __init__(self, name: str, template: str):
        self.template = template

    def __call__(self, **fields: object) -> "Reason":
        """Return the reason of this kind; raises TypeError for other fields than its template's."""
        if fields.keys() != self.fields.keys():
            raise TypeError(f"{self.name}{tuple(self.fields)}: {tuple(fields)}")
        return Reason(self, fields)

    @cached_property
    def fields(self) -> dict[str, type]:
        """The fields of the template, in its order, and their types; of !r any."""
        parts = _parts(self.value[1])
        return {n: _PRINTED.get(way, _type_of(spec)) for _, n, spec, way in parts if n is not None}


_PRINTED = {str: tuple, repr: object}  # of a field that is printed as Python prints it


@cache
def _parts(template: str) -> list[tuple]:
    ways = {"s": str, "r": repr, None: lambda value: value}
    return [(*part, ways[way]) for *part, way in string.Formatter().parse(template)]


def _type_of(spec: str) -> type:
    if spec in _JOINTS:
        return str
    if "|" in spec or spec.endswith(("d", ",")):
        return int
    return float if spec else str


def kinds_of(module: str, *paths: Path) -> type[_Listed]:
    """Return the list of kinds in these files; raises ValueError for one that is there twice.

    module   under whose name it is pickled
    """
    found: dict[str, str] = {}
    for path in paths:
        for line in path.read_text(encoding="utf-8").splitlines():
            name, is_kind, text = line.partition(" = ")
            if not is_kind or line.startswith("#"):
                continue
            if name in found:
                raise ValueError(f"{path.name}: {name} is there twice")
            found[name] = json.loads(text)
    templates = {name: (name, text) for name, text in found.items()}
    _LISTS[module] = _Listed("Kind", templates, module=module)
    return _LISTS[module]


def own_kinds() -> type[_Listed]:
    """Return an extra's list, reasons.toml beside the file that asks: its __init__.py."""
    own = sys._getframe(1).f_globals
    return kinds_of(own["__name__"], Path(own["__file__"]).with_name("reasons.toml"))


_LISTS: dict[str, type[_Listed]] = {}  # those that this process has read, by their modules
Kind = kinds_of(__name__, *sorted(SENTENCES.glob("*.toml")))


class Reason(str):
    """A reason why something is as it is: a kind of the list and its fields; as text, a sentence.

    Two reasons are the same where kind and fields are, whatever the sentence is.
    """

    __slots__ = ("fields", "kind")

    def __new__(cls, kind: Kind, fields: dict[str, object]) -> "Reason":
        self = super().__new__(cls, ENGLISH.filled(kind.template, fields))
        self.kind, self.fields = kind, fields
        return self

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Reason):
            return (self.kind, self.fields) == (other.kind, other.fields)
        return str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__

    def __str__(self) -> str:
        return self  # so that str of an error that was raised with it is the reason too

    def __reduce__(self) -> tuple:
        return Reason, (self.kind, self.fields)

    def as_json(self) -> dict[str, object]:
        """Return kind and fields as plain values; of an extra's its list and the sentence too."""
        told = {"kind": self.kind.name} | {n: _plain(value) for n, value in self.fields.items()}
        if isinstance(self.kind, Kind):
            return told
        return told | {"list": type(self.kind).__module__, "english": plain(self)}


ENGLISH = Language()


def _plain(value: object) -> object:
    if isinstance(value, str):
        return value.as_json() if isinstance(value, Reason) else value
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    value = value.item() if hasattr(value, "item") else value
    endless = isinstance(value, float) and not math.isfinite(value)
    return str(value) if endless else value  # JSON has no word for it


def plain(text: str) -> str:
    """Return a text as Python's own str, which pathlib asks for."""
    return str.__str__(text)


def is_of(text: str, *kinds: Kind) -> bool:
    """Return whether a text is a reason of one of these kinds."""
    return isinstance(text, Reason) and text.kind in kinds


def renamed(told: object, old: str, new: str) -> object:
    """Return a text, a reason by its fields, or a list of these, with `new` in `old`'s place."""
    return mapped(told, lambda text: text.replace(old, new))


def mapped(told: object, change: Callable[[str], str]) -> object:
    """Return a text changed by a function, a reason by its fields, or a list of these."""
    if isinstance(told, list):
        return [mapped(one, change) for one in told]
    if isinstance(told, Reason):
        return Reason(told.kind, {n: mapped(value, change) for n, value in told.fields.items()})
    return change(told) if isinstance(told, str) else told


def read_reason(told: object) -> str:
    """Return a reason from its JSON; of a list that was not read, or a later version's, its text.

    Raises ValueError for fields that its kind has not.
    """
    if not isinstance(told, dict):
        return str(told)
    members = getattr(_LISTS.get(str(told.get("list", __name__))), "__members__", {})
    kind = members.get(str(told.get("kind")))
    if kind is None:
        return str(told.get("english", told.get("kind")))
    about = ("kind", "list", "english")
    fields = {name: read_value(value) for name, value in told.items() if name not in about}
    for name, of in kind.fields.items():
        if isinstance(fields.get(name), {tuple: list, float: str}.get(of, ())):
            fields[name] = of(fields[name])
    try:
        return kind(**fields)
    except TypeError as error:
        raise ValueError(str(error)) from None


def read_value(value: object) -> object:
    """Return a field from its JSON: a reason, a list, or a plain value."""
    if isinstance(value, list):
        return [read_value(one) for one in value]
    return read_reason(value) if isinstance(value, dict) else value


def reasons_json(reasons: Iterable[str]) -> list[dict[str, object]]:
    """Return the JSON of reasons; of text that is none, the kind TEXT."""
    return [(r if isinstance(r, Reason) else Kind.TEXT(text=r)).as_json() for r in reasons]
