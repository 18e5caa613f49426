"""Makers of malicious and broken files, for the tests of what reads them."""

import io
import json
import os
import pickle
import warnings
import zipfile

import numpy as np
from builders import SMALL_CNN
from logged import write_logs

from twincheck.common.check.command_line import check_main
from twincheck.common.check_all import all_steps
from twincheck.common.logs.sidecar import sidecar_path
from twincheck.common.system.hashes import file_sha256
from twincheck.common.system.json_file import write_json

HEADER = {"descr": "|O", "fortran_order": False, "shape": ()}


def write_pickled(path, stream: bytes, header=HEADER):
    """A .npy file of an object array whose pickle is `stream`."""
    envelope = io.BytesIO()
    np.lib.format.write_array_header_1_0(envelope, header)
    path.write_bytes(envelope.getvalue() + stream)
    return path


class Shell:
    """Runs a command when it is unpickled."""

    def __init__(self, command):
        self.command = command

    def __reduce__(self):
        return os.system, (self.command,)


def text(value: str) -> bytes:
    return b"X" + len(value.encode()).to_bytes(4, "little") + value.encode()


def short(value: str) -> bytes:
    return b"\x8c" + bytes([len(value)]) + value.encode()


def gadgets(command: str) -> dict[str, bytes]:
    """Pickles that run a command, each by another opcode."""
    import copyreg

    copyreg.add_extension("os", "system", 240)
    try:
        call = b"cos\nsystem\n" + text(command)
        run = short("builtins") + short("eval") + b"\x93"
        run += text(f"__import__('os').system({command!r})")
        deep = short("os") + short("path.os.system") + b"\x93" + text(command)
        arguments = text("args") + text(command)
        # functools.partial's __setstate__ puts another function in.
        put_in = b"cfunctools\npartial\ncbuiltins\nprint\n\x85R(cos\nsystem\n"
        found = {
            "REDUCE": b"\x80\x02" + call + b"\x85R.",
            "STACK_GLOBAL": b"\x80\x04" + run + b"\x85R.",
            "dotted": b"\x80\x04" + deep + b"\x85R.",
            "INST": b"\x80\x02(" + text(command) + b"ios\nsystem\n.",
            "OBJ": b"\x80\x02(" + call + b"o.",
            "NEWOBJ": b"\x80\x02csubprocess\nPopen\n" + text(command) + b"\x85\x81.",
            "NEWOBJ_EX": b"\x80\x04csubprocess\nPopen\n)}" + arguments + b"s\x92.",
            "EXT1": b"\x80\x02\x82\xf0" + text(command) + b"\x85R.",
            "BUILD": b"\x80\x02" + put_in + text(command) + b"\x85}}tb)R.",
            "first": b"\x80\x02" + call + b"\x85R0}.",
        }
        for protocol in range(6):
            value = np.array({"a": np.ones(2), "b": Shell(command)}, dtype=object)
            found[f"value, protocol {protocol}"] = pickle.dumps(value, protocol)
        value = np.array({"a": np.array([Shell(command)], dtype=object)}, dtype=object)
        found["inside an object array"] = pickle.dumps(value, 4)
        found["instead of the dict"] = pickle.dumps(np.array(Shell(command), dtype=object), 4)
        return found
    finally:
        copyreg.remove_extension("os", "system", 240)


def dtype(code: str, order: str = "<", flags: int = 0) -> bytes:
    """Opcodes of a dtype as NumPy writes them, unless the flags are others."""
    made = b"cnumpy\ndtype\n" + text(code) + b"\x89\x88\x87R(K\x03" + text(order) + b"NNN"
    return made + b"J\xff\xff\xff\xffJ\xff\xff\xff\xffK" + bytes([flags]) + b"tb"


# An array that is still to get its state, and one of two float32 zeros.
NEW_ARRAY = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\x00\x85C\x01btR"
ARRAY = NEW_ARRAY + b"(K\x01K\x02\x85" + dtype("f4") + b"\x89C\x08" + bytes(8) + b"tb"


def in_log(items: bytes) -> bytes:
    """A log's pickle with these opcodes where its dict is filled."""
    envelope = NEW_ARRAY + b"(K\x01)" + dtype("O8", "|", 63)
    return b"\x80\x04" + envelope + b"\x89]}" + items + b"atb."


def built(shape: bytes, code: str, data: bytes, count: int = 1) -> bytes:
    """A log of `count` times one array with a raw shape, spelled by hand."""
    array = NEW_ARRAY + b"(K\x01" + shape + dtype(code)
    array += b"\x89C" + bytes([len(data)]) + data + b"tb"
    return in_log((text("a") + array + b"s") * count)


def npz(members: dict[str, bytes], packed=zipfile.ZIP_STORED, twice: bool = False):
    """A function that writes an archive of these members."""

    def make(path):
        with zipfile.ZipFile(path, "w", packed) as archive, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a name that is there already
            for name, content in list(members.items()) * (1 + twice):
                archive.writestr(name, content)

    return make


def write_result(folder, prefix: str = "", **entries) -> None:
    """A model's logs of step 1 as its check would have left them, which no framework made.

    They agree to rounding, and their keys begin with `prefix`.  Sidecars get further entries, or
    others.
    """
    rng = np.random.default_rng(0)
    tensors = {prefix + key: rng.normal(size=(4, 6)) for key in ("input", "layer", "output")}
    of_step_1 = {"outputs": {"main": ["output"]}, "batches": {}, "mode": None, "places": {}}
    write_logs(folder, "forward_all", tensors, **of_step_1 | entries)
    for path in folder.glob("*.log"):
        path.unlink()


def spoil(path, stream: bytes, **entries) -> None:
    """Put another pickle into a log, and its hash and further entries into its sidecar."""
    write_pickled(path, stream)
    sidecar = json.loads(sidecar_path(path).read_text())
    write_json(sidecar_path(path), sidecar | {"log_sha256": file_sha256(path)} | entries)


def judge(folder, *options) -> int:
    """check_step1.py --compare-only on such a result of tests/pairs/small_cnn, in this process."""
    known = ["--model", str(SMALL_CNN), "--compare-only", "--out", str(folder.parent.parent)]
    return check_main(all_steps()[0], [*known, *options])


def contents(folder) -> dict[str, bytes]:
    """Name -> content of a result's files, but for what a judgement has left."""
    kept = (path for path in folder.iterdir() if path.name != "result.json")
    return {path.name: path.read_bytes() for path in kept}
