"""Words of texts as ids, for the sources of classified texts: NLTK's wordpunct rule.

Not the tokenizers that step 2 checks (step2_metric/tokenizers.py): the data are built once, in the
check's process.
"""

import re
from collections.abc import Callable, Sequence

import numpy as np

from twincheck.common.pair.data import PADDING
from twincheck.extras.sources import Kind

_WORD = re.compile(r"\w+|[^\w\s]+")  # letters and digits, or a run of other marks
_PROGRESS_EVERY = 5000  # texts
Samples = list[tuple[int, str]]  # (label, text)


class Vocabulary:
    """Word -> id from 1, in the order in which the words are first seen; 0 is padding."""

    def __init__(self, lower: bool):
        self.lower = lower
        self.ids: dict[str, int] = {}

    @property
    def size(self) -> int:
        """Rows of an embedding for it: the words and padding."""
        return len(self.ids) + 1

    def rows(
        self, texts: Sequence[str], length: int, on_progress: Callable[[str], None]
    ) -> np.ndarray:
        """Ids (N, length), int32, cut or padded on the right; every word gets an id, cut or not."""
        ids = np.full((len(texts), length), PADDING, np.int32)
        known = self.ids
        for row, text in enumerate(texts):
            if row % _PROGRESS_EVERY == 0:
                on_progress(Kind.NOW_WORDS(count=row, texts=len(texts)))
            words = _WORD.findall(text.lower() if self.lower else text)
            kept = [known.setdefault(word, len(known) + 1) for word in words][:length]
            ids[row, : len(kept)] = kept
        return ids


def labelled(
    parts: dict[str, Samples],
    lower: bool,
    lengths: dict[str, int],
    on_progress: Callable[[str], None],
) -> tuple[dict[str, np.ndarray], int]:
    """(label, text) of each part -> PART/NAME arrays, and the vocabulary's size with padding.

    input_ids int32 (N, T), attention_mask int8 (N, T), which is 1 where the id is not padding, and
    labels int64 (N,).  Words are first seen in the order of the parts.
    """
    vocabulary = Vocabulary(lower)
    arrays: dict[str, np.ndarray] = {}
    for part, samples in parts.items():
        ids = vocabulary.rows([text for _, text in samples], lengths[part], on_progress)
        arrays[f"{part}/input_ids"] = ids
        arrays[f"{part}/attention_mask"] = (ids != PADDING).astype(np.int8)
        arrays[f"{part}/labels"] = np.array([label for label, _ in samples], np.int64)
    return arrays, vocabulary.size


def class_counts(parts: dict[str, Samples], names: Sequence[object]) -> str:
    """A note: how many samples of each class a part has, and how many of the texts are empty."""
    sizes = []
    for part, samples in parts.items():
        counts = np.bincount([label for label, _ in samples], minlength=len(names))
        counted = zip(names, counts.tolist(), strict=True)
        classes = [Kind.CLASS_OF(name=name, count=count) for name, count in counted]
        sizes.append(Kind.PART_OF_CLASSES(part=part, count=len(samples), classes=classes))
    empty = sum(not text.strip() for samples in parts.values() for _, text in samples)
    return Kind.DATA(what=sizes + [Kind.TEXTS_EMPTY(count=empty)] * (empty > 0))
