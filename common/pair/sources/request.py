"""What passes between the check, the cache of data and a source: a request and its answer."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np


@dataclass(frozen=True)
class SourceRequest:
    """The request to a source: a file, the preset's settings, a seed, maybe a tokenizer."""

    path: Path | None  # None: the built-in text
    settings: dict  # the preset's entry in DATA
    config: dict  # the preset's configuration
    seed: int
    tokenizer: Path | None  # a SentencePiece model, for texts
    on_progress: Callable[[str], None]


@dataclass
class Dataset:
    """A source's answer: PART/NAME -> array, entries of the configuration, notes for people."""

    arrays: dict[str, np.ndarray]
    entries: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Source:
    """A kind of data that a preset may read."""

    what: str
    origin: str  # where it comes from
    sample: str  # a small one, in fake_data/
    settings: tuple[str, ...]  # those that a preset's entry in DATA may have beside its source
    build: Callable[[SourceRequest], Dataset]
    has_text: bool = True  # else step 2 has no text to show beside it
    cuts: bool = False  # whether its texts may be cut by a SentencePiece model


@dataclass(frozen=True)
class DataFile:
    """A dataset in a file, the configuration's entries that go with it, and notes."""

    file: Path
    entries: dict[str, int]
    notes: list[str]
