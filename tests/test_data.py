"""The embedded data, the batches and the scores, against scikit-learn where it has an opinion."""

import numpy as np
import pytest
from builders import python

from twincheck.common.pair import data, metrics
from twincheck.common.system.errors import UserError

# scikit-learn's import takes seconds: the tests that ask it import it.


def save_digits(path):
    """The digits as a data file, one name an array; returns the SHA-256."""
    parts = data.digits()
    flat = {f"{part}/{name}": v for part, arrays in parts.items() for name, v in arrays.items()}
    return data.save_arrays(path, flat)


# ---- files --------------------------------------------------------------------------------------


def test_the_digits_are_always_the_same_and_no_picture_is_in_both_parts(tmp_path):
    first = save_digits(tmp_path / "a.npz")
    assert first == save_digits(tmp_path / "b.npz")
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    assert first == "813cc9da9d1868dbc3abeaa8ea870f70facd3aee11d5bcedb42886b4164c7749"
    arrays, shown = data.load_arrays(tmp_path / "a.npz"), {}
    for part, count in (("train", 150), ("test", 240)):
        assert np.bincount(arrays[f"{part}/labels"]).tolist() == [count] * 4
        # What a quarter hides the other three samples of its picture show.
        four = arrays[f"{part}/input_ids"].reshape(-1, 4, 64).min(axis=1)
        shown[part] = {tuple(picture) for picture in four}
    assert not shown["train"] & shown["test"]


def documents_of(path, **options):
    """The text as a data file: its SHA-256, its arrays, its documents."""
    digest = data.save_arrays(path, data.text(**options))
    arrays = data.load_arrays(path)
    return digest, arrays["values"], data.split_documents(arrays["values"], arrays["offsets"])


def test_text_is_ragged_bytes_of_english(tmp_path):
    _, values, documents = documents_of(tmp_path / "text.npz")
    assert len(documents) > 50
    assert min(map(len, documents)) < 512 < max(map(len, documents))
    assert values.min() >= data.BYTE_OFFSET and values.max() < data.TEXT_VOCABULARY
    text = bytes((documents[0] - data.BYTE_OFFSET).astype(np.uint8)).decode("utf-8")
    assert "assert" in text  # the first topic by name


def test_a_changed_file_is_refused(tmp_path):
    path = tmp_path / "digits.npz"
    digest = data.save_arrays(path, {"values": np.arange(5)})
    np.savez(path, sha256=np.array(digest), values=np.arange(1, 6))
    with pytest.raises(UserError, match="SHA-256 differs"):
        data.load_arrays(path)
    with pytest.raises(UserError, match="no such data file"):
        data.load_arrays(tmp_path / "none.npz")


# ---- batches ------------------------------------------------------------------------------------


def test_pad_batch_cuts_and_pads_on_the_right():
    ids, mask = data.pad_batch([np.array([5, 6]), np.array([7, 8, 9, 10]), np.array([], int)], 3)
    assert ids.tolist() == [[5, 6, 0], [7, 8, 9], [0, 0, 0]]
    assert mask.tolist() == [[1, 1, 0], [1, 1, 1], [0, 0, 0]]
    assert ids.dtype == mask.dtype == np.int64
    with pytest.raises(ValueError, match="max_length must be at least 1, not 0"):
        data.pad_batch([np.array([1])], 0)


@pytest.mark.parametrize("offsets", [[0, 3], [1, 5], [0, 4, 2, 5], []])
def test_split_documents_refuses_offsets_that_do_not_fit(offsets):
    with pytest.raises(ValueError, match="offsets must"):
        data.split_documents(np.arange(5), np.array(offsets, int))


@pytest.mark.slow
@pytest.mark.parametrize("side", ["torch", "paddle"])
def test_numbers_are_widened_and_other_types_stay(side):
    script = f"""
import numpy as np
from twincheck.common.sides.backend_{side} import side
from twincheck.common.sides.loader import Samples, batches
made = {{"a": np.arange(3, dtype=np.int16), "b": np.ones((3, 2), np.int8), "c": np.zeros(3, bool),
        "d": np.zeros(3, np.float32)}}
batch = next(batches(side, Samples(made), range(3), 3))
print({{name: values.dtype.name for name, values in batch.items()}})
"""
    assert python("-c", script) == "{'a': 'int64', 'b': 'int64', 'c': 'bool', 'd': 'float64'}\n"


# ---- scores -------------------------------------------------------------------------------------


def check_scores(labels, predictions, classes):
    from sklearn import metrics as theirs

    everywhere = {"labels": range(classes), "average": "macro", "zero_division": 0}
    table = metrics.confusion(labels, predictions, classes)
    wanted = theirs.confusion_matrix(labels, predictions, labels=range(classes))
    assert table.dtype == np.int64 and np.array_equal(table, wanted)
    wanted = theirs.accuracy_score(labels, predictions)
    assert metrics.accuracy(labels, predictions, classes) == wanted
    f1 = theirs.f1_score(labels, predictions, average="macro", zero_division=0)
    assert metrics.macro_f1(labels, predictions, classes) == pytest.approx(f1, rel=1e-12, abs=0)
    precision = theirs.precision_score(labels, predictions, **everywhere)
    recall = theirs.recall_score(labels, predictions, **everywhere)
    expected = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
    # 1e-8 in a denominator of at least 1, at most a third of it in the last one
    found = metrics.macro_f_seed(labels, predictions, classes)
    assert found == pytest.approx(expected, rel=1e-6, abs=0)


@pytest.mark.parametrize("classes", [2, 5, 10])
def test_scores_are_sklearns(classes):
    generator = np.random.default_rng(classes)
    for _ in range(4):
        labels, others = generator.integers(0, classes, (2, 50))
        check_scores(labels, np.where(generator.random(50) < 0.5, labels, others), classes)


@pytest.mark.parametrize(
    "labels, predictions",
    [
        ([0, 1, 2, 2], [0, 1, 2, 2]),  # classes 3 and 4 absent
        ([0, 0, 1], [0, 0, 3]),  # 1 never predicted, 3 never a label
        ([1, 1, 1], [2, 2, 2]),  # nothing right
    ],
)
def test_scores_are_sklearns_with_absent_classes(labels, predictions):
    check_scores(np.array(labels), np.array(predictions), 5)


@pytest.mark.parametrize(
    "labels, predictions, sentence",
    [
        ([], [], "nothing to score"),
        ([0, 1], [0], "of one length"),
        ([0, 5], [0, 1], "labels reach from 0 to 5; classes are 0 .. 4"),
        ([0, 1], [0, -1], "predictions reach from -1 to 0; classes are 0 .. 4"),
        ([0.0, 1.0], [0, 1], "labels must be integers, not float64"),
    ],
)
def test_scores_refuse_what_cannot_be_scored(labels, predictions, sentence):
    with pytest.raises(ValueError, match=sentence):
        metrics.accuracy(np.array(labels), np.array(predictions), 5)
