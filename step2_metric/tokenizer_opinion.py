"""A third opinion on tokenizers: what they must make of the hard texts, derived in another way.

Both sides use one file (step2_metric/tokenizers.py), so that only this can find it wrong.  It runs
in the check's process.  Bytes come from Python's own encoder, words from a walk over the marks
of a text (str.isalnum and str.isspace, no regular expression), pieces from the library's plain
`encode`, whose ids must decode to the text again and whose spans must hold the pieces.
"""

import hashlib
from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import cache
from itertools import accumulate, groupby
from pathlib import Path

import numpy as np

from twincheck.common.logs.reader import read_log
from twincheck.common.logs.result_folder import ResultFolder
from twincheck.common.pair.data import BYTE_OFFSET, PADDING
from twincheck.common.pair.sentencepieces import load_processor
from twincheck.common.system.errors import UserError
from twincheck.common.system.frameworks import SIDES
from twincheck.common.system.reasons import Kind
from twincheck.common.verdict.row import Row, claim
from twincheck.step2_metric.hard_texts import HARD_TEXTS

Tokens = tuple[list[int], list[tuple[int, int]]]  # ids, and (start, end) in characters
BLANK = "\u2581"  # what SentencePiece writes for one


def tokenizer_opinion(folder: Path, model: Path) -> tuple[list[Row], list[str]]:
    """Rows third/TOKENIZER/ARRAY/SIDE: how many values of a side's log are not as derived here."""
    rows: list[Row] = []
    notes: list[str] = []
    for side in SIDES:
        with read_log(ResultFolder(folder).log("metric_all", side)) as log:
            for name, tokens in derived().items():
                if f"tokenizer/{name}/input_ids" in log:
                    rows += compared(name, side, tokens, log)
            if "tokenizer/sentencepiece/input_ids" in log:
                if model.is_file():
                    rows += pieces_opinion(side, load_processor(model), log)
                else:
                    notes.append(Kind.TOKENIZER_NOT_AT_HAND())
    return rows, list(dict.fromkeys(notes))


@cache
def derived() -> dict[str, list[Tokens]]:
    """Tokenizer -> the tokens of the hard texts, which are the same for every model and side."""
    half = HARD_TEXTS[: len(HARD_TEXTS) // 2]
    rules = {"bytes": byte_tokens, "words": word_rule(half), "words_lower": word_rule(half, True)}
    return {name: [rule(text) for text in HARD_TEXTS] for name, rule in rules.items()}


def compared(name: str, side: str, tokens: list[Tokens], log) -> list[Row]:
    """Each of a tokenizer's arrays in a side's log against those of the tokens derived here."""
    logged = {key: log[f"tokenizer/{name}/{key}"] for key in KEYS}
    ids = logged["input_ids"]
    width = ids.shape[1] if ids.ndim == 2 else 1
    rows = []
    for key, values in arrays_of(tokens, width).items():
        same = values.shape == logged[key].shape
        wrong = int(np.count_nonzero(values != logged[key])) if same else values.size
        first = ""
        if wrong and same:
            text = HARD_TEXTS[int(np.argwhere(values != logged[key])[0][0])]
            first = Kind.FIRST_IN_TEXT(text=ascii(text[:40]))
        sentence = Kind.TOKENS_DERIVED(wrong=wrong, size=values.size, first=first)
        rows.append(claim(f"third/{name}/{key}/{side}", wrong, 0.0, sentence))
    return rows


KEYS = ("lengths", "input_ids", "attention_mask", "offsets", "all_ids", "all_offsets")


def arrays_of(tokens: list[Tokens], width: int) -> dict[str, np.ndarray]:
    """Return what a side logs of these tokens, cut and padded on the right to `width`."""
    rows = [(ids[:width], spans[:width]) for ids, spans in tokens]
    fill = [width - len(ids) for ids, _ in rows]
    cells = list(zip(rows, fill, strict=True))
    return {
        "lengths": np.array([len(ids) for ids, _ in tokens]),
        "input_ids": np.array([ids + [PADDING] * n for (ids, _), n in cells]),
        "attention_mask": np.array([[1] * len(ids) + [0] * n for (ids, _), n in cells]),
        "offsets": np.array([spans + [(0, 0)] * n for (_, spans), n in cells]),
        "all_ids": np.array([_digest(ids) for ids, _ in tokens]),
        "all_offsets": np.array([_digest(spans) for _, spans in tokens]),
    }


def _digest(values: list) -> int:
    content = np.array(values, dtype=np.int64).tobytes()
    return int.from_bytes(hashlib.sha256(content).digest()[:7], "little")


# ---- the rules ----------------------------------------------------------------------------------


def byte_tokens(text: str) -> Tokens:
    """UTF-8 bytes; a byte that continues a character (binary 10......) has its span."""
    content = np.frombuffer(text.encode("utf-8"), np.uint8)
    places = (np.cumsum((content & 0xC0) != 0x80) - 1).tolist()
    return (content.astype(int) + BYTE_OFFSET).tolist(), [(i, i + 1) for i in places]


def word_rule(texts, lower: bool = False) -> Callable[[str], Tokens]:
    """The rule with a vocabulary of some texts' words; the id after its last is unknown."""
    known: dict[str, int] = {}
    for text in texts:
        for word, _, _ in _words(text, lower):
            known.setdefault(word, len(known) + 1)

    def rule(text: str) -> Tokens:
        words = list(_words(text, lower))
        ids = [known.get(word, len(known) + 1) for word, _, _ in words]
        return ids, [(start, end) for _, start, end in words]

    return rule


def _words(text: str, lower: bool) -> Iterator[tuple[str, int, int]]:
    ends = list(accumulate(len(mark.lower()) if lower else 1 for mark in text))
    place = 0
    for kind, run in groupby(text.lower() if lower else text, key=_kind):
        word = "".join(run)
        if kind != "blank":
            last = bisect_right(ends, place + len(word) - 1)
            yield word, bisect_right(ends, place), last + 1
        place += len(word)


def _kind(mark: str) -> str:
    if mark == "_" or mark.isalnum():
        return "word"
    return "blank" if mark.isspace() else "other"


def pieces_opinion(side: str, processor, log) -> list[Row]:
    """Ids against the library's plain encode; what they decode to; where their spans point."""
    name = "tokenizer/sentencepiece"
    expected = [list(processor.encode(text)) for text in HARD_TEXTS]
    wrong = int(np.sum(log[f"{name}/all_ids"] != np.array([_digest(ids) for ids in expected])))
    sentence = Kind.PIECES_IDS(wrong=wrong, count=len(expected))
    rows = [claim(f"third/sentencepiece/all_ids/{side}", wrong, 0.0, sentence)]
    ids, mask, offsets = (log[f"{name}/{k}"] for k in ("input_ids", "attention_mask", "offsets"))
    if not ids.shape == mask.shape == offsets.shape[:-1] or len(ids) != len(HARD_TEXTS):
        raise UserError(Kind.PIECES_MISSHAPEN(name=name, side=side))
    undecoded, outside, elsewhere = [], [], []
    for text, row, kept, spans in zip(HARD_TEXTS, ids, mask, offsets, strict=True):
        row, spans = row[kept == 1].tolist(), spans[kept == 1].tolist()
        flat = [place for span in spans for place in span]
        if flat != sorted(flat) or (flat and (flat[0] < 0 or flat[-1] > len(text))):
            outside.append(text)
        if not (text.isascii() and text.isprintable()) or processor.unk_id() in row:
            continue  # a model may write other characters otherwise
        whole = len(row) == len(processor.encode(text))
        if whole and processor.decode(row) != " ".join(text.split()):
            undecoded.append(text)
        pieces = [processor.id_to_piece(i).strip(BLANK) for i in row]
        held = [text[start:end].strip() for start, end in spans]
        if [piece.split(BLANK) for piece in pieces] != [part.split(" ") for part in held]:
            elsewhere.append(text)
    for key, texts, what in (
        ("decoded", undecoded, Kind.PIECES_DECODED),
        ("order", outside, Kind.PIECES_ORDER),
        ("spans", elsewhere, Kind.PIECES_SPANS),
    ):
        first = Kind.FIRST_OF_TEXTS(text=ascii(texts[0][:40])) if texts else ""
        sentence = what(wrong=len(texts), count=len(ids), first=first)
        rows.append(claim(f"third/sentencepiece/{key}/{side}", len(texts), 0.0, sentence))
    return rows
