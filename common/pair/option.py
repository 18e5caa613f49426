"""An option of the command line, declared once: as a field of what it sets.

What a side is asked (RunRequest) and what concerns the check alone (common/check/options.py) have
such fields; the flag with its help, the check's value, the request and what a record keeps of it
are all made from the field.
"""

from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields, replace
from pathlib import Path


@dataclass(frozen=True)
class Option:
    """A field's option: its flag, its help, and which commands take it."""

    name: str  # as it is typed, without the dashes
    help_text: str
    of: str  # the group of commands that take it (common/check/options.py)
    told: Mapping[str, object]  # what argparse is told beside the help
    least: int | None = None  # of a number: the smallest that it takes
    kept: bool = True  # it makes other results: a record of a run keeps it
    judges: bool = False  # it means something where logs are judged that are there


def option(default: object, help_text: str, /, *, of: str, name: str = "", **said: object):
    """A field that an option sets: `said` is what an Option has, or what argparse is told."""
    own = {key: said.pop(key) for key in ("least", "kept", "judges") if key in said}
    one = Option(name, help_text, of, said, **own)
    return field(default=default, metadata={"option": one, "choices": said.get("choices")})


def options_of(declared: type) -> dict[str, Option]:
    """Field -> its option, of the fields of a dataclass that have one."""
    found = {each: each.metadata.get("option") for each in fields(declared)}
    return {
        each.name: replace(one, name=one.name or each.name.replace("_", "-"), told=_told(each, one))
        for each, one in found.items()
        if one is not None
    }


def _told(of: Field, one: Option) -> dict[str, object]:
    """Return argparse's arguments for an option: by the field's default and type, and by its own.

    A list is given by the option's repetition, a false by leaving the option out.
    """
    usual: dict[str, object] = {"default": of.default}
    if of.default is False:
        usual = {"action": "store_true"}
    elif isinstance(of.default, tuple):
        usual = {"action": "append", "default": []}
    elif one.least is not None:
        usual["metavar"] = "N"
    elif of.type == Path | None:
        usual["type"] = Path
    return usual | dict(one.told) | {"help": one.help_text}
