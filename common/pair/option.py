"""An option of the command line, declared once: as a field of what it sets.

What a side is asked (RunRequest) and what concerns the check alone (common/check/options.py) have
such fields; the flag with its help, the check's value, the request and what a record keeps of it
are all made from the field.
"""

from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from pathlib import Path


@dataclass(frozen=True)
class Option:
    """What a field says of its option.

    name     as it is typed, without the dashes
    of       the group of commands that take it (common/check/flags.py)
    told     what argparse is told of it
    least    of a number: the smallest that it takes
    kept     it makes other results: a record of a run keeps it
    judges   it means something where logs are judged that are there, and nothing runs
    """

    name: str
    of: str
    told: Mapping[str, object]
    least: int | None
    kept: bool
    judges: bool


def option(
    default: object,
    help_text: str,
    /,
    *,
    of: str,
    name: str = "",
    least: int | None = None,
    kept: bool = True,
    judges: bool = False,
    **told: object,
):
    """A field that an option sets; `told` is what argparse is told beside what the default says.

    A list is given by the option's repetition, a false by leaving the option out.
    """
    usual: dict[str, object] = {"default": default}
    if default is False:
        usual = {"action": "store_true"}
    elif isinstance(default, tuple):
        usual = {"action": "append", "default": []}
    elif least is not None:
        usual["metavar"] = "N"

    def made(of_field: Field) -> Option:
        kind = {"type": Path} if of_field.type == Path | None else {}
        words = {**usual, **kind, **told, "help": help_text}
        typed = name or of_field.name.replace("_", "-")
        return Option(typed, of, words, least, kept, judges)

    return field(default=default, metadata={"option": made, "choices": told.get("choices")})


def options_of(declared: type) -> dict[str, Option]:
    """Field -> its option, of the fields of a dataclass that have one."""
    own = (each for each in fields(declared) if "option" in each.metadata)
    return {each.name: each.metadata["option"](each) for each in own}
