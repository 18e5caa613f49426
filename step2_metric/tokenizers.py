"""Texts to ids: bytes, words, SentencePiece.  Both sides use this file, which needs no framework.

That both log the same tokens therefore says nothing of the tokenizers.  What checks them is the
third opinion (step2_metric/tokenizer_opinion.py), which derives the tokens in another way.

    encode(Bytes(), texts, 64)
    {"input_ids": (N, T), "attention_mask": (N, T), "offsets": (N, T, 2), "lengths": (N,)}, int64

A tokenizer has `tokens(text)` -> (ids, spans), a span being where a token's characters start and
end in the text, and `eos_id`, the id of the end of a sequence, or None.
"""

import re

import numpy as np

from twincheck.common.pair.data import BYTE_OFFSET, PADDING
from twincheck.common.pair.sentencepieces import load_processor


class Bytes:
    """A text's UTF-8 bytes, each plus 2, as enwik8's models have them."""

    eos_id = None

    def tokens(self, text):
        """A byte's span is that of its character."""
        ids, spans = [], []
        for place, mark in enumerate(text):
            for byte in mark.encode("utf-8", "surrogatepass"):
                ids.append(byte + BYTE_OFFSET)
                spans.append((place, place + 1))
        return ids, spans


class Words:
    """Words by NLTK's wordpunct rule, with ids from 1 in the order in which they are first seen.

    A run of letters, digits and low lines is a word, and so is a run of any other marks but blanks.
    Lower case comes first, as in the authors' loaders: one letter's is two marks long.
    A word that is not in the vocabulary has the id after its last.
    """

    eos_id = None

    def __init__(self, texts, lower=False):
        self.lower = lower
        self.ids = {}
        for text in texts:
            for word, _, _ in self.words(text):
                self.ids.setdefault(word, PADDING + 1 + len(self.ids))
        self.unknown_id = PADDING + 1 + len(self.ids)

    def words(self, text):
        """(word, start, end) of each, its place being that in the text as it was given."""
        places = range(len(text))
        if self.lower:
            places = [i for i, mark in enumerate(text) for _ in mark.lower()]
            text = text.lower()
        for word in re.finditer(r"\w+|[^\w\s]+", text):
            yield word.group(), places[word.start()], places[word.end() - 1] + 1

    def tokens(self, text):
        """A word's span is its place in the text as it was given."""
        ids, spans = [], []
        for word, start, end in self.words(text):
            ids.append(self.ids.get(word, self.unknown_id))
            spans.append((start, end))
        return ids, spans


class SentencePiece:
    """The pieces of a SentencePiece model, as the reference's Reformer tokenizer has them.

    Like it, this adds nothing at either end; `eos_id` is for who asks encode for one.
    """

    def __init__(self, path):
        self.processor = load_processor(path)
        end = self.processor.eos_id()
        self.eos_id = end if end >= 0 else None

    def tokens(self, text):
        """Spans are characters of the text as it was before the model normalised it."""
        if hasattr(self.processor, "EncodeAsOffsetMapping"):
            mapping = self.processor.EncodeAsOffsetMapping(text)
            return list(mapping["ids"]), [tuple(span) for span in mapping["offsets"]]
        pieces = self.processor.encode(text, out_type="immutable_proto").pieces  # before 0.2.2
        return [piece.id for piece in pieces], [(piece.begin, piece.end) for piece in pieces]


def encode(tokenizer, texts, width, eos=False):
    """Texts as arrays, cut or padded on the right to so many tokens.

    eos     end every sequence with the tokenizer's eos_id, for which a cut one makes room
    Returns input_ids and attention_mask (N, T), offsets (N, T, 2), which are 0 for padding and eos,
    and lengths (N,), the tokens of each text before it was cut; all int64.
    """
    rows = [tokenizer.tokens(text) for text in texts]
    lengths = [len(ids) + eos for ids, _ in rows]
    input_ids = np.full((len(rows), width), PADDING, dtype=np.int64)
    attention_mask = np.zeros((len(rows), width), dtype=np.int64)
    offsets = np.zeros((len(rows), width, 2), dtype=np.int64)
    for row, (ids, spans) in enumerate(rows):
        kept = min(len(ids), width - eos)
        input_ids[row, :kept] = ids[:kept]
        attention_mask[row, : kept + eos] = 1
        offsets[row, :kept] = np.array(spans[:kept], dtype=np.int64).reshape(kept, 2)
        if eos:
            input_ids[row, kept] = tokenizer.eos_id
    return {
        "input_ids": input_ids,
        "attention_mask": attention_mask,
        "offsets": offsets,
        "lengths": np.array(lengths, dtype=np.int64),
    }
