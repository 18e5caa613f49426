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
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import numpy as np

from twincheck.common.pair.data import BYTE_OFFSET, PADDING, TEXT_VOCABULARY, text
from twincheck.common.pair.sentencepieces import load_processor
from twincheck.common.pair.sources.request import Dataset, Source, SourceRequest
from twincheck.common.system.errors import UserError

SHARES = {"train": (0, 90), "validation": (90, 95), "test": (95, 100)}  # per cent, from and to
IGNORED = -100  # a label that no loss counts
_CHUNK_BYTES = 1 << 22


def build(request: SourceRequest, progress: Path) -> Dataset:
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
        raise UserError(f"--data {request.path}: {len(tokens)} tokens are no text to train on")
    ends = {part: [len(tokens) * e // 100 for e in ends] for part, ends in SHARES.items()}
    padded = any(end - start < length for start, end in ends.values())
    arrays: dict[str, np.ndarray] = {}
    sizes = []
    for part, (start, end) in ends.items():
        request.on_progress(f"data: {part} to rows of {length:,}")
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
        rest = f", {missing:,} of them padding" if padded else f", {end - start - len(kept):,} left"
        sizes.append(f"{part} {rows:,} rows{rest}")
    name = request.settings.get("vocabulary", "vocab_size")
    entries = {name: size} if request.config.get(name, 0) < size else {}
    kind = "bytes" if pieces is None else f"pieces of {request.tokenizer.name}"
    notes.append(f"data: {len(tokens):,} {kind} in rows of {length:,}: {'; '.join(sizes)}")
    return Dataset(arrays, entries, notes)


def _content(request: SourceRequest) -> tuple[np.ndarray, list[str]]:
    """The text's bytes, uint8, and notes."""
    path = request.path
    if path is None:
        whole = text()["values"] - BYTE_OFFSET
        return whole.astype(np.uint8), ["data: the text is Python's own help; --data reads another"]
    if path.is_dir():
        files = [file for file in sorted(path.rglob("*.txt")) if file.is_file()]
        if not files:
            raise UserError(f"--data {path}: there is no .txt file in this folder")
        content = np.concatenate([np.fromfile(file, np.uint8) for file in files])
        return _non_empty(path, content), [
            f"data: {len(files):,} .txt files, in the order of names"
        ]
    if not zipfile.is_zipfile(path):
        return _non_empty(path, np.fromfile(path, np.uint8)), []
    try:
        with zipfile.ZipFile(path) as archive:
            members = [member for member in archive.infolist() if not member.is_dir()]
            if len(members) != 1:
                raise UserError(f"--data {path}: it holds {len(members)} files; unpack the text")
            content = _unpacked(archive, members[0], request)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise UserError(f"--data {path}: damaged or cut off ({error}): get it again") from None
    return _non_empty(path, content), []


def _unpacked(
    archive: zipfile.ZipFile, member: zipfile.ZipInfo, request: SourceRequest
) -> np.ndarray:
    """A member's bytes, read in chunks: the size that its header says is not relied on."""
    parts, done = [], 0
    with archive.open(member) as stream:
        while chunk := stream.read(_CHUNK_BYTES):
            parts.append(chunk)
            done += len(chunk)
            request.on_progress(f"data: {done >> 20:,} MiB of {member.filename} unpacked")
    return np.frombuffer(b"".join(parts), np.uint8)


def _non_empty(path: Path, content: np.ndarray) -> np.ndarray:
    if not content.size:
        raise UserError(f"--data {path}: empty: there is no text in it")
    return content


def _pieces(request: SourceRequest, content: np.ndarray) -> tuple[np.ndarray, int, list[str]]:
    """The text as ids of a SentencePiece model, how many pieces that has, and notes.

    The text is encoded line by line, which changes nothing: a model takes a line's end for a blank,
    and no piece crosses a blank.
    """
    processor = load_processor(request.tokenizer)
    ids, replaced, done = [], 0, 0
    for chunk in _lines(content):
        decoded = chunk.decode("utf-8", "replace")
        replaced += decoded.count("\ufffd") - chunk.count("\ufffd".encode())
        lines = processor.encode(decoded.split("\n"))
        ids.append(np.fromiter(chain.from_iterable(lines), np.int32))
        done += len(chunk)
        request.on_progress(f"data: {100 * done // len(content)} % of the text to pieces")
    notes = [f"data: {replaced:,} bytes that are no UTF-8 were replaced"] if replaced else []
    return np.concatenate(ids), processor.get_piece_size(), notes


def _lines(content: np.ndarray) -> Iterator[bytes]:
    """The bytes in chunks that end where a line does."""
    start, size = 0, len(content)
    while start < size:
        end = min(start + _CHUNK_BYTES, size)
        for mark in b"\n ":  # a blank will do where a line is longer than a chunk
            breaks = np.flatnonzero(content[start:end] == mark)
            if end < size and breaks.size:
                end = start + int(breaks[-1]) + 1
                break
        yield content[start:end].tobytes()
        start = end


ENWIK8 = Source(
    "enwik8, the first 100,000,000 bytes of a dump of Wikipedia",
    "https://mattmahoney.net/dc/enwik8.zip",
    "enwik8.txt",
    ("length", "vocabulary"),
    build,
)
TEXT = Source(
    "a text: a file, or a folder of .txt files",
    "https://www.gutenberg.org, for one",
    "enwik8.txt",
    ("length", "vocabulary", "default"),
    build,
    cuts=True,
)
