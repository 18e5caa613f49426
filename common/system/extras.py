"""Extras: features beside the core, which finds them by their entry points and never imports them.

pyproject.toml names the entry points of those in extras/, a table for each group.  A checkout is
used in place, so that nothing of it need be installed: they are read from that file.  Those of an
installed package stand beside it, where another Python finds them too.
"""

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from importlib import metadata
from importlib.util import find_spec

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
    """Return what an entry point names; raises UserError where its extra is not there."""
    point = entry_points(group).get(name)
    if point is None:
        raise UserError(Kind.EXTRA_MISSING(name=name, folder=f"extras/{name}"))
    return loaded(name, point.value)


def loaded(name: str, value: str) -> object:
    """Return what module:attribute names; raises UserError where the module is not there."""
    point = metadata.EntryPoint(name, value, "")
    try:
        return point.load()
    except ModuleNotFoundError as error:
        if not f"{point.module}.".startswith(f"{error.name}."):
            raise
    where = point.module.removeprefix("twincheck.").rpartition(".")[0].replace(".", "/")
    raise UserError(Kind.EXTRA_MISSING(name=name, folder=where))


def help_line(value: str) -> str:
    """Return the first line of the docstring of the module that module:attribute names.

    Empty where there is no such module.
    """
    with suppress(ModuleNotFoundError):  # the package around it is not there either
        if spec := find_spec(value.partition(":")[0]):
            with open(spec.origin, encoding="utf-8") as file:
                return file.readline().strip().strip('"')
    return ""


def of_pairs(results: str = "", behind: int = 0) -> Callable[[Callable], Callable]:
    """Mark a command whose words name pairs, which become its --model.

    results  the option that says where their results are
    behind   so many words that are no pairs
    """

    def marked(main: Callable) -> Callable:
        main.results, main.behind = results, behind
        return main

    return marked


def load_all(group: str) -> list:
    """Load what the entry points of a group name, of those extras that are there."""
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
