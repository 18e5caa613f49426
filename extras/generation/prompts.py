"""Prompts as token ids, and ids as text; the check's process only.

Tokenizers are those of extras/shared/coders.py, or of a user's pair the functions of its case.py

    encode       (text) -> ids
    decode       (ids) -> text
"""

from pathlib import Path

import numpy as np

from twincheck.common.pair.case_hooks import call_hook
from twincheck.common.pair.nested import flat
from twincheck.common.pair.pairs import Pair
from twincheck.common.pair.sentencepieces import MODEL
from twincheck.common.system.errors import UserError
from twincheck.extras.generation import Kind
from twincheck.extras.shared.coders import PIECES, decoded, tokenizer

PROMPT = "The "  # of a built-in model, where none is given
OWN_ROWS = 4  # of a pair's inputs, at most, where no prompt is given


class Hooks:
    """The functions of a pair's case.py."""

    def __init__(self, pair: Pair):
        self._pair, self.name = pair, str(pair.folder / "case.py")

    def encode(self, content: bytes) -> np.ndarray:
        """The ids (T,) int64 of UTF-8; UserError where encode gives no list of numbers."""
        function = self._pair.case.encode
        ids = np.asarray(call_hook(self._pair, "encode", function, decoded(content, self.name)))
        if ids.ndim != 1 or ids.dtype.kind not in "iu":
            raise UserError(Kind.ENCODE_NO_IDS(file=self.name))
        return ids.astype(np.int64)

    def decode(self, ids: np.ndarray) -> str:
        """The text of ids, or the ids themselves where case.py has no decode."""
        function = getattr(self._pair.case, "decode", lambda ids: " ".join(map(str, ids)))
        return str(call_hook(self._pair, "decode", function, ids.tolist()))


def coder_of(pair: Pair, options):
    """A pair's tokenizer; None for one whose prompts are ids."""
    weights = options.run.weights or ""
    if pair.built_in or options.tokenizer:
        return tokenizer(options.tokenizer, weights)
    if hasattr(pair.case, "encode"):
        return Hooks(pair)
    beside = [Path(weights) / name for name in (MODEL, PIECES) if weights]
    found = next((path for path in beside if path.is_file()), None)
    return tokenizer(found) if found else None


def rows_of(pair: Pair, config, options, coder, seed: int) -> list[np.ndarray]:
    """The prompts, each (T,) int64: those given, or of a user's pair rows of its own inputs.

    Raises UserError for what is no prompt.
    """
    if options.prompts is not None:
        given = [line for line in _content(options.prompts).splitlines() if line.strip()]
        if not given:
            raise UserError(Kind.PROMPTS_MISSING(path=str(options.prompts)))
    elif options.prompt is not None or pair.built_in:
        given = [text.encode(errors="surrogateescape") for text in options.prompt or [PROMPT]]
    else:
        return _own_rows(pair, config, seed)
    rows = [_ids(text) if coder is None else coder.encode(text) for text in given]
    for number, ids in enumerate(rows):
        if ids.size == 0 or ids.min() < 0:
            raise UserError(Kind.PROMPT_OF_NO_TOKEN(number=number))
    return rows


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UserError(Kind.FILE_UNREADABLE(path=str(path), error=error.strerror)) from None


def _ids(text: bytes) -> np.ndarray:
    words = text.replace(b",", b" ").split()
    if not all(word.isdigit() and len(word) < 19 for word in words):
        raise UserError(Kind.PROMPT_NO_IDS(prompt=text.decode(errors="replace")))
    return np.array([int(word) for word in words], dtype=np.int64)


def _own_rows(pair: Pair, config, seed: int) -> list[np.ndarray]:
    """The first rows of the tokens that make_inputs draws, each as long as its mask."""
    inputs = flat(call_hook(pair, "make_inputs", pair.case.make_inputs, dict(config), seed))
    names = {"input_ids": "input_ids", "attention_mask": "attention_mask"}
    names |= getattr(pair.case, "TOKEN_INPUTS", {})
    integers = [k for k, v in inputs.items() if v.dtype.kind == "i" and v.ndim == 2]
    name = names["input_ids"] if names["input_ids"] in inputs else (integers or [""])[0]
    if not name:
        raise UserError(Kind.INPUTS_NO_TOKENS(model=pair.name))
    ids = inputs[name].astype(np.int64)
    mask = np.asarray(inputs.get(names["attention_mask"], np.ones_like(ids)))
    mask = mask if mask.shape == ids.shape else np.ones_like(ids)
    rows = [row[kept != 0] for row, kept in zip(ids, mask, strict=True)]
    return [row for row in rows if row.size][:OWN_ROWS]


def shown(text: str) -> str:
    """Text for a terminal: control characters, which may be commands to it, are replaced."""
    return "".join(c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text)
