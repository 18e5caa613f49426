"""A report before it has a language: sections of sentences, tables, code and pictures."""

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Say:
    """A sentence or a word of words.py, with what is put into it."""

    word: str
    fields: dict = field(default_factory=dict)


@dataclass(frozen=True)
class Table:
    """A table: its columns are words, in one text; a cell is a text or a word."""

    columns: str
    rows: list[tuple]


@dataclass(frozen=True)
class Code:
    """Lines of code; without its language, of what a check said."""

    text: str
    language: str = ""


@dataclass(frozen=True)
class Picture:
    """A picture beside the report: a file, or two curves (steps, torch, paddle) to be drawn."""

    told: Say
    source: Path | dict


@dataclass(frozen=True)
class Folded:
    """What is shown at a click."""

    title: Say
    blocks: list


@dataclass(frozen=True)
class Section:
    """A heading and what stands below it."""

    name: str
    blocks: list
