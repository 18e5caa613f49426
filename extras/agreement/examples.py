"""Data for an agreement, read in batches: an .npz, a folder of files, or a text file's lines.

Whatever is prepared (an image cut and scaled, a line made ids) is prepared once, here in the
check's process, and both sides are fed the same arrays.

    FILE.npz   arrays named like the model's inputs, (N, ...) each; more of them may be there
    FOLDER     images (and .npy) in the order of their paths: case.py's read_example(path) ->
               {input: array of one example, without the batch axis}
    FILE       of any other name: lines of UTF-8, made ids by case.py's read_text(line) -> {input:
               array}, else by --tokenizer (a SentencePiece model, or bytes) as `input_ids`
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from twincheck.common.pair.case_hooks import call_hook, describe_value, hook_place
from twincheck.common.pair.data import pad_batch
from twincheck.common.pair.pairs import Case, Pair
from twincheck.common.system.errors import UserError
from twincheck.common.system.files import open_plain
from twincheck.extras.agreement import Kind
from twincheck.extras.shared.coders import tokenizer

READ_EXAMPLE, READ_TEXT = "read_example", "read_text"
IDS, MASK = "input_ids", "attention_mask"
SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".npy")
LENGTHS_OF = 64  # a batch of lines is padded to a multiple of it: some models cut into such chunks
MOST_TOKENS = 512  # of a line, where the configuration names no fewer positions
_NUMBERS = {"f": "floats", "i": "integers", "u": "integers", "b": "booleans"}


@dataclass
class Batch:
    """Some examples: what both sides are fed, and where each is from."""

    first: int  # the number of its first example in the data, from 0
    arrays: dict[str, np.ndarray]  # input -> (B, ...)
    sources: Sequence[str]  # of each example: a file's path, or a line
    mask: np.ndarray | None  # (B, T), True: a token that counts


class Examples:
    """A data set that is read in batches; `pair` and `case` say what the model takes.

    option, weights  what --tokenizer and --weights say
    Raises UserError where there are no data that can be read.
    """

    def __init__(self, path: Path, pair: Pair, case: Case, seed: int, option, weights):
        self.path, self.pair, self.config = path, pair, case.config
        # What the arrays must be like, one example each: those that make_inputs gives.
        self.expected = pair.make_inputs(case, seed)
        self.notes: list[str] = []
        self._arrays: Callable[[int, int], Mapping[str, np.ndarray]]  # of examples first to last
        self.sources: Sequence[str] = ()
        if path.is_dir():
            self.kind = "files"
            self._of_files()
        elif not path.exists():
            raise UserError(Kind.DATA_MISSING(path=str(path)))
        elif path.suffix == ".npz":
            self.kind = "npz"
            self._of_npz()
        else:
            self.kind = "text"
            self._of_lines(tokenizer(option, weights))
        self.count = len(self.sources)

    def read(self, first: int, last: int) -> Batch:
        """Return the examples `first` to `last` - 1, floats in float32."""
        arrays = dict(self._arrays(first, last))
        mask = arrays.get(MASK)
        mask = mask != 0 if mask is not None and mask.ndim == 2 else None
        if self.kind == "text":  # the tokenizer's mask counts though the model may take none
            arrays = {name: each for name, each in arrays.items() if name in self.expected}
        return Batch(first, self._fitted(arrays), self.sources[first:last], mask)

    def _fitted(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The arrays as the model takes them: floats in float32, integers in make_inputs' type."""
        fitted = {}
        for name, values in arrays.items():
            dtype, expected = values.dtype, self.expected.get(name)
            said = {"where": f"--agree {self.path}", "name": name, "dtype": str(dtype)}
            if dtype.kind not in _NUMBERS:
                raise UserError(Kind.ARRAY_NO_NUMBERS(**said))
            if expected is not None and _NUMBERS[dtype.kind] != _NUMBERS[expected.dtype.kind]:
                raise UserError(Kind.ARRAY_OF_OTHER_NUMBERS(**said, expected=str(expected.dtype)))
            if dtype.kind == "f":
                dtype = np.dtype("float32")
            elif expected is not None:
                dtype = expected.dtype
            fitted[name] = np.ascontiguousarray(values, dtype)
        return fitted

    def _of_npz(self) -> None:
        try:
            with open_plain(self.path, links=True) as file, np.load(file) as archive:
                others = [name for name in archive.files if name not in self.expected]
                arrays = {name: archive[name] for name in archive.files if name in self.expected}
        except UserError:
            raise
        except Exception as error:  # zipfile, zlib and NumPy each have their own
            told = " ".join(str(error).split())[:200] or type(error).__name__
            raise UserError(Kind.NO_NPZ(path=str(self.path), error=told)) from None
        if not arrays:
            names, inputs = others or [Kind.NOTHING()], list(self.expected)
            path = str(self.path)
            raise UserError(Kind.NPZ_WITHOUT_INPUTS(path=path, names=names, inputs=inputs))
        if others:
            self.notes.append(Kind.ARRAYS_NOT_READ(file=self.path.name, names=others))
        lengths = {name: len(each) if each.ndim else 0 for name, each in arrays.items()}
        if len(set(lengths.values())) > 1 or 0 in lengths.values():
            counts = [Kind.ARRAY_HAS(name=name, length=n) for name, n in lengths.items()]
            raise UserError(Kind.NPZ_OF_OTHER_LENGTHS(path=str(self.path), lengths=counts))
        self.sources = [""] * next(iter(lengths.values()))
        self._arrays = lambda first, last: {n: each[first:last] for n, each in arrays.items()}

    def _of_files(self) -> None:
        if not hasattr(self.pair.case, READ_EXAMPLE):
            said = {"path": str(self.path), "file": str(self.pair.folder / "case.py")}
            raise UserError(Kind.READ_EXAMPLE_MISSING(**said))
        found = [p for p in sorted(self.path.rglob("*")) if p.is_file()]
        files = [p for p in found if p.suffix.lower() in SUFFIXES and p.name[0] != "."]
        if not files:
            raise UserError(Kind.FOLDER_WITHOUT_FILES(path=str(self.path), suffixes=list(SUFFIXES)))
        if others := len(found) - len(files):
            self.notes.append(Kind.FILES_NO_IMAGES(count=others, path=str(self.path)))
        self.sources = [path.relative_to(self.path).as_posix() for path in files]
        self._arrays = lambda first, last: self._by_hook(READ_EXAMPLE, files[first:last], first)

    def _of_lines(self, coder) -> None:
        by_hook = hasattr(self.pair.case, READ_TEXT)
        if not by_hook and IDS not in self.expected:
            said = {"path": str(self.path), "file": str(self.pair.folder / "case.py"), "ids": IDS}
            raise UserError(Kind.READ_TEXT_MISSING(**said, inputs=list(self.expected)))
        with open_plain(self.path, links=True) as file:
            lines = {n: line.rstrip(b"\r\n") for n, line in enumerate(file, 1) if line.strip()}
        if not lines:
            raise UserError(Kind.TEXT_EMPTY(path=str(self.path)))
        self.sources = [Kind.LINE(number=number) for number in lines]
        contents = list(lines.values())
        positions = self.config.get("max_position_embeddings", MOST_TOKENS)
        most = min(int(positions), MOST_TOKENS)

        def ids_of(first: int, last: int) -> dict[str, np.ndarray]:
            ids = [coder.encode(line) for line in contents[first:last]]
            largest = max(int(each.max()) for each in ids)
            vocabulary = self.config.get("vocab_size", math.inf)
            if largest >= vocabulary:
                said = {"path": str(self.path), "token": largest, "vocabulary": vocabulary}
                raise UserError(Kind.TOKEN_BEYOND_VOCABULARY(**said))
            longest = max(len(each) for each in ids)
            if longest > most and Kind.LINES_CUT(most=most) not in self.notes:
                self.notes.append(Kind.LINES_CUT(most=most))
            padded = pad_batch(ids, min(-(-longest // LENGTHS_OF) * LENGTHS_OF, most))
            return dict(zip((IDS, MASK), padded, strict=True))

        def texts_of(first: int, last: int) -> dict[str, np.ndarray]:
            texts = [line.decode(errors="replace") for line in contents[first:last]]
            return self._by_hook(READ_TEXT, texts, first)

        self._arrays = texts_of if by_hook else ids_of

    def _by_hook(self, name: str, given: Sequence, first: int) -> dict[str, np.ndarray]:
        """input -> (B, ...) of what the pair's hook gives for each example."""
        rows: list[dict[str, np.ndarray]] = []
        where, hook = hook_place(self.pair, name), getattr(self.pair.case, name)
        for source, one in zip(self.sources[first:], given, strict=False):
            try:
                example = call_hook(self.pair, name, hook, one)
            except UserError as error:
                path = str(self.path / source)
                raise UserError(Kind.FILE_UNREADABLE(path=path, error=str(error))) from None
            if not isinstance(example, dict) or not example:
                said = {"name": source, "given": describe_value(example)}
                raise UserError(Kind.HOOK_GAVE_NO_ARRAYS(where=where, **said))
            rows.append({str(key): np.asarray(values) for key, values in example.items()})
            like, wanted = _shapes(rows[-1]), _shapes(rows[0])
            if like != wanted:
                said = {"name": source, "arrays": like, "first": self.sources[first]}
                raise UserError(Kind.EXAMPLES_UNLIKE(where=where, **said, expected=wanted))
        return {key: np.stack([row[key] for row in rows]) for key in rows[0]}


def _shapes(arrays: Mapping[str, np.ndarray]) -> str:
    return ", ".join(f"{name} {list(values.shape)}" for name, values in sorted(arrays.items()))
