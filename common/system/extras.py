"""Extras: features beside the core, which finds them by their entry points and never imports them.

pyproject.toml names the entry points of those in extras/, a table for each group.  A checkout is
used in place, so that nothing of it need be installed: they are read from that file.  Those of an
installed package stand beside it, where another Python finds them too.
"""

import re
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from importlib import metadata

from twincheck import IN_A_CHECKOUT
from twincheck.common.system.checkout import ROOT
from twincheck.common.system.errors import UserError
from twincheck.common.system.reasons import ENGLISH, Kind, Reason
from twincheck.common.system.words import named

COMMANDS = "twincheck.commands"  # name -> a function of the arguments; gives the status


def entry_points(group: str) -> dict[str, metadata.EntryPoint]:
    """Name -> entry point of a group, of this checkout and of what is installed."""
    found = {point.name: point for point in metadata.entry_points(group=group)}
    if IN_A_CHECKOUT:
        text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")  # no tomllib in Python 3.10
        table = text.partition(f'[project.entry-points."{group}"]\n')[2].partition("\n[")[0]
        own = re.findall(r'^([\w-]+) = "(.+)"$', table, re.MULTILINE)
        return found | {name: metadata.EntryPoint(name, value, group) for name, value in own}
    beside = metadata.distributions(name="twincheck", path=[str(ROOT.parent)])
    return found | {p.name: p for one in beside for p in one.entry_points if p.group == group}


def load(group: str, name: str) -> object:
    """What an entry point names; raises UserError where its extra is not there."""
    point = entry_points(group).get(name)
    try:
        if point is not None:
            return point.load()
    except ModuleNotFoundError as error:
        if not f"{point.module}.".startswith(f"{error.name}."):
            raise
    module = point.module.removeprefix("twincheck.") if point else f"extras.{name}."
    where = module.rpartition(".")[0].replace(".", "/")
    raise UserError(Kind.EXTRA_MISSING(name=name, folder=where))


def load_all(group: str) -> list:
    """What the entry points of a group name, of those extras that are there."""
    found = []
    for name in entry_points(group):
        with suppress(UserError):
            found.append(load(group, name))
    return found


# The languages beside English: modules, of what is printed, and what a page holds.
languages = cache(partial(load_all, "twincheck.languages"))


def in_language(text: str) -> str:
    """Return a reason, or a constant text, in the language that people read; names stay."""
    speaking = next((one.LANGUAGE for one in languages() if one.speaks()), ENGLISH)
    if not isinstance(text, Reason):
        return speaking.said(text)
    by_names = lambda english: named(speaking.template(english), speaking.said)  # noqa: E731
    return replace(speaking, template=by_names).said(text)


def described(doc: str) -> str:
    """Return a program's docstring in the language that people read, by paragraphs and lines."""
    parts = re.split(r"(\s*\n\s*\n\s*)", doc.strip())
    for i, part in enumerate(parts):
        said = in_language(part)
        by_line = said == part
        parts[i] = re.sub(r"\S.*\S", lambda line: in_language(line[0]), part) if by_line else said
    return "".join(parts)


def run(name: str, arguments: Sequence[str] | None = None) -> int:
    """An extra's command; returns the exit status, 2 where the extra is not there."""
    try:
        command: Callable = load(COMMANDS, name)
    except UserError as error:
        print(in_language(Kind.ERROR_SAID(sentence=str(error))), file=sys.stderr)
        return 2
    return command(arguments)
