"""Texts with labels: CSV or TSV files, or folders with a .txt file for each text.

Settings, in DATA of a pair's case.py:

    length     tokens that a text is cut or padded to; eval_length: the same of the test set
    lower      put words into lower case
    columns    {"label": name or number from 0, "text": name, number, or a list of them}; by
               default the columns named label and text in the first line, else the first column is
               the label and the others the text (AG News: class,title,description)

What `--data` may be:

    a folder with train.csv and test.csv (or .tsv)
    one .csv or .tsv file: of train.csv the test.csv beside it is the test set
    a folder with train/CLASS/*.txt and test/CLASS/*.txt
    a folder with CLASS/*.txt

Without a test set a fifth of each class is one, drawn under the seed.  Labels are numbered in
their order: as numbers where all are numbers, else as text.  The vocabulary is built from the
training set's words, then the test set's.
"""

import csv
import re
from collections.abc import Iterator
from pathlib import Path

from twincheck.common.pair.sources.request import Dataset, Source, SourceRequest
from twincheck.common.pair.tape import Tape
from twincheck.common.system.errors import UserError
from twincheck.extras.sources import Kind
from twincheck.extras.sources.broken import BrokenLines
from twincheck.extras.sources.words import class_counts, labelled

_NUMBER = re.compile(r"-?[0-9]{1,18}")
TEST_SHARE = 5  # one in five is of the test set
MAX_CLASSES = 1000
Samples = list[tuple[str, str]]  # (label as it is written, text)


def build(request: SourceRequest) -> Dataset:
    """Read, split and tokenize; raises UserError where nothing is left to train on."""
    path = request.path
    train, test, notes = _read(request)
    if not train:
        none = Kind.TEXTS_NONE(path=str(path))
        why = notes[-1].fields["what"] if notes else ""
        raise UserError(Kind.TEXTS_ALL_LEFT_OUT(none=none, why=why) if why else none)
    if test is None:
        train, test = _split(train, request.seed)
        notes.append(Kind.TEST_SET_DRAWN(share=TEST_SHARE))
    if not test:
        raise UserError(Kind.TEXTS_FEW(path=str(path)))
    names = sorted({label for label, _ in train + test})
    if all(_NUMBER.fullmatch(name) for name in names):
        names.sort(key=int)
    if not 2 <= len(names) <= MAX_CLASSES:
        counts = {"count": len(names), "most": MAX_CLASSES}
        raise UserError(Kind.LABELS_COUNT(path=str(path), **counts))
    numbers = {name: i for i, name in enumerate(names)}
    parts = {
        part: [(numbers[label], text) for label, text in samples]
        for part, samples in (("train", train), ("test", test))
    }
    settings = request.settings
    lengths = {"train": settings["length"]}
    lengths["test"] = settings.get("eval_length", settings["length"])
    arrays, size = labelled(parts, settings.get("lower", False), lengths, request.on_progress)
    entries = {settings.get("vocabulary", "vocab_size"): size, "num_labels": len(names)}
    return Dataset(arrays, entries, [class_counts(parts, names), *notes])


def _read(request: SourceRequest) -> tuple[Samples, Samples | None, list[str]]:
    """Training, test (None where there is none), and notes."""
    path, other = request.path, None
    tables = [path / f"train{suffix}" for suffix in (".csv", ".tsv")]
    path = next((table for table in tables if table.is_file()), path)
    read = _table if path.is_file() else _folder
    if read is _table and path.stem == "train":
        other = path.with_name("test" + path.suffix)
    elif (path / "train").is_dir():
        path, other = path / "train", path / "test"
    columns = request.settings.get("columns")
    train, notes = read(path, columns)
    if other is None or not (other.is_file() if read is _table else other.is_dir()):
        return train, None, notes
    test, more = read(other, columns)
    return train, test, notes + more


def _split(samples: Samples, seed: int) -> tuple[Samples, Samples]:
    """Training and test: of each class one in TEST_SHARE, at least one, drawn under the seed."""
    of_class: dict[str, list[int]] = {}  # label -> the numbers of its samples
    for i, (label, _) in enumerate(samples):
        of_class.setdefault(label, []).append(i)
    drawn: set[int] = set()
    for label, numbers in sorted(of_class.items()):
        if len(numbers) > 1:
            order = Tape(seed).permutation(f"split/{label}", 0, len(numbers))
            drawn |= {numbers[i] for i in order[: max(1, len(numbers) // TEST_SHARE)]}
    train = [sample for i, sample in enumerate(samples) if i not in drawn]
    return train, [sample for i, sample in enumerate(samples) if i in drawn]


# ---- folders ------------------------------------------------------------------------------------


def _folder(path: Path, columns: dict | None) -> tuple[Samples, list[str]]:
    """The .txt files of each class's subfolder, in the order of their names."""
    broken, samples = BrokenLines(path.name), []
    for file in sorted(path.glob("*/*.txt")):
        try:
            samples.append((file.parent.name, file.read_bytes().decode("utf-8")))
        except UnicodeDecodeError:
            broken.add_file(f"{file.parent.name}/{file.name}", Kind.NO_UTF8())
        except OSError as error:
            broken.add_file(f"{file.parent.name}/{file.name}", str(error.strerror))
    return samples, broken.notes(Kind.FILES_LEFT_OUT)


# ---- tables -------------------------------------------------------------------------------------


def _table(path: Path, wanted: dict | None) -> tuple[Samples, list[str]]:
    """The rows of a CSV or TSV file."""
    broken, samples = BrokenLines(path.name), []
    columns, width = None, 0
    for line, row in _rows(path, broken):
        if columns is None:
            columns, is_header = _columns(path, row, wanted)
            width = len(row)
            if is_header:
                continue
        if len(row) != width:
            broken.add(line, Kind.COLUMNS_DIFFER(count=width))
            continue
        if any("\udc80" <= mark <= "\udcff" for cell in row for mark in cell):
            broken.add(line, Kind.NO_UTF8())
            continue
        label = row[columns[0]].strip()
        if not label:
            broken.add(line, Kind.NO_LABEL())
            continue
        samples.append((label, " ".join(row[i] for i in columns[1])))
    return samples, broken.notes()


def _rows(path: Path, broken: BrokenLines) -> Iterator[tuple[int, list[str]]]:
    """(line, cells) of every row that is not empty; what csv cannot read is counted."""
    dialect = "excel-tab" if path.suffix == ".tsv" else "excel"
    with open(path, encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        reader = csv.reader(file, dialect)
        while True:
            try:
                row = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                broken.add(reader.line_num, str(error))
                continue
            if row:
                yield reader.line_num, row


def _columns(path: Path, first: list[str], settings: dict | None) -> tuple[tuple[int, list], bool]:
    """((the label's column, the text's columns), whether the first line is a header)."""
    names = [cell.strip().lower() for cell in first]
    wanted = settings or {}
    label, text = wanted.get("label", "label"), wanted.get("text", "text")
    texts = text if isinstance(text, list) else [text]
    named = [name for name in (label, *texts) if isinstance(name, str)]
    if all(name.lower() in names for name in named) and named:
        columns = [names.index(n.lower()) if isinstance(n, str) else n for n in (label, *texts)]
        is_header = True
    elif not settings and len(first) > 1:
        columns, is_header = list(range(len(first))), False
    else:
        columns, is_header = [n for n in (label, *texts) if isinstance(n, int)], False
        if named and settings:
            raise UserError(Kind.COLUMNS_MISSING(path=str(path), names=named))
    if not columns or max(columns) >= len(first):
        raise UserError(Kind.COLUMNS_FEW(path=str(path), count=len(first)))
    return (columns[0], columns[1:]), is_header


SOURCE = Source(
    Kind.CLASSES(),
    Kind.CLASSES_ORIGIN(),
    "ag_news",
    ("length", "eval_length", "lower", "columns", "vocabulary"),
    build,
)
