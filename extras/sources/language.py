"""Texts for language modelling: enwik8, or any text, cut into rows of tokens.

Settings, in DATA of a pair's case.py: length, the tokens of a row.

The first 90 % are for training, then 5 % for validation and 5 % for the test: for enwik8 the usual
90, 5 and 5 million bytes.  A token is a byte (byte + 2, as enwik8's models have it: 0 is padding)
or, with --tokenizer, a SentencePiece piece.  What is left of a part after its last whole row is
dropped; where a part has not even one row, every part has a last row with padding, a mask that is
0 there and labels that are -100.
"""

import zipfile
import zlib
from itertools import chain
from pathlib import Path

import numpy as np

from twincheck.common.pair.data import BYTE_OFFSET, PADDING, TEXT_VOCABULARY, text
from twincheck.common.pair.sentencepieces import load_processor
from twincheck.common.pair.sources.request import Dataset, Source, SourceRequest
from twincheck.common.system.errors import UserError
from twincheck.extras.sources import Kind

SHARES = {"train": (0, 90), "validation": (90, 95), "test": (95, 100)}  # per cent, from and to
IGNORED = -100  # a label that no loss counts
_LINES_AT_ONCE = 1 << 16  # ids in lists take much memory


def build(request: SourceRequest) -> Dataset:
    """PART/input_ids, int16 (int32 for large vocabularies), (rows, length), of a text."""
    length = request.settings["length"]
    content, notes = _content(request)
    size = TEXT_VOCABULARY
    pieces = None
    if request.tokenizer:
        pieces, size, more = _pieces(request, content)
        notes += more
    tokens = content if pieces is None else pieces
    if len(tokens) < len(SHARES):
        raise UserError(Kind.TEXT_TOO_SHORT(path=str(request.path), count=len(tokens)))
    ends = {part: [len(tokens) * e // 100 for e in ends] for part, ends in SHARES.items()}
    padded = any(end - start < length for start, end in ends.values())
    arrays: dict[str, np.ndarray] = {}
    sizes = []
    for part, (start, end) in ends.items():
        rows = -(-(end - start) // length) if padded else (end - start) // length
        kept = tokens[start : min(end, start + rows * length)]
        if pieces is None:
            ids = np.add(kept, BYTE_OFFSET, dtype=np.int16)
        else:
            ids = kept.astype(np.int16 if size < 1 << 15 else np.int32)
        missing = rows * length - len(ids)
        if missing:
            ids = np.pad(ids, (0, missing), constant_values=PADDING)
        ids = ids.reshape(rows, length)
        arrays[f"{part}/input_ids"] = ids
        if padded:
            mask = (np.arange(rows * length) < rows * length - missing).reshape(rows, length)
            arrays[f"{part}/attention_mask"] = mask.astype(np.int8)
            arrays[f"{part}/labels"] = np.where(mask, ids, IGNORED).astype(ids.dtype)
        count = missing if padded else end - start - len(kept)
        of_part = Kind.PART_PADDED if padded else Kind.PART_CUT
        sizes.append(of_part(part=part, rows=rows, count=count))
    name = request.settings.get("vocabulary", "vocab_size")
    entries = {name: size} if request.config.get(name, 0) < size else {}
    what = Kind.BYTES() if pieces is None else Kind.PIECES_OF(tokenizer=request.tokenizer.name)
    notes.append(Kind.IN_ROWS(count=len(tokens), what=what, length=length, parts=sizes))
    return Dataset(arrays, entries, notes)


def _content(request: SourceRequest) -> tuple[np.ndarray, list[str]]:
    """The text's bytes, uint8, and notes."""
    path = request.path
    if path is None:
        whole = text()["values"] - BYTE_OFFSET
        return whole.astype(np.uint8), [Kind.TEXT_OF_PYTHON()]
    if path.is_dir():
        files = [file for file in sorted(path.rglob("*.txt")) if file.is_file()]
        if not files:
            raise UserError(Kind.FOLDER_WITHOUT_TEXTS(path=str(path)))
        content = np.concatenate([np.fromfile(file, np.uint8) for file in files])
        return _non_empty(path, content), [Kind.TEXTS_IN_ORDER(count=len(files))]
    if not zipfile.is_zipfile(path):
        return _non_empty(path, np.fromfile(path, np.uint8)), []
    try:
        with zipfile.ZipFile(path) as archive:
            members = [member for member in archive.infolist() if not member.is_dir()]
            if len(members) != 1:
                raise UserError(Kind.ARCHIVE_OF_SEVERAL(path=str(path), count=len(members)))
            content = np.frombuffer(archive.read(members[0]), np.uint8)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise UserError(Kind.DATA_DAMAGED(path=str(path), error=str(error))) from None
    return _non_empty(path, content), []


def _non_empty(path: Path, content: np.ndarray) -> np.ndarray:
    if not content.size:
        raise UserError(Kind.DATA_EMPTY(path=str(path)))
    return content


def _pieces(request: SourceRequest, content: np.ndarray) -> tuple[np.ndarray, int, list[str]]:
    """The text as ids of a SentencePiece model, how many pieces that has, and notes.

    The text is encoded line by line, which changes nothing: a model takes a line's end for a blank,
    and no piece crosses a blank.
    """
    processor = load_processor(request.tokenizer)
    ids, replaced, lines = [], 0, content.tobytes().split(b"\n")
    for start in range(0, len(lines), _LINES_AT_ONCE):
        request.on_progress(Kind.NOW_PIECES(percent=100 * start // len(lines)))
        chunk = b"\n".join(lines[start : start + _LINES_AT_ONCE])
        decoded = chunk.decode("utf-8", "replace")
        replaced += decoded.count("\ufffd") - chunk.count("\ufffd".encode())
        pieces = processor.encode(decoded.split("\n"))
        ids.append(np.fromiter(chain.from_iterable(pieces), np.int32))
    notes = [Kind.BYTES_REPLACED(count=replaced)] if replaced else []
    return np.concatenate(ids), processor.get_piece_size(), notes


ENWIK8 = Source(
    Kind.ENWIK8(),
    "https://mattmahoney.net/dc/enwik8.zip",
    "enwik8.txt",
    ("length", "vocabulary"),
    build,
)
TEXT = Source(
    Kind.TEXT(),
    Kind.TEXT_ORIGIN(),
    "enwik8.txt",
    ("length", "vocabulary", "default"),
    build,
    cuts=True,
)
