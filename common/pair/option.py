"""An option of the command line, declared once: as a field of what it sets.

What a side is asked (RunRequest) and what concerns the check alone (common/check/options.py) have
such fields; the flag with its help, the check's value, the request and what a record keeps of it
are all made from the field.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields


@dataclass(frozen=True)
class Option:
    """What a field says of its option.

    name     as it is typed, without the dashes
    dest     the field
    of       the group of commands that take it (common/check/flags.py)
    told     what argparse is told of it
    least    of a number: the smallest that it takes
    kept     it makes other results: a record keeps it
    judges   it means something where logs are judged that are there, and nothing runs
    """

    name: str
    dest: str
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
    kept: bool = False,
    judges: bool = False,
    **told: object,
):
    """A field that an option sets; `told` is what argparse is told beside what the default says.

    A list is given by the option's repetition, a false by leaving the option out.
    """
    if default is False:
        usual: dict[str, object] = {"action": "store_true"}
    elif isinstance(default, tuple):
        usual = {"action": "append", "default": []}
    else:
        usual = {"default": default}

    def named(dest: str) -> Option:
        words = {**usual, **told, "help": help_text}
        return Option(name or dest.replace("_", "-"), dest, of, words, least, kept, judges)

    metadata: dict[str, Callable[[str], Option]] = {"option": named}
    return field(default=default, metadata=metadata | {"choices": told.get("choices")})


def options_of(declared: type) -> dict[str, Option]:
    """Field -> its option, of the fields of a dataclass that have one."""
    made = {each.name: each.metadata.get("option") for each in fields(declared)}
    return {name: named(name) for name, named in made.items() if named is not None}
