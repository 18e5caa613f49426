"""The framework's own DataLoader: torch_loader.py and paddle_loader.py are twins."""

import re

import numpy as np
import paddle
from paddle.io import BatchSampler, DataLoader, Dataset, Sampler

from common import paddle_side as side
from common.data import PADDING, pad_batch

UNKNOWN = PADDING + 1  # the id of a word that the vocabulary lacks; known words follow


class Samples(Dataset):
    """Rows of arrays that share their first axis: sample i is {name: array[i]}."""

    def __init__(self, arrays):
        super().__init__()
        self.arrays = arrays

    def __len__(self):
        return len(next(iter(self.arrays.values())))

    def __getitem__(self, index):
        return {name: values[index] for name, values in self.arrays.items()}


class Documents(Dataset):
    """Texts of different lengths, each an array of ids."""

    def __init__(self, documents):
        super().__init__()
        self.documents = documents

    def __len__(self):
        return len(self.documents)

    def __getitem__(self, index):
        return self.documents[index]


class Vocabulary:
    """Words in the order in which they are first seen; `ids` maps each to its id."""

    def __init__(self, texts):
        self.ids = {}
        for text in texts:
            for word in words_of(text):
                self.ids.setdefault(word, UNKNOWN + 1 + len(self.ids))

    def encode(self, text):
        """The ids of a text's words, int64 (words,); UNKNOWN for a word never seen."""
        ids = [self.ids.get(word, UNKNOWN) for word in words_of(text)]
        return np.array(ids, dtype=np.int64)


class Order(Sampler):
    """The samples in a given order, which comes from the tape."""

    def __init__(self, order):
        super().__init__()
        self.order = [int(index) for index in order]

    def __iter__(self):
        return iter(self.order)

    def __len__(self):
        return len(self.order)


def batches(dataset, order, batch_size, drop_last=False, max_length=None):
    """The dataset in batches of arrays; texts are cut or padded to `max_length`."""
    sampler = BatchSampler(sampler=Order(order), batch_size=batch_size, drop_last=drop_last)
    collate = None if max_length is None else lambda texts: _padded(texts, max_length)
    for batch in DataLoader(dataset, batch_sampler=sampler, collate_fn=collate):
        yield {name: _array(values) for name, values in batch.items()}


def words_of(text):
    """The words of a text in lower case; a mark of punctuation is a word of its own."""
    return re.findall(r"\w+|[^\w\s]", text.lower())


def split(digits, part):
    """The arrays of one part of the data: train or test."""
    prefix = f"{part}/"
    return {k[len(prefix) :]: v for k, v in digits.items() if k.startswith(prefix)}


def predict(run, model, samples, batch_size):
    """Logits (N, C) and labels (N) of the samples in their order, as arrays."""
    run.session.probing = False
    scores, labels = [], []
    order = range(len(samples["labels"]))
    for i, batch in enumerate(batches(Samples(samples), order, batch_size)):
        run.session.begin(i, prefix=f"{run.prefix}test/{i:03d}/")
        tensors = {key: side.tensor(values) for key, values in batch.items()}
        with paddle.no_grad():
            scores.append(side.array(run.call(model, tensors)["logits"]))
        labels.append(batch["labels"])
    run.session.begin(prefix=run.prefix)
    return np.concatenate(scores), np.concatenate(labels)


def _padded(texts, max_length):
    input_ids, attention_mask = pad_batch(texts, max_length)
    return {"input_ids": input_ids, "attention_mask": attention_mask}


def _array(values):
    return side.array(values) if paddle.is_tensor(values) else np.asarray(values)
