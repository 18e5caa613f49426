"""Data for an agreement, read in batches: an .npz, a folder of files, or a text file's lines.

Whatever is prepared (an image cut and scaled, a line made ids) is prepared once, here in the
check's process, and both sides are fed the same arrays.  Only one batch is in memory.

    FILE.npz   arrays named like the model's inputs, (N, ...) each; more of them may be there
    FOLDER     images (and .npy) in the order of their paths: case.py's read_example(path) ->
               {input: array of one example, without the batch axis}
    FILE       of any other name: lines of UTF-8, made ids by case.py's read_text(line) -> {input:
               array}, else by --tokenizer (a SentencePiece model, or bytes) as `input_ids`
"""

import io
import math
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from twincheck.common.pair.case_hooks import call_hook, describe_value, hook_place
from twincheck.common.pair.data import pad_batch
from twincheck.common.pair.pairs import Case, Pair
from twincheck.common.system.errors import UserError
from twincheck.common.system.files import open_plain, read_into
from twincheck.common.system.npz import read_header
from twincheck.common.system.reasons import Reason
from twincheck.extras.agreement import Kind
from twincheck.extras.shared.coders import tokenizer

READ_EXAMPLE, READ_TEXT = "read_example", "read_text"
IDS, MASK = "input_ids", "attention_mask"
SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".npy")
LENGTHS_OF = 64  # a batch of lines is padded to a multiple of it: some models cut into such chunks
MOST_TOKENS = 512  # of a line, where the configuration names no fewer positions


@dataclass
class Batch:
    """Some examples: what both sides are fed, and where each is from."""

    first: int  # the number of its first example in the data, from 0
    arrays: dict[str, np.ndarray]  # input -> (B, ...)
    sources: list[str] = field(default_factory=list)  # of each example: a file's path, or a line
    mask: np.ndarray | None = None  # (B, T), True: a token that counts

    @property
    def size(self) -> int:
        """How many examples it has."""
        return len(next(iter(self.arrays.values())))


class Examples(ABC):
    """A data set that is read in batches; `open_examples` makes one, a context manager."""

    kind = ""

    def __init__(self, path: Path, pair: Pair, case: Case, seed: int):
        self.path, self.pair = path, pair
        # What the arrays must be like, one example each: those that make_inputs gives.
        self.expected = pair.make_inputs(case, seed)
        self.count = 0
        self.notes: list[str] = []
        self._stamp = ""  # of a file: its size, and when it was written
        self._file: io.BufferedReader | None = None

    def __enter__(self) -> "Examples":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Let the data's file go."""
        if self._file is not None:
            self._file.close()

    def parts(self, size: int) -> Iterator[tuple[int, int]]:
        """(first, last + 1) of the examples of each batch."""
        for first in range(0, self.count, size):
            yield first, min(first + size, self.count)

    def identity(self, first: int, last: int) -> str:
        """What tells these examples from others without reading them."""
        return f"{self._stamp} {first} {last}"

    @abstractmethod
    def read(self, first: int, last: int) -> Batch:
        """These examples."""

    def fitted(self, where: str, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The arrays as the model takes them: floats in float32, integers in make_inputs' type.

        Raises UserError for numbers of another kind than make_inputs gives.
        """
        fitted = {}
        for name, values in arrays.items():
            expected = self.expected.get(name)
            kinds = {"f": "floats", "i": "integers", "u": "integers", "b": "booleans"}
            said = {"where": where, "name": name, "dtype": str(values.dtype)}
            if values.dtype.kind not in kinds:
                raise UserError(Kind.ARRAY_NO_NUMBERS(**said))
            if expected is not None and kinds[values.dtype.kind] != kinds[expected.dtype.kind]:
                raise UserError(Kind.ARRAY_OF_OTHER_NUMBERS(**said, expected=str(expected.dtype)))
            dtype = np.dtype("float32") if values.dtype.kind == "f" else values.dtype
            if expected is not None and dtype.kind in "iu":
                dtype = expected.dtype
            fitted[name] = np.ascontiguousarray(values, dtype)
        return fitted


class Arrays(Examples):
    """An .npz, read row by row: its arrays may be larger than the memory."""

    kind = "npz"

    def __init__(self, path: Path, pair: Pair, case: Case, seed: int):
        super().__init__(path, pair, case, seed)
        status = path.stat()
        self._stamp = f"{status.st_size} {status.st_mtime_ns}"
        self._file = open_plain(path, links=True)
        try:
            self._members = self._of_inputs()
        except UserError:
            raise
        except Exception as error:  # zipfile, zlib and NumPy each have their own
            raise UserError(Kind.NO_NPZ(path=str(path), error=_reason(error))) from None
        finally:
            if not hasattr(self, "_members"):
                self.close()
        self.count = self._members[0].length

    def _of_inputs(self) -> list["Member"]:
        """The arrays that are inputs, as many examples in each."""
        path, archive = self.path, zipfile.ZipFile(self._file)
        members = [Member(archive, each) for each in archive.infolist()]
        known = [each for each in members if each.name in self.expected]
        others = [each.name for each in members if each.name not in self.expected]
        if not known:
            said = {"path": str(path), "names": _listed(others), "inputs": _listed(self.expected)}
            raise UserError(Kind.NPZ_WITHOUT_INPUTS(**said))
        if others:
            self.notes.append(Kind.ARRAYS_NOT_READ(file=path.name, names=others))
        lengths = {each.name: each.length for each in known}
        if len(set(lengths.values())) > 1 or 0 in lengths.values():
            counts = [Kind.ARRAY_HAS(name=name, length=n) for name, n in lengths.items()]
            raise UserError(Kind.NPZ_OF_OTHER_LENGTHS(path=str(path), lengths=counts))
        return known

    def read(self, first: int, last: int) -> Batch:
        try:
            rows = {each.name: each.rows(first, last) for each in self._members}
        except Exception as error:  # as above
            said = {"path": str(self.path), "first": first, "last": last - 1}
            raise UserError(Kind.EXAMPLES_UNREADABLE(**said, error=_reason(error))) from None
        arrays = self.fitted(f"--agree {self.path}", rows)
        return Batch(first, arrays, [""] * (last - first), _mask(arrays))


class Member:
    """One array of an .npz, whose rows are read on from where the last ones ended."""

    def __init__(self, archive: zipfile.ZipFile, member: zipfile.ZipInfo):
        self.name = member.filename.removesuffix(".npy")
        self._open = lambda: archive.open(member)
        stream = self._open()
        shape, fortran, self.dtype = read_header(stream, member.file_size, self.name, text=True)
        self._begin = stream.tell()
        if fortran and len(shape) > 1:
            raise ValueError(Kind.FORTRAN_ORDER(name=self.name))
        self.length = shape[0] if shape else 0
        self.shape = shape[1:]
        self._stream, self._at = stream, 0

    def rows(self, first: int, last: int) -> np.ndarray:
        """Rows `first` to `last`, which are seldom behind those that were read before."""
        row_bytes = math.prod(self.shape) * self.dtype.itemsize
        if first != self._at:
            self._stream.seek(self._begin + first * row_bytes)
        rows = np.empty((last - first, *self.shape), self.dtype)
        if rows.nbytes and not read_into(self._stream, memoryview(rows.reshape(-1).view(np.uint8))):
            raise EOFError(Kind.ARRAY_CUT_OFF(name=self.name))
        self._at = last
        return rows


class Files(Examples):
    """A folder of files, each read by the pair's hook, which also prepares it."""

    kind = "files"

    def __init__(self, path: Path, pair: Pair, case: Case, seed: int):
        super().__init__(path, pair, case, seed)
        if not hasattr(pair.case, READ_EXAMPLE):
            said = {"path": str(path), "file": str(pair.folder / "case.py")}
            raise UserError(Kind.READ_EXAMPLE_MISSING(**said))
        found = [p for p in sorted(path.rglob("*")) if p.is_file()]
        self._files = [p for p in found if p.suffix.lower() in SUFFIXES and p.name[0] != "."]
        if not self._files:
            raise UserError(Kind.FOLDER_WITHOUT_FILES(path=str(path), suffixes=list(SUFFIXES)))
        self.count = len(self._files)
        if len(found) > self.count:
            others = len(found) - self.count
            self.notes.append(Kind.FILES_NO_IMAGES(count=others, path=str(path)))

    def identity(self, first: int, last: int) -> str:
        stamps = []
        for path in self._files[first:last]:
            status = path.stat()
            name = path.relative_to(self.path).as_posix()
            stamps.append(f"{name} {status.st_size} {status.st_mtime_ns}")
        return "\n".join(stamps)

    def read(self, first: int, last: int) -> Batch:
        examples, files = [], self._files[first:last]
        for path in files:
            try:
                examples.append(
                    call_hook(self.pair, READ_EXAMPLE, self.pair.case.read_example, path)
                )
            except UserError as error:
                said = {"path": str(path), "error": str(error)}
                raise UserError(Kind.FILE_UNREADABLE(**said)) from None
        names = [path.relative_to(self.path).as_posix() for path in files]
        where = hook_place(self.pair, READ_EXAMPLE)
        arrays = self.fitted(where, _stacked(where, names, examples))
        return Batch(first, arrays, names, _mask(arrays))


class Lines(Examples):
    """The lines of a text; empty ones are passed over."""

    kind = "text"

    def __init__(self, path: Path, pair: Pair, case: Case, seed: int, coder):
        super().__init__(path, pair, case, seed)
        self._coder = coder
        self._hook = getattr(pair.case, READ_TEXT, None)
        if self._hook is None and IDS not in self.expected:
            said = {"path": str(path), "file": str(pair.folder / "case.py"), "ids": IDS}
            raise UserError(Kind.READ_TEXT_MISSING(**said, inputs=_listed(self.expected)))
        self._vocabulary = case.config.get("vocab_size", math.inf)
        positions = case.config.get("max_position_embeddings", MOST_TOKENS)
        self._most = min(int(positions), MOST_TOKENS)
        status = path.stat()
        self._stamp = f"{status.st_size} {status.st_mtime_ns} {coder.name}"
        self._places: list[tuple[int, int]] = []  # (offset, the line's number) of those with text
        self._file = open_plain(path, links=True)
        offset = 0
        for number, line in enumerate(self._file, 1):
            if line.strip():
                self._places.append((offset, number))
            offset += len(line)
        if not self._places:
            self.close()
            raise UserError(Kind.TEXT_EMPTY(path=str(path)))
        self.count = len(self._places)

    def read(self, first: int, last: int) -> Batch:
        lines, places = [], self._places[first:last]
        for offset, _ in places:
            self._file.seek(offset)
            lines.append(self._file.readline().rstrip(b"\r\n"))
        sources = [Kind.LINE(number=number) for _, number in places]
        if self._hook is not None:
            texts = [line.decode(errors="replace") for line in lines]
            examples = [call_hook(self.pair, READ_TEXT, self._hook, text) for text in texts]
            where = hook_place(self.pair, READ_TEXT)
            arrays = self.fitted(where, _stacked(where, sources, examples))
            return Batch(first, arrays, sources, _mask(arrays))
        ids = [self._coder.encode(line) for line in lines]
        largest = max(int(each.max()) for each in ids)
        if largest >= self._vocabulary:
            said = {"path": str(self.path), "token": largest, "vocabulary": self._vocabulary}
            raise UserError(Kind.TOKEN_BEYOND_VOCABULARY(**said))
        longest = max(len(each) for each in ids)
        cut = Kind.LINES_CUT(most=self._most)
        if longest > self._most and cut not in self.notes:
            self.notes.append(cut)
        padded = pad_batch(ids, min(-(-longest // LENGTHS_OF) * LENGTHS_OF, self._most))
        arrays = dict(zip((IDS, MASK), padded, strict=True))
        fed = {name: values for name, values in arrays.items() if name in self.expected}
        return Batch(first, self.fitted(str(self.path), fed), sources, arrays[MASK] != 0)


def open_examples(path: Path, pair: Pair, case: Case, seed: int, option, weights) -> Examples:
    """The data that --agree names; raises UserError where there are none that can be read.

    option, weights  what --tokenizer and --weights say
    """
    if path.is_dir():
        return Files(path, pair, case, seed)
    if not path.exists():
        raise UserError(Kind.DATA_MISSING(path=str(path)))
    if path.suffix == ".npz":
        return Arrays(path, pair, case, seed)
    return Lines(path, pair, case, seed, tokenizer(option, weights))


def _stacked(where: str, names: Sequence[str], examples: Sequence[object]) -> dict[str, np.ndarray]:
    """input -> (B, ...) of what a hook gave for each example."""
    rows = []
    for name, example in zip(names, examples, strict=True):
        if not isinstance(example, dict) or not example:
            said = {"where": where, "name": name, "given": describe_value(example)}
            raise UserError(Kind.HOOK_GAVE_NO_ARRAYS(**said))
        rows.append({str(key): np.asarray(values) for key, values in example.items()})
        like, first = _shapes(rows[-1]), _shapes(rows[0])
        if like != first:
            said = {"name": name, "arrays": like, "first": names[0], "expected": first}
            raise UserError(Kind.EXAMPLES_UNLIKE(where=where, **said))
    return {key: np.stack([row[key] for row in rows]) for key in rows[0]}


def _shapes(arrays: Mapping[str, np.ndarray]) -> str:
    return ", ".join(f"{name} {list(values.shape)}" for name, values in sorted(arrays.items()))


def _mask(arrays: Mapping[str, np.ndarray]) -> np.ndarray | None:
    """Which tokens count, where the data have an attention mask of each."""
    mask = arrays.get(MASK)
    return mask != 0 if mask is not None and mask.ndim == 2 else None


def _listed(names) -> list[str]:
    return list(map(str, names)) or [Kind.NOTHING()]


def _reason(error: Exception) -> str:
    told = str(error)
    return (
        told if isinstance(told, Reason) else " ".join(told.split())[:200] or type(error).__name__
    )
