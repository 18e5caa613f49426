"""Amazon's reviews, one JSON object a line, .json or .json.gz: texts with 1 to 5 stars.

Settings, in DATA of a pair's case.py:

    split        balanced: the first reviews of each class for training, then, once every class has
                 its share, the next of each class for the test (seed 001)
                 random: drawn from all reviews under the seed (the paper)
    sizes        balanced: [8000, 1000] of each class; random: [40000, 5000, 5000] in all, for
                 training, validation and test; a file with too few is split in the same shares
    length       tokens that a text is cut or padded to
    eval_length  the same of validation and test, where it is another (seed 001 took 256)

Labels are stars - 1.  Tokens are words with their case kept, ids in first-seen order over all
parts.  One pass, in bounded memory; an interrupted one goes on where it stopped.
"""

import ast
import gzip
import heapq
import json
import time
import zlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from twincheck.common.pair.sources.request import Dataset, Source, SourceRequest
from twincheck.common.pair.tape import Tape
from twincheck.common.system.errors import UserError
from twincheck.common.system.files import whole
from twincheck.common.system.signals import put_off
from twincheck.extras.sources import Kind
from twincheck.extras.sources.broken import BrokenLines
from twincheck.extras.sources.words import class_counts, labelled

CLASSES = 5
STARS = [Kind.STAR(number=star) for star in range(1, CLASSES + 1)]
SIZES = {"balanced": [8000, 1000], "random": [40000, 5000, 5000]}
SAVE_EVERY_S = 10.0
MAX_LINE_BYTES = 1 << 22  # a longer one is no review
_LINES_AT_ONCE = 4096  # after so many the clock and signals are looked at
_BLOCK = 1 << 16  # reviews whose draws come from the tape together


class Balanced:
    """The first reviews of each class for training; once all have theirs, the next for the test."""

    def __init__(self, sizes, seed: int, state: dict | None = None):
        self.sizes = sizes
        self.parts = state["parts"] if state else [[], []]  # [label, text] in the file's order
        self.counts = state["counts"] if state else [[0] * CLASSES, [0] * CLASSES]

    @property
    def complete(self) -> bool:
        """True once nothing further is wanted."""
        return min(self.counts[1]) >= self.sizes[1]

    def add(self, label: int, text: str) -> None:
        """One review, in the file's order."""
        part = 0 if min(self.counts[0]) < self.sizes[0] else 1
        if self.counts[part][label] < self.sizes[part]:
            self.counts[part][label] += 1
            self.parts[part].append([label, text])

    def state(self) -> dict:
        """What a progress file keeps."""
        return {"parts": self.parts, "counts": self.counts}

    def split(self) -> tuple[dict[str, list], list[str]]:
        """Part -> (label, text), and notes."""
        if all(self.parts):
            train, test = self.parts
            short = min(self.counts[1]) < self.sizes[1]
            return {"train": train, "test": test}, [Kind.TEST_SET_SHORT()] if short else []
        # Too few even for the training set: the rarest class's reviews, split in the same shares.
        rarest = min(self.counts[0])
        test = max(1, rarest * self.sizes[1] // sum(self.sizes))
        if rarest - test < 1:
            star = STARS[self.counts[0].index(rarest)]
            raise UserError(Kind.STARS_FEW(count=rarest, star=star))
        caps, parts, seen = (rarest - test, test), ([], []), [0] * CLASSES
        for label, text in self.parts[0]:
            part = 0 if seen[label] < caps[0] else 1
            seen[label] += 1
            if seen[label] <= rarest:
                parts[part].append([label, text])
        note = Kind.STARS_TAKEN(wanted=self.sizes[0], count=caps[0])
        return {"train": parts[0], "test": parts[1]}, [note]


class Random:
    """Reviews drawn from all: each has one draw, and those with the smallest draws are taken.

    They come in the draws' order.  A draw depends on the seed and the review's number alone, so an
    interrupted run can go on anywhere.
    """

    complete = False  # the last review may have the smallest draw

    def __init__(self, sizes, seed: int, state: dict | None = None):
        self.sizes = sizes
        self.tape = Tape(seed)
        self.seen = state["seen"] if state else 0
        self.heap = [tuple(item) for item in state["heap"]] if state else []  # (-draw, number, …)
        self.block, self.draws = -1, None

    def add(self, label: int, text: str) -> None:
        """One review, in the file's order."""
        block, place = divmod(self.seen, _BLOCK)
        if block != self.block:
            self.block = block
            self.draws = self.tape.generator("reviews", block).random(_BLOCK).tolist()
        item = (-self.draws[place], self.seen, label, text)
        self.seen += 1
        if len(self.heap) < sum(self.sizes):
            heapq.heappush(self.heap, item)
        elif item > self.heap[0]:
            heapq.heapreplace(self.heap, item)

    def state(self) -> dict:
        """What a progress file keeps."""
        return {"seen": self.seen, "heap": self.heap}

    def split(self) -> tuple[dict[str, list], list[str]]:
        """Part -> (label, text), and notes."""
        drawn = [[label, text] for _, _, label, text in sorted(self.heap, reverse=True)]
        sizes, notes = list(self.sizes), []
        if len(drawn) < sum(sizes):
            smaller = [len(drawn) * size // sum(sizes) for size in sizes[1:]]
            sizes = [len(drawn) - sum(smaller), *smaller]
            if min(sizes) < 1:
                raise UserError(Kind.REVIEWS_FEW(count=len(drawn)))
            notes = [Kind.REVIEWS_TAKEN(wanted=sum(self.sizes), count=len(drawn))]
        ends = [0, sizes[0], sizes[0] + sizes[1], sum(sizes)]
        names = ("train", "validation", "test")
        return {n: drawn[a:b] for n, a, b in zip(names, ends, ends[1:], strict=False)}, notes


SPLITS = {"balanced": Balanced, "random": Random}


def build(request: SourceRequest, progress: Path) -> Dataset:
    """Read, split and tokenize; raises UserError where no review is left or the file is damaged."""
    settings, path = request.settings, request.path
    split = settings.get("split", "balanced")
    if split not in SPLITS:
        raise UserError(Kind.SPLIT_UNKNOWN(split=split, splits=list(SPLITS)))
    if path.is_dir():
        raise UserError(Kind.REVIEWS_IN_FOLDER(path=str(path)))
    sizes = settings.get("sizes", SIZES[split])
    if len(sizes) != len(SIZES[split]) or any(type(n) is not int or n < 1 for n in sizes):
        said = {"sizes": repr(sizes), "split": split, "count": len(SIZES[split])}
        raise UserError(Kind.SIZES_REFUSED(**said))
    collector, broken, lines = _collected(request, SPLITS[split], sizes, progress)
    if lines and broken.total == lines:
        raise UserError(Kind.REVIEWS_NONE(path=str(path), lines=broken.first))
    try:
        parts, notes = collector.split()
    except UserError as error:
        raise UserError(Kind.DATA_REFUSED(path=str(path), why=str(error))) from None
    length = settings["length"]
    lengths = dict.fromkeys(parts, settings.get("eval_length", length)) | {"train": length}
    arrays, size = labelled(parts, False, lengths, request.on_progress)
    entries = {settings.get("vocabulary", "vocab_size"): size, "num_labels": CLASSES}
    read = Kind.NOW_LINES(count=lines, file=path.name)
    return Dataset(arrays, entries, [read, class_counts(parts, STARS), *notes, *broken.notes()])


def _collected(request: SourceRequest, kind, sizes, progress: Path):
    """One pass over the file: the collector, the broken lines, how many lines were read."""
    former = _former(progress)
    collector = kind(sizes, request.seed, former and former["collector"])
    broken = BrokenLines(request.path, former and former["broken"])
    offset, number = (former["offset"], former["line"]) if former else (0, 0)

    def save() -> None:
        state = {"offset": offset, "line": number, "broken": broken.state()}
        with whole(progress) as temporary:
            temporary.write_text(json.dumps(state | {"collector": collector.state()}))

    saved_s, at_save = time.monotonic(), number
    lines = _lines(request, offset)
    more = True
    try:
        while more:
            before = number
            with put_off():  # a line must not be counted in part, which going on would count again
                for line, bytes_read in islice(lines, _LINES_AT_ONCE):
                    if collector.complete:
                        break
                    parsed = review(line)
                    if isinstance(parsed, str):
                        broken.add(number + 1, parsed)
                    else:
                        collector.add(*parsed)
                    offset, number = offset + bytes_read, number + 1
                more = number - before == _LINES_AT_ONCE
            request.on_progress(Kind.NOW_LINES(count=number, file=request.path.name))
            if time.monotonic() - saved_s > SAVE_EVERY_S:
                save()
                saved_s, at_save = time.monotonic(), number
    except KeyboardInterrupt:
        if number > at_save:
            save()
        raise
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        said = {"path": str(request.path), "line": number, "error": str(error)}
        raise UserError(Kind.DATA_DAMAGED_AFTER(**said)) from None
    return collector, broken, number


def _former(progress: Path) -> dict | None:
    """The state of an interrupted run; None where there was none, or its file is damaged."""
    try:
        former = json.loads(progress.read_text())
        return former if {"offset", "line", "broken", "collector"} <= set(former) else None
    except (OSError, ValueError, TypeError):
        return None


def _lines(request: SourceRequest, offset: int) -> Iterator[tuple[bytes | None, int]]:
    """Each line from an offset in the (unpacked) file, with its bytes; None for one too long."""
    with open(request.path, "rb") as plain:
        packed = plain.read(2) == b"\x1f\x8b"
        plain.seek(0)
        file = gzip.GzipFile(fileobj=plain) if packed else plain
        if offset:
            request.on_progress(Kind.NOW_GOING_ON())
            file.seek(offset)
        while line := file.readline(MAX_LINE_BYTES):
            count = len(line)
            if count == MAX_LINE_BYTES and not line.endswith(b"\n"):
                while rest := file.readline(MAX_LINE_BYTES):
                    count += len(rest)
                    if rest.endswith(b"\n"):
                        break
                line = None
            yield line, count


def review(line: bytes | None) -> tuple[int, str] | str:
    """(label, text) of a line, or in a few words why it is no review.

    Older dumps of the same site hold Python literals, with single quotes, instead of JSON.
    """
    if line is None:
        return Kind.LINE_TOO_LONG(count=MAX_LINE_BYTES)
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError:
        return Kind.NO_UTF8()
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        try:
            record = ast.literal_eval(text.strip())
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            return Kind.NO_JSON()
    if not isinstance(record, dict) or not isinstance(record.get("reviewText"), str):
        return Kind.NO_REVIEW_TEXT()
    stars = record.get("overall")
    if type(stars) not in (int, float) or stars not in range(1, CLASSES + 1):
        return Kind.NO_STARS()
    return int(stars) - 1, record["reviewText"]


SOURCE = Source(
    Kind.REVIEWS(),
    Kind.REVIEWS_ORIGIN(),
    "reviews_Electronics_5.json.gz",
    ("split", "sizes", "length", "eval_length", "vocabulary"),
    build,
)
