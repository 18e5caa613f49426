"""Prompts as token ids, and ids as text; the check's process only.

Tokenizers: `bytes`, a byte's value plus 2, since ids 0 and 1 are special (google/reformer-enwik8's
rule); or a SentencePiece model, a file or a folder that holds spiece.model.
"""

from pathlib import Path

import numpy as np

from common.pair.data import BYTE_OFFSET
from common.pair.sentencepieces import MODEL, find_model, load_processor
from common.system.errors import UserError

BYTES = "bytes"
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
        try:
            text = content.decode()
        except UnicodeDecodeError:
            raise UserError(f"the prompt is no UTF-8, which {self.name} needs") from None
        ids = self._processor.encode(text)
        if self._processor.unk_id() in ids:
            raise UserError(
                f"the prompt has characters that {self.name} has no piece for: leave them out"
            )
        return np.array(ids, dtype=np.int64)

    def decode(self, ids: np.ndarray) -> str:
        """The text of ids; what is no UTF-8 is shown by replacement characters."""
        return self._processor.decode(ids.tolist())


def tokenizer(option: Path | None, weights: str | None = None) -> Bytes | SentencePiece:
    """The tokenizer of --tokenizer; without it the one beside the weights, or bytes.

    Raises UserError where there is none of that name.
    """
    beside = Path(weights or "") / MODEL
    if option is None and weights and beside.is_file():
        option = beside
    return Bytes() if option is None or str(option) == BYTES else SentencePiece(find_model(option))


def shown(text: str) -> str:
    """Text for a terminal: control characters, which may be commands to it, are replaced."""
    return "".join(c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text)
