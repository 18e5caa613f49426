"""Logs: what is written, what is read, and that nothing in a file is ever executed."""

import gc
import io
import json
import os
import pickle
import threading
import time
import tracemalloc

import numpy as np
import pytest
from builders import write_log
from forged import HEADER, built, text, write_pickled

from twincheck.common.logs.reader import read_log
from twincheck.common.logs.writer import LogWriter
from twincheck.common.system.errors import LogError
from twincheck.common.system.hashes import arrays_sha256, file_sha256
from twincheck.common.system.json_file import write_json
from twincheck.common.system.npz import read_npz


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


def test_numpy_reads_what_is_written(tmp_path):
    arrays = sample_arrays()
    writer = write_log(tmp_path / "log.npy", arrays)
    loaded = np.load(tmp_path / "log.npy", allow_pickle=True).tolist()
    assert list(loaded) == list(arrays)
    for key, array in arrays.items():
        assert loaded[key].dtype == array.dtype.newbyteorder("=")
        assert loaded[key].shape == array.shape and np.array_equal(loaded[key], array)
    assert writer.sha256 == file_sha256(tmp_path / "log.npy")
    assert os.listdir(tmp_path) == ["log.npy"]


def test_reader_reads_what_is_written(tmp_path):
    arrays = sample_arrays()
    write_log(tmp_path / "log.npy", arrays)
    with read_log(tmp_path / "log.npy") as log:
        assert list(log) == list(arrays) and len(log) == len(arrays)
        for key, array in arrays.items():
            assert log.shape(key) == array.shape and log.dtype(key) == log[key].dtype
            assert log[key].dtype == array.dtype.newbyteorder("=")
            assert np.array_equal(log[key], array)
        assert "absent" not in log and log.path == tmp_path / "log.npy"
        with pytest.raises(KeyError):
            log["absent"]


def test_booleans_become_integers_and_empty_arrays_are_named(tmp_path):
    with LogWriter(tmp_path / "log.npy") as writer:
        assert writer.add("mask", np.array([True, False]))
        assert not writer.add("nothing", np.zeros((0, 3)))
    assert writer.skipped == ["nothing"]
    with read_log(tmp_path / "log.npy") as log:
        assert list(log) == ["mask"] and log["mask"].dtype == np.int64
        assert log["mask"].tolist() == [1, 0]


def test_an_empty_log_is_a_log(tmp_path):
    write_log(tmp_path / "log.npy", {})
    assert np.load(tmp_path / "log.npy", allow_pickle=True).tolist() == {}
    with read_log(tmp_path / "log.npy") as log:
        assert len(log) == 0


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


def test_the_memo_does_not_grow_with_the_number_of_arrays(tmp_path):
    import pickletools

    write_log(tmp_path / "log.npy", {f"k{i}": np.ones(2) for i in range(50)})
    with open(tmp_path / "log.npy", "rb") as file:
        np.lib.format.read_magic(file)
        np.lib.format.read_array_header_1_0(file)
        names = [code.name for code, _, _ in pickletools.genops(file)]
    assert sum("PUT" in name or name == "MEMOIZE" for name in names) < 10


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


OPCODES = {
    b"\x80\x022.": "DUP",
    b"I1\n.": "INT",
    b"\x80\x04\x8f.": "EMPTY_SET",
    b"\x80\x02\xff.": r"b'\xff'",
}


def dumped(value, protocol=4) -> bytes:
    return pickle.dumps(np.array(value, dtype=object), protocol)


class Odd(np.ndarray):
    pass


@pytest.mark.parametrize(
    ("stream", "said"),
    [
        (dumped({"a": 3}), "a Python int under the key a"),
        (dumped({"a": None}), "None under the key a"),
        (dumped({"a": [np.ones(2)]}), "a list under the key a"),
        (dumped({"loss": np.float64(3)}), "a NumPy scalar under the key loss"),
        (dumped({3: np.ones(2)}), "a Python int as a key"),
        (dumped({"k" * 2000: np.ones(2)}), "text as a key"),
        (dumped({"a": np.array([1, "x"], dtype=object)}), "an array of objects under the key a"),
        (dumped({"a": np.array(["x"])}), "the dtype U1"),
        (dumped({"a": np.ones(1, complex)}), "the dtype c16"),
        (dumped({"a": np.ones(1, [("x", "f4")])}), "the dtype V4"),
        (dumped({"a": np.ones(2).view(Odd)}), "test_logs.Odd"),
        (pickle.dumps(np.ones(3)), "one plain array instead of np.save's dict"),
        (b"\x80\x04}.", "a dict instead of np.save's dict"),
        (b"\x80\x07}.", "pickle protocol 7"),
        (b"\x80\x04\x8e" + b"\xff" * 8, "an end before the pickle's own"),
        (b"\x80\x04\x8d" + b"\xff" * 8, "an end before the pickle's own"),
        (b"\x80\x04h\x05.", "a reference to nothing"),
        (b"\x80\x04R.", "an opcode without its operands"),
        (b"\x80\x04\x94.", "an opcode without its operands"),
        (b"\x80\x04K\x01K\x02a.", "APPEND to what is no list"),
        (b"\x80\x04K\x01K\x02K\x03s.", "SETITEM on what is no dict"),
        (b"\x80\x04cnumpy\nndarray\n)R.", "a call of ndarray"),
        (b"\x80\x04cnumpy\ndtype\n)R.", "a call with other arguments than NumPy's"),
        (b"\x80\x04cnumpy\n" + b"x" * 5000 + b"\n.", "a name that does not end"),
        (b"\x80\x04c\x1b[2J\nx\n.", r"'\x1b[2J.x'"),
        (b"\x80\x04\x8c\x02\xff\xff.", "text that is not UTF-8"),
        (b"\x80\x02}q\x00" + text("a") + b"h\x00s.", "a dict or list that occurs twice"),
        (b"\x80\x02}" + (text("a") + b"}") * 100 + b"s" * 100 + b".", "a dict instead of"),
        (b"\x80\x02" + b"}" * 200_000, "nested or gathered beyond any log's"),
        *((stream, f"the pickle opcode {name}") for stream, name in OPCODES.items()),
    ],
)
def test_refused_pickles_are_named(tmp_path, stream, said):
    assert said in refusal(write_pickled(tmp_path / "log.npy", stream))


@pytest.mark.parametrize(
    ("stream", "said"),
    [
        (built(b"K\x03\x85", "f4", bytes(8)), "an array of shape (3,) with 8 bytes, not 12"),
        (built(b"\x8a\xff" + b"\x7f" * 255 + b"\x85", "f4", bytes(8)), "more than 64 bits"),
        (built(b"\x88\x85", "f4", bytes(4)), "whose shape is no tuple of sizes"),
        (built(b"K\x02", "f4", bytes(8)), "whose shape is no tuple of sizes"),
        (built(b"(" + b"K\x01" * 64 + b"t", "f4", bytes(4)), "an array of 64 axes"),
        (built(b"K\x02\x85", "f4", bytes(8), count=2), "the key a twice"),
    ],
)
def test_arrays_that_lie_are_refused(tmp_path, stream, said):
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


def saved(value) -> bytes:
    """Return the bytes that np.save writes."""
    np.save(file := io.BytesIO(), value)
    return file.getvalue()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\x93NUMPY\x02\x00\xff\xff\xff\x7f{", "too long or cut off"),
        (b"\x93NUMPY\x01\x00\x06\x00'\\d'  ", "header that NumPy does not write"),
        (saved(np.ones(3) + 1j), "one plain array (<c16)"),
        (saved(np.ones(3))[:-1], "an array that does not end where the file does"),
    ],
)
def test_files_that_are_no_logs(tmp_path, content, said):
    (tmp_path / "log.npy").write_bytes(content)
    assert said in refusal(tmp_path / "log.npy")


def test_a_header_with_more_in_it_is_refused(tmp_path):
    path = write_pickled(tmp_path / "log.npy", b"}.", HEADER | {"extra": 1})
    assert "header that NumPy does not write" in refusal(path)


def test_an_absent_log_is_named(tmp_path):
    assert "No such file" in refusal(tmp_path / "absent.npy")


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


def test_two_steps_read_headers_at_a_time(tmp_path):
    """As check_all's training and the others do; CPython's own trees of syntax are not for that."""
    np.savez(tmp_path / "some.npz", a=np.ones((2, 3)))
    errors = []

    def read(deeper):
        if deeper:
            return read(deeper - 1)
        try:
            for _ in range(300):
                read_npz(tmp_path / "some.npz")
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=read, args=(deeper,)) for deeper in (0, 25)]
    usual = gc.get_threshold()
    # Collecting runs Python, which lets the other thread in, wherever it falls.
    gc.callbacks.append(callback := lambda *told: time.sleep(0))
    gc.set_threshold(10)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        gc.set_threshold(*usual)
        gc.callbacks.remove(callback)
    assert errors == []
