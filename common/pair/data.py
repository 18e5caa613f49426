"""Real data: digits and English text, files of arrays, batches of documents.

Only `digits` needs scikit-learn (in the check's process); the rest is NumPy, so that both workers
read and batch with the same code, and only the frameworks' own loaders differ.

A data file is an .npz of plain arrays with the SHA-256 of its content inside:

    digits  train/input_ids (N, 64), train/labels (N,), test/input_ids, test/labels
    text    values (all documents' ids, one after another), offsets (documents + 1,)

Those are int64; the files of common/pair/sources hold smaller integers, which the loaders widen.
Ids: 0 is padding; a digit's pixel p (0..16) is p + 1; a text's byte b is b + 2.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from twincheck.common.system.errors import UserError
from twincheck.common.system.files import whole
from twincheck.common.system.hashes import arrays_sha256
from twincheck.common.system.npz import read_npz
from twincheck.common.system.reasons import Kind

PADDING = 0
INK = 16  # a black pixel of a digit
TRAINED = 150  # pictures: after two epochs of them no built-in model knows all of the test set
TESTED = 240  # pictures: one of 960 samples is 0.1 %, less than the 0.15 % that the guide allows
LABELS = "labels"  # what a pair calls its labels, among its inputs
TEXT_COUNT = 60  # documents of the embedded text
TEXT_BYTES = 600  # of each at most
BYTE_OFFSET = 2  # as in the enwik8 models: 0 is padding, 1 is not used
TEXT_VOCABULARY = 256 + BYTE_OFFSET

_SHA256 = "sha256"


def digits() -> dict[str, dict[str, np.ndarray]]:
    """Return train and test sets of 64-token digits; a label is the blackened quarter, 0 to 3.

    scikit-learn's digits, each four times, once for each quarter.  The 1,797 pictures are split in
    two, every digit in the same share in both (seeded, hence always the same); of the one part as
    many are trained on as a model needs to learn most of this, of the other as many are the test
    set as a score needs: 600 samples to train on, 960 to test, all four of a picture on one side.
    """
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    pixels, shown = load_digits(return_X_y=True)  # (N, 64) floats 0..16, (N,)
    parts = train_test_split(pixels, test_size=0.4, random_state=0, stratify=shown)
    return {"train": _blackened(parts[0][:TRAINED]), "test": _blackened(parts[1][:TESTED])}


def _blackened(pixels: np.ndarray) -> dict[str, np.ndarray]:
    """input_ids (4N, 64) and labels (4N,) of pixels (N, 64): a picture's quarters in turn."""
    labels = np.tile(np.arange(4), len(pixels))
    pictures = np.repeat(pixels, 4, axis=0).reshape(-1, 2, 4, 2, 4)  # half, row, half, column
    pictures[np.arange(len(labels)), labels // 2, :, labels % 2] = INK
    ids = pictures.reshape(-1, 64).astype(np.int64) + 1
    return {"input_ids": ids, "labels": labels.astype(np.int64)}


def text(count: int | None = None, max_bytes: int | None = None) -> dict[str, np.ndarray]:
    """The documents of Python's own help (pydoc_data.topics) as bytes: values and offsets.

    The documents are in the order of their names; `count` keeps the first so many, `max_bytes` cuts
    each.  They are English, and between 200 bytes and 60 KiB long, so that truncation and padding
    both happen.  The text, and so its hash, depends on the version of Python.
    """
    from pydoc_data.topics import topics

    names = sorted(topics)[:count]
    texts = [topics[name].encode("utf-8")[:max_bytes] for name in names]
    lengths = [len(text) for text in texts]
    return {
        "values": np.frombuffer(b"".join(texts), np.uint8).astype(np.int64) + BYTE_OFFSET,
        "offsets": np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
    }


def embedded_data(config: dict, seed: int) -> dict[str, dict[str, np.ndarray]]:
    """make_data of the built-in models: the digits, always the same, and text for step 2 to pad."""
    return {**digits(), "text": text(count=TEXT_COUNT, max_bytes=TEXT_BYTES)}


def save_arrays(path: Path | str, arrays: Mapping[str, np.ndarray], packed: bool = True) -> str:
    """Write `arrays` as .npz, all or nothing, with their SHA-256 inside; returns the SHA-256.

    The same arrays give the same file, byte for byte.  `packed`: compressed, which takes long where
    arrays are large.
    """
    path = Path(path)
    digest = arrays_sha256(arrays)
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole(path) as temporary, open(temporary, "wb") as file:
        save = np.savez_compressed if packed else np.savez
        save(file, **{_SHA256: np.array(digest)}, **arrays)
    return digest


def load_arrays(path: Path | str) -> dict[str, np.ndarray]:
    """The arrays that `save_arrays` wrote, checked against their SHA-256; nothing is executed.

    Raises UserError, with the path, where the file is missing, cut off, foreign or changed.
    """
    path = Path(path)
    try:
        arrays = read_npz(path, text=(_SHA256,))
        digest = str(arrays.pop(_SHA256))
    except FileNotFoundError:
        raise UserError(Kind.DATA_FILE_MISSING(path=str(path))) from None
    except KeyError:
        raise UserError(Kind.DATA_FILE_WITHOUT_HASH(path=str(path))) from None
    except (ValueError, UserError) as error:
        told = {"path": str(path), "reason": str(error)}
        raise UserError(Kind.DATA_FILE_REFUSED(**told)) from None
    if digest != arrays_sha256(arrays):
        raise UserError(Kind.DATA_FILE_CHANGED(path=str(path)))
    return arrays


def count(samples: Mapping[str, np.ndarray]) -> int:
    """Return how many samples there are: arrays (N, ...)."""
    return len(next(iter(samples.values())))


def split_documents(values: np.ndarray, offsets: np.ndarray) -> list[np.ndarray]:
    """The documents of a text file: document i is values[offsets[i] : offsets[i + 1]]."""
    if offsets.ndim != 1 or offsets.size == 0 or offsets[0] != 0 or offsets[-1] != values.size:
        raise ValueError(Kind.OFFSETS_REFUSED(count=values.size))
    if np.any(np.diff(offsets) < 0):
        raise ValueError(Kind.OFFSETS_DECREASE())
    return [values[i:j] for i, j in zip(offsets[:-1], offsets[1:], strict=True)]


def pad_batch(documents: Sequence[np.ndarray], max_length: int) -> tuple[np.ndarray, np.ndarray]:
    """`documents`, cut or padded on the right to `max_length`: input_ids, attention_mask.

    Both are (B, max_length), int64; the mask is 1 where a token is and 0 on padding. An empty
    document is a row of padding.
    """
    if max_length < 1:
        raise ValueError(Kind.MAX_LENGTH_REFUSED(length=max_length))
    ids = np.full((len(documents), max_length), PADDING, np.int64)
    mask = np.zeros((len(documents), max_length), np.int64)
    for row, document in enumerate(documents):
        kept = np.asarray(document)[:max_length]
        ids[row, : len(kept)] = kept
        mask[row, : len(kept)] = 1
    return ids, mask
