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
parts.  One pass, in bounded memory.
"""

import ast
import gzip
import heapq
import json
import zlib
from collections.abc import Iterator
from contextlib import closing

from twincheck.common.pair.sources.request import Dataset, Source, SourceRequest
from twincheck.common.pair.tape import Tape
from twincheck.common.system.errors import UserError
from twincheck.extras.sources import Kind
from twincheck.extras.sources.broken import BrokenLines
from twincheck.extras.sources.words import Samples, class_counts, labelled

CLASSES = 5
STARS = [Kind.STAR(number=star) for star in range(1, CLASSES + 1)]
SIZES = {"balanced": [8000, 1000], "random": [40000, 5000, 5000]}
_PROGRESS_EVERY = 5000  # lines
_BLOCK = 1 << 16  # reviews whose draws come from the tape together


class _Reviews:
    """The reviews of a file, (label, text) in its order, and what was left out of it."""

    def __init__(self, request: SourceRequest):
        self.request = request
        self.lines = 0  # that were read
        self.broken = BrokenLines(request.path.name)

    def __iter__(self) -> Iterator[tuple[int, str]]:
        path, name = self.request.path, self.request.path.name
        with open(path, "rb") as plain:
            packed = plain.read(2) == b"\x1f\x8b"
        try:
            with gzip.open(path) if packed else open(path, "rb") as file:
                for line in file:
                    self.lines += 1
                    if self.lines % _PROGRESS_EVERY == 0:
                        self.request.on_progress(Kind.NOW_LINES(count=self.lines, file=name))
                    parsed = review(line)
                    if isinstance(parsed, str):
                        self.broken.add(self.lines, parsed)
                    else:
                        yield parsed
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            said = {"path": str(path), "line": self.lines, "error": str(error)}
            raise UserError(Kind.DATA_DAMAGED_AFTER(**said)) from None


def balanced(reviews: Iterator, sizes: list[int], seed: int) -> tuple[dict[str, Samples], list]:
    """Return train and test, and notes: the first reviews of each class, then the next.

    The test set begins once every class has its share of the training set.  Raises ValueError for
    too few reviews.
    """
    parts: tuple[Samples, Samples] = ([], [])
    counts = [0] * CLASSES, [0] * CLASSES
    for label, text in reviews:
        part = 0 if min(counts[0]) < sizes[0] else 1
        if counts[part][label] < sizes[part]:
            counts[part][label] += 1
            parts[part].append((label, text))
            if min(counts[1]) >= sizes[1]:
                break
    if all(parts):
        short = min(counts[1]) < sizes[1]
        return dict(zip(("train", "test"), parts, strict=True)), [Kind.TEST_SET_SHORT()] * short
    # Too few even for the training set: the rarest class's reviews, split in the same shares.
    rarest = min(counts[0])
    test = max(1, rarest * sizes[1] // sum(sizes))
    if rarest - test < 1:
        raise ValueError(Kind.STARS_FEW(count=rarest, star=STARS[counts[0].index(rarest)]))
    found: dict[str, Samples] = {"train": [], "test": []}
    seen = [0] * CLASSES
    for label, text in parts[0]:
        seen[label] += 1
        if seen[label] <= rarest:
            found["train" if seen[label] <= rarest - test else "test"].append((label, text))
    return found, [Kind.STARS_TAKEN(wanted=sizes[0], count=rarest - test)]


def random(reviews: Iterator, sizes: list[int], seed: int) -> tuple[dict[str, Samples], list]:
    """Return train, validation and test, drawn from all reviews under the seed, and notes.

    Each review has one draw, and those with the smallest are taken, in the draws' order.  Raises
    ValueError for too few reviews.
    """

    def draws() -> Iterator[float]:
        tape, block = Tape(seed), 0
        while True:
            yield from tape.generator("reviews", block).random(_BLOCK).tolist()
            block += 1

    numbered = ((draw, i, one) for i, (draw, one) in enumerate(zip(draws(), reviews, strict=False)))
    drawn = [one for _, _, one in heapq.nsmallest(sum(sizes), numbered)]
    notes = []
    if len(drawn) < sum(sizes):
        notes = [Kind.REVIEWS_TAKEN(wanted=sum(sizes), count=len(drawn))]
        smaller = [len(drawn) * size // sum(sizes) for size in sizes[1:]]
        sizes = [len(drawn) - sum(smaller), *smaller]
        if min(sizes) < 1:
            raise ValueError(Kind.REVIEWS_FEW(count=len(drawn)))
    ends = [0, sizes[0], sizes[0] + sizes[1], sum(sizes)]
    names = ("train", "validation", "test")
    return {n: drawn[a:b] for n, a, b in zip(names, ends, ends[1:], strict=False)}, notes


SPLITS = {"balanced": balanced, "random": random}


def build(request: SourceRequest) -> Dataset:
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
    found = _Reviews(request)
    try:
        with closing(iter(found)) as reviews:
            parts, notes = SPLITS[split](reviews, sizes, request.seed)
    except ValueError as error:  # too few
        told = Kind.DATA_REFUSED(path=str(path), why=error.args[0])
        if found.lines and found.broken.counts.total() == found.lines:
            told = Kind.REVIEWS_NONE(path=str(path), lines=found.broken.first)
        raise UserError(told) from None
    length = settings["length"]
    lengths = dict.fromkeys(parts, settings.get("eval_length", length)) | {"train": length}
    arrays, size = labelled(parts, False, lengths, request.on_progress)
    entries = {settings.get("vocabulary", "vocab_size"): size, "num_labels": CLASSES}
    read = Kind.NOW_LINES(count=found.lines, file=path.name)
    told = [read, class_counts(parts, STARS), *notes, *found.broken.notes()]
    return Dataset(arrays, entries, told)


def review(line: bytes) -> tuple[int, str] | str:
    """Return (label, text) of a line, or in a few words why it is no review.

    Older dumps of the same site hold Python literals, with single quotes, instead of JSON.
    """
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
