"""Logs: what is written, what is read, and that nothing in a file is ever executed."""

import json
import os
import pickle
import tracemalloc

import numpy as np
import pytest
from builders import write_log
from forged import text, write_pickled

from twincheck.common.logs.reader import read_log
from twincheck.common.logs.writer import LogWriter
from twincheck.common.system.errors import LogError
from twincheck.common.system.hashes import arrays_sha256, file_sha256
from twincheck.common.system.json_file import write_json


def refusal(path) -> str:
    """The sentence that a file is refused with."""
    with pytest.raises(LogError) as caught:
        read_log(path).close()
    text = str(caught.value)
    assert "\n" not in text and path.name in text
    return text


def sample_arrays() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {
        "logits": rng.normal(size=(3, 4, 5)).astype(np.float32),
        "hidden/0": rng.normal(size=(2, 3)),
        "half": rng.normal(size=300).astype(np.float16),
        "ids": np.arange(70_000),
        "small": np.array([-1, 2], np.int8),
        "bytes": np.array([0, 255], np.uint8),
        "scalar": np.array(2.5),
        "schlüssel": np.ones((1, 1, 1), np.float32),
        "transposed": rng.normal(size=(4, 6)).T,
        "strided": rng.normal(size=(6, 6))[::2, ::-1],
        "big-endian": np.arange(5, dtype=">f8"),
    }


# ---- writing ------------------------------------------------------------------------------------


def test_numpy_and_the_reader_read_what_is_written(tmp_path):
    arrays, path = sample_arrays(), tmp_path / "log.npy"
    writer = write_log(path, arrays)
    loaded = np.load(path, allow_pickle=True).tolist()
    with read_log(path) as log:
        assert list(loaded) == list(log) == list(arrays) and len(log) == len(arrays)
        for key, array in arrays.items():
            for found in (loaded[key], log[key]):
                assert found.dtype == array.dtype.newbyteorder("=") == log.dtype(key)
                assert found.shape == log.shape(key) and np.array_equal(found, array)
        assert "absent" not in log and log.path == path
        with pytest.raises(KeyError):
            log["absent"]
    assert writer.sha256 == file_sha256(path) and os.listdir(tmp_path) == ["log.npy"]


def test_booleans_become_integers_and_empty_arrays_are_named(tmp_path):
    with LogWriter(tmp_path / "log.npy") as writer:
        assert writer.add("mask", np.array([True, False]))
        assert not writer.add("nothing", np.zeros((0, 3)))
    assert writer.skipped == ["nothing"]
    with read_log(tmp_path / "log.npy") as log:
        assert list(log) == ["mask"] and log["mask"].dtype == np.int64
        assert log["mask"].tolist() == [1, 0]


@pytest.mark.parametrize(
    ("key", "array", "error", "text"),
    [
        ("a", np.ones(2), ValueError, "a: this key is in the log already"),
        ("b", np.array(["x"]), TypeError, "b: a log holds numeric arrays, not <U1"),
        ("b", np.array([None]), TypeError, "b: a log holds numeric arrays, not object"),
        ("b", np.ones(1, "M8[s]"), TypeError, "b: a log holds numeric arrays, not datetime64[s]"),
        (3, np.ones(1), TypeError, "a log's keys are text, not int: 3"),
        ("k" * 2000, np.ones(1), ValueError, "keys have at most 1024 bytes"),
    ],
)
def test_what_cannot_be_logged_is_named(tmp_path, key, array, error, text):
    with LogWriter(tmp_path / "log.npy") as writer:
        writer.add("a", np.ones(2))
        with pytest.raises(error) as caught:
            writer.add(key, array)
        assert text in str(caught.value)
    with read_log(tmp_path / "log.npy") as log:
        assert list(log) == ["a"]


def test_a_failed_run_leaves_no_log_and_keeps_the_former(tmp_path):
    path = tmp_path / "log.npy"
    path.write_text("former")
    with pytest.raises(RuntimeError), LogWriter(path) as writer:
        writer.add("a", np.ones(2))
        raise RuntimeError
    assert path.read_text() == "former" and os.listdir(tmp_path) == ["log.npy"]
    assert writer.sha256 is None
    with pytest.raises(ValueError, match="not open for writing"):
        writer.add("b", np.ones(2))


def test_the_writer_holds_one_tensor_at_most(tmp_path):
    tensor = np.zeros(1 << 20)
    tracemalloc.start()
    with LogWriter(tmp_path / "log.npy") as writer:
        for i in range(20):
            tensor[0] = i
            writer.add(f"k{i}", tensor)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert os.path.getsize(tmp_path / "log.npy") > 20 * tensor.nbytes
    assert peak < tensor.nbytes


def test_a_large_tensor_of_several_keys_is_stored_once(tmp_path):
    """A module's input is mostly another's output; np.load and reprod_log find it under each."""
    tensor = np.arange(1 << 16, dtype=np.float64)
    with LogWriter(tmp_path / "log.npy") as writer:
        writer.add("out", tensor)
        writer.add("next:in/0", tensor.copy())
        writer.add("other shape", tensor.reshape(2, -1))
        writer.add("other type", tensor.view(np.int64))
        writer.add("behind", tensor[:3])
    assert 3 * tensor.nbytes < os.path.getsize(tmp_path / "log.npy") < 3.1 * tensor.nbytes
    plain = np.load(tmp_path / "log.npy", allow_pickle=True).item()
    with read_log(tmp_path / "log.npy") as log:
        assert list(log) == list(plain)
        for key in log:
            assert np.array_equal(log[key], plain[key]) and log[key].dtype == plain[key].dtype


def test_the_reader_holds_one_tensor_at_most(tmp_path):
    tensor = np.zeros(1 << 18)
    write_log(tmp_path / "log.npy", {f"k{i}": tensor for i in range(20)})
    tracemalloc.start()
    with read_log(tmp_path / "log.npy") as log:
        for key in log:
            assert log[key].size == tensor.size
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2.5 * tensor.nbytes


# ---- reading others' logs -----------------------------------------------------------------------


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("core", [b"numpy._core", b"numpy.core"])
def test_every_protocol_and_spelling_that_numpy_writes(tmp_path, protocol, core):
    rng = np.random.default_rng(2)
    arrays = {
        "c": rng.normal(size=(20, 30)),
        "fortran": np.asfortranarray(rng.normal(size=(3, 4, 5)).astype(np.float32)),
        "big-endian": rng.normal(size=7).astype(">f4"),
        "flags": np.array([True, False]),
        "scalar": np.array(3),
        "strided": rng.normal(size=(6, 6))[:, ::2],
        "empty": np.zeros((0, 3)),
    }
    nested = {"top": arrays["c"], "n": {"m": {"k": arrays["fortran"]}}}
    stream = pickle.dumps(np.array(arrays | {"n": nested}, dtype=object), protocol)
    # The length of a framed name is written before it; both spellings are known all the same.
    written = b"numpy._core" if b"numpy._core" in stream else b"numpy.core"
    if protocol < 4 or written == core:
        stream = stream.replace(written, core)
    with read_log(write_pickled(tmp_path / "log.npy", stream)) as log:
        for key, array in arrays.items():
            assert np.array_equal(log[key], array) and log[key].dtype.isnative, key
            assert log.shape(key) == array.shape
        assert np.array_equal(log["n/top"], arrays["c"])
        assert np.array_equal(log["n/n/m/k"], arrays["fortran"])


def test_a_log_that_shrinks_while_it_is_open_is_an_error(tmp_path):
    write_log(tmp_path / "log.npy", {"a": np.ones(100_000)})
    with read_log(tmp_path / "log.npy") as log:
        os.truncate(tmp_path / "log.npy", 1000)
        with pytest.raises(LogError, match="became shorter"):
            log["a"]


# ---- refused ------------------------------------------------------------------------------------


def dumped(value, protocol=4) -> bytes:
    return pickle.dumps(np.array(value, dtype=object), protocol)


@pytest.mark.parametrize(
    ("stream", "said"),
    [
        (dumped({"a": 3}), "a Python int under the key a"),
        (dumped({"a": [np.ones(2)]}), "a list under the key a"),
        (dumped({"loss": np.float64(3)}), "a NumPy scalar under the key loss"),
        (dumped({3: np.ones(2)}), "a Python int as a key"),
        (dumped({"a": np.array(["x"])}), "the dtype U1"),
        (dumped({"a": np.ones(1, complex)}), "the dtype c16"),
        (dumped({"a": np.ones(1, [("x", "f4")])}), "the dtype V4"),
        (pickle.dumps(np.ones(3)), "one plain array instead of np.save's dict"),
        (b"\x80\x04}.", "a dict instead of np.save's dict"),
        (b"\x80\x07}.", "pickle protocol 7"),
        (b"\x80\x04h\x05.", "a reference to nothing"),
        (b"\x80\x04R.", "an opcode without its operands"),
        (b"\x80\x04K\x01K\x02a.", "APPEND to what is no list"),
        (b"\x80\x04cnumpy\nndarray\n)R.", "a call of ndarray"),
        (b"\x80\x04cnumpy\n" + b"x" * 5000 + b"\n.", "a name that does not end"),
        (b"\x80\x04c\x1b[2J\nx\n.", r"'\x1b[2J.x'"),
        (b"\x80\x04\x8c\x02\xff\xff.", "text that is not UTF-8"),
        (b"\x80\x02}q\x00" + text("a") + b"h\x00s.", "a dict or list that occurs twice"),
    ],
)
def test_refused_pickles_are_named(tmp_path, stream, said):
    assert said in refusal(write_pickled(tmp_path / "log.npy", stream))


def test_keys_that_collide_when_joined_are_refused(tmp_path):
    np.save(tmp_path / "log.npy", {"a/b": np.ones(1), "a": {"b": np.ones(1)}})
    assert "the key a/b twice" in refusal(tmp_path / "log.npy")


def test_every_truncation_of_a_log_is_refused(tmp_path):
    write_log(tmp_path / "log.npy", {"a": np.ones(3), "b": np.arange(2)})
    whole = (tmp_path / "log.npy").read_bytes()
    for length in range(len(whole)):
        (tmp_path / "cut.npy").write_bytes(whole[:length])
        refusal(tmp_path / "cut.npy")


def test_no_flipped_byte_crashes_the_reader(tmp_path):
    """Any bytes are a log that is read or refused; nothing else may come out."""
    np.save(tmp_path / "log.npy", {"a": np.ones(3), "n": {"b": np.arange(2)}})
    whole = bytearray((tmp_path / "log.npy").read_bytes())
    rng = np.random.default_rng(3)
    for _ in range(1500):
        changed = bytearray(whole)
        for place in rng.integers(0, len(whole), size=rng.integers(1, 4)):
            changed[place] = rng.integers(256)
        (tmp_path / "bad.npy").write_bytes(changed)
        try:
            with read_log(tmp_path / "bad.npy") as log:
                _ = [log[key] for key in log]
        except LogError:
            pass


# ---- hashes and sidecars ------------------------------------------------------------------------


def test_the_hash_of_arrays_sees_keys_dtypes_shapes_and_values_but_not_order():
    a, b = np.arange(6.0), np.arange(3)
    base = arrays_sha256({"a": a, "b": b})
    assert base == arrays_sha256({"b": b, "a": a.astype(">f8")})
    others = [
        {"a": a, "c": b},
        {"a": a.astype(np.float32), "b": b},
        {"a": a.view(np.int64), "b": b},  # the same bytes
        {"a": a.reshape(2, 3), "b": b},
        {"a": a + 1, "b": b},
        {"a": a},
    ]
    assert len({base, *map(arrays_sha256, others)}) == len(others) + 1
    fortran = np.asfortranarray(a.reshape(2, 3))
    assert arrays_sha256({"a": fortran}) == arrays_sha256({"a": a.reshape(2, 3)})


def test_json_never_holds_nan_and_is_all_or_nothing(tmp_path):
    write_json(tmp_path / "a.json", {"x": 1})
    with pytest.raises(ValueError):
        write_json(tmp_path / "a.json", {"x": float("nan")})
    assert json.loads((tmp_path / "a.json").read_text()) == {"x": 1}
    assert os.listdir(tmp_path) == ["a.json"]


@pytest.mark.parametrize("dtype", ["<f4", ">f8", "<i8", "|b1"])
def test_one_plain_array_is_a_log_with_one_entry(tmp_path, dtype):
    array = np.asfortranarray(np.arange(6).reshape(2, 3).astype(dtype))
    np.save(tmp_path / "plain.npy", array)
    with read_log(tmp_path / "plain.npy") as log:
        assert list(log) == ["array"] and np.array_equal(log["array"], array)
