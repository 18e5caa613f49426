"""Tokenizers of texts that a user gives: prompts, and lines of data; the check's process only.

`bytes`, a byte's value plus 2, since ids 0 and 1 are special (google/reformer-enwik8's rule); a
SentencePiece model, a file or a folder that holds spiece.model; a Hugging Face tokenizer.json,
likewise.
"""

from pathlib import Path

import numpy as np

from twincheck.common.pair.data import BYTE_OFFSET
from twincheck.common.pair.sentencepieces import MODEL, find_model, load_processor
from twincheck.common.system.door import to_pip
from twincheck.common.system.errors import UserError
from twincheck.extras.shared import Kind

BYTES = "bytes"
PIECES = "tokenizer.json"  # the file's name beside published weights
_SPECIAL = b"\xff"  # no UTF-8: shown as a replacement character


class Bytes:
    """One token a byte."""

    name = BYTES
    size = 256 + BYTE_OFFSET

    def encode(self, content: bytes) -> np.ndarray:
        """The ids (T,) int64 of any bytes."""
        return np.frombuffer(content, np.uint8).astype(np.int64) + BYTE_OFFSET

    def decode(self, ids: np.ndarray) -> str:
        """The text of ids; what is no UTF-8 is shown by replacement characters."""
        parts = [bytes([i - BYTE_OFFSET]) if i >= BYTE_OFFSET else _SPECIAL for i in ids.tolist()]
        return b"".join(parts).decode(errors="replace")


class SentencePiece:
    """The pieces of a SentencePiece model."""

    def __init__(self, path: Path):
        self._processor = load_processor(path)
        self.name = str(path)
        self.size = self._processor.get_piece_size()

    def encode(self, content: bytes) -> np.ndarray:
        """The ids (T,) int64 of UTF-8; UserError for other bytes, and for what has no piece."""
        ids = self._processor.encode(decoded(content, self.name))
        if self._processor.unk_id() in ids:
            raise UserError(Kind.PROMPT_WITHOUT_PIECE(tokenizer=self.name))
        return np.array(ids, dtype=np.int64)

    def decode(self, ids: np.ndarray) -> str:
        """The text of ids; what is no UTF-8 is shown by replacement characters."""
        return self._processor.decode(ids.tolist())


class Pieces:
    """A tokenizer.json, through the library that writes it."""

    def __init__(self, path: Path):
        try:
            from tokenizers import Tokenizer
        except ModuleNotFoundError:
            command = to_pip("tokenizers")
            raise UserError(Kind.NO_TOKENIZERS(path=str(path), command=command)) from None
        try:
            self._tokenizer = Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises nothing narrower
            raise UserError(Kind.NOT_A_TOKENIZER(path=str(path), error=str(error))) from None
        self.name = str(path)
        self.size = self._tokenizer.get_vocab_size()

    def encode(self, content: bytes) -> np.ndarray:
        """The ids (T,) int64 of UTF-8."""
        return np.array(self._tokenizer.encode(decoded(content, self.name)).ids, dtype=np.int64)

    def decode(self, ids: np.ndarray) -> str:
        """The text of ids."""
        return self._tokenizer.decode(ids.tolist())


def decoded(content: bytes, name: str) -> str:
    """A prompt's bytes as text; UserError for what is no UTF-8."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise UserError(Kind.PROMPT_NOT_UTF8(tokenizer=name)) from None


def tokenizer(option: Path | None, weights: str | None = None) -> Bytes | SentencePiece | Pieces:
    """The tokenizer of --tokenizer; without it the one beside the weights, or bytes.

    Raises UserError where there is none of that name.
    """
    beside = Path(weights or "") / MODEL
    if option is None and weights and beside.is_file():
        option = beside
    if option is None or str(option) == BYTES:
        return Bytes()
    path = option / PIECES if option.is_dir() else option
    if path.suffix == ".json" and path.is_file():
        return Pieces(path)
    return SentencePiece(find_model(option))
