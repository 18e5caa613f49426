"""Files in a checkpoint's place: half written, of another kind, or made to do harm."""

import io
import json
import os
import pickle
import zipfile

import numpy as np
import pytest

from twincheck.common.system.errors import UserError
from twincheck.common.weights.read import find, read

STATE = {"a.weight": np.arange(6, dtype=np.float32).reshape(2, 3), "a.bias": np.ones(2, np.float32)}


def refused(path, *words):
    """The one sentence that reading a path gives, which must hold the words."""
    with pytest.raises(UserError) as caught:
        read(find(str(path)))
    sentence = str(caught.value)
    assert sentence.startswith(f"--weights {path}") and "\n" not in sentence
    assert all(word in sentence for word in words), sentence
    return sentence


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """Name -> a sound file's bytes, of every kind."""
    import torch
    from safetensors.numpy import save

    tensors = {key: torch.as_tensor(values) for key, values in STATE.items()}
    files = {"x.safetensors": save(STATE), "x.pdparams": pickle.dumps(STATE, protocol=4)}
    for name, new in (("x.bin", True), ("legacy.bin", False)):
        stream = io.BytesIO()
        torch.save(tensors, stream, _use_new_zipfile_serialization=new)
        files[name] = stream.getvalue()
    stream = io.BytesIO()
    np.savez(stream, **STATE)
    return files | {"x.npz": stream.getvalue()}


NAMES = ("x.safetensors", "x.pdparams", "x.bin", "legacy.bin", "x.npz")


@pytest.mark.parametrize("name", NAMES)
def test_a_file_cut_anywhere_is_refused(sound, name, tmp_path):
    path = tmp_path / name
    path.write_bytes(sound[name])
    found = read(find(str(path))).state
    assert all(np.array_equal(found[key], values) for key, values in STATE.items())
    for length in (1, 9, 40, len(sound[name]) // 2, len(sound[name]) - 1):
        path.write_bytes(sound[name][:length])
        refused(path, "not a readable file of weights")


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_paddles_pickles(protocol, tmp_path):
    class Spelled:
        def __init__(self, name, values):
            self.pair = (name, values)

        def __reduce__(self):
            return tuple, (self.pair,)

    path = tmp_path / "x.pdparams"
    table = {"StructuredToParameterName@@": {key: f"{key}_0" for key in STATE}}
    for state in (STATE | table, {key: Spelled(key, values) for key, values in STATE.items()}):
        path.write_bytes(pickle.dumps(state, protocol=protocol))
        found = read(find(str(path)))
        assert found.paddle and list(found.state) == list(STATE)
        assert all(np.array_equal(found.state[key], values) for key, values in STATE.items())
    path.write_bytes(pickle.dumps({"h": np.array([0x3FC0], np.uint16)}, protocol=protocol))
    found = read(find(str(path)))
    assert found.state["h"].item() == 1.5 and found.widened == ["h"]


def test_torchs_views_and_dtypes(tmp_path):
    import torch

    base = torch.arange(24, dtype=torch.float64).reshape(4, 6)
    state = {
        "whole": base,
        "view": base[1:3, ::2],
        "turned": base.T,
        "spread": base[:1, :1].expand(3, 5),
        "empty": torch.zeros(0, 3),
        "scalar": torch.tensor(7),
        "parameter": torch.nn.Parameter(torch.ones(2)),
        "half": torch.tensor([1.5], dtype=torch.float16),
        "brain": torch.tensor([1.5, -3e38], dtype=torch.bfloat16),
        "flags": torch.tensor([True, False]),
        "bytes": torch.tensor([1, 255], dtype=torch.uint8),
    }
    for new in (True, False):
        torch.save(state, tmp_path / "x.bin", _use_new_zipfile_serialization=new)
        found = read(find(str(tmp_path / "x.bin")))
        assert list(found.state) == list(state) and found.widened == ["brain"]
        for key, values in found.state.items():
            wanted = state[key].detach()
            wanted = (wanted.float() if key == "brain" else wanted).numpy()
            assert values.dtype == wanted.dtype and np.array_equal(values, wanted), key


class Calls:
    """A pickle that calls os.system."""

    def __reduce__(self):
        return os.system, ("touch harm-was-done",)


def in_zip(content, more=()):
    """A torch.save zip whose pickle is `content`."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, data in (("x/data.pkl", content), *more):
            archive.writestr(name, data)
    return stream.getvalue()


def tensor(storage, shape="K\x03\x85", stride="K\x01\x85"):
    """A pickle of {"a": a tensor in a storage}; storage: opcodes of the persistent id."""
    build = "ctorch._utils\n_rebuild_tensor_v2\n((" + storage + "tQK\x00" + shape + stride
    text = "\x80\x02}X\x01\x00\x00\x00a" + build + "\x89NtRs."
    return text.encode("latin1")


FLOATS = "X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpu"
HUGE = "\x8a\x08" + "\xff" * 7 + "\x7f"
THREE = (("x/data/0", bytes(12)),)
HARM = [
    ("x.bin", in_zip(pickle.dumps(Calls(), 2)), "posix.system"),
    ("x.pdparams", pickle.dumps({"a": Calls()}, 4), "posix.system"),
    ("x.bin", in_zip(b"\x80\x02cbuiltins\neval\nX\x01\x00\x00\x001\x85R."), "builtins.eval"),
    ("x.bin", in_zip(tensor("X\x04\x00\x00\x00hostcposix\nsystem\n")), "posix.system"),
    ("x.bin", in_zip(tensor("X\x03\x00\x00\x00urlK\x01K\x01K\x01K\x01")), "a persistent id"),
    ("x.bin", in_zip(tensor(FLOATS + "K\x03")), "not in the zip"),
    ("x.bin", in_zip(tensor(FLOATS + "K\x04"), THREE), "12 bytes"),
    ("x.bin", in_zip(tensor(FLOATS + "K\x03", stride="K\x02\x85"), THREE), "in a storage of 3"),
    ("x.bin", in_zip(tensor(FLOATS + "K\x03", HUGE + "\x85", "K\x00\x85"), THREE), "bytes of tens"),
    ("x.bin", in_zip(tensor(FLOATS + HUGE), THREE), "bytes of tensors"),
    ("x.bin", in_zip(b"\x80\x02]."), "no dict of named weights"),
    ("x.bin", in_zip(pickle.dumps({"epoch": 3, "model": {}}, 2)), "under the key epoch"),
    ("x.bin", b"\x80\x02" + b"N0" * 9, "an end before"),
    ("x.bin", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "git lfs pull"),
    ("x.bin", b"\n<!DOCTYPE html><html>404</html>", "a web page"),
    ("x.bin", b"", "it is empty"),
    ("x.bin", b"Not found", "no safetensors, torch.save, paddle.save or .npz"),
]


def header(**entry):
    """A safetensors file of one tensor `w` of eight bytes, as the entry has it."""
    text = json.dumps({"w": entry}).encode()
    return len(text).to_bytes(8, "little") + text + bytes(8)


HARM += [
    ("x.safetensors", header(dtype="F32", shape=[2], data_offsets=[0, 4]), "w does not lie within"),
    ("x.safetensors", header(dtype="F32", shape=[-2], data_offsets=[0, 8]), "nothing proper of w"),
    ("x.safetensors", header(dtype="F4", shape=[2], data_offsets=[0, 8]), "w of the dtype F4"),
]


@pytest.mark.parametrize("name, content, words", HARM)
def test_what_is_no_checkpoint_is_refused_by_name(name, content, words, tmp_path):
    (tmp_path / name).write_bytes(content)
    refused(tmp_path / name, words)
    assert not os.path.exists("harm-was-done")


def test_folders_and_indexes(sound, tmp_path):
    refused(tmp_path / "nowhere", "no such file or folder")
    refused(tmp_path, "no file of weights in this folder (it is empty)")
    (tmp_path / "tf_model.h5").write_bytes(b"x")
    refused(tmp_path, "it holds tf_model.h5")
    (tmp_path / "one.bin").write_bytes(sound["x.bin"])
    (tmp_path / "training_args.bin").write_bytes(b"no weights")
    assert set(read(find(str(tmp_path))).state) == set(STATE)
    (tmp_path / "two.bin").write_bytes(sound["x.bin"])
    refused(tmp_path, "this folder holds one.bin, two.bin: name the one to read")
    index = tmp_path / "model.safetensors.index.json"
    for table, words in (
        ({"a.weight": "gone.safetensors"}, "names the shard gone.safetensors, which is not there"),
        ({"a.weight": "../x.safetensors"}, "has no weight_map"),
        ({"a.weight": "one.bin", "b": "one.bin"}, "names b, which no shard holds"),
        ({"a.weight": "one.bin", "a.bias": "two.bin"}, "two shards hold a.bias, a.weight"),
        ([], "has no weight_map"),
    ):
        index.write_text(json.dumps({"weight_map": table}))
        refused(tmp_path, words)
