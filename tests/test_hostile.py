"""Malicious and broken files of every kind that the workbench reads: each refused in a sentence.

One line a kind in ATTACKS.  All are tried in one process with little memory, whose processor time
for each is measured; what a file would have executed leaves a trace, which must not be there.
"""

import json
import os
import resource
import socket
import subprocess
import sys
import zipfile

import pytest
from forged import (
    ARRAY,
    NEW_ARRAY,
    built,
    dtype,
    gadgets,
    in_log,
    npz,
    short,
    text,
    write_pickled,
)

MEMORY_BYTES = 1 << 30  # address space of the process that reads
CPU_S = 8.0  # for one file; measured: 2.1 s at most

READERS = """
import gc, json, sys, time
from pathlib import Path
from twincheck.common.pair.data import load_arrays
from twincheck.common.system.errors import UserError
from twincheck.common.logs.reader import read_log
from twincheck.common.logs.sidecar import read_sidecar
from twincheck.common.weights.states import load_owners, load_state

def log(path):
    with read_log(path) as log:
        for key in log:
            log[key]

readers = {
    "log": log,
    "sidecar": lambda path: read_sidecar(path.with_suffix(".npy")),
    "weights": load_state,
    "data": load_arrays,
    "owners": lambda path: load_owners(path.with_suffix(".npz")),
}
found = {}
for kind, path in json.load(sys.stdin):
    start = time.process_time()
    try:
        readers[kind.split(":")[0]](Path(path))
        said = ["accepted", ""]
    except Exception as error:
        said = ["refused" if isinstance(error, UserError) else type(error).__name__, str(error)]
    gc.collect()
    found[kind] = [*said, time.process_time() - start]
json.dump(found, sys.stdout)
"""


def raw(content: bytes):
    return lambda path: path.write_bytes(content)


def pickled(stream: bytes):
    return lambda path: write_pickled(path, stream)


def header(text: bytes, version=b"\x01\x00"):
    """An .npy file with this header and the pickle of an empty log."""
    return raw(b"\x93NUMPY" + version + len(text).to_bytes(2, "little") + text + b"\x80\x04}.")


def link_to(target):
    return lambda path: path.symlink_to(target)


def holes(size: int, start: bytes = b"", end: bytes = b""):
    """A file of `size` bytes of which next to nothing is stored."""

    def make(path):
        with open(path, "wb") as file:
            file.write(start)
            file.truncate(size - len(end))
            file.seek(0, os.SEEK_END)
            file.write(end)

    return make


def sparse_log(bytes_of_zeros: int):
    """A whole log with one array of zeros, none of which is stored."""

    def make(path):
        code = b"\x8e" + bytes_of_zeros.to_bytes(8, "little")
        shape = b"\x8a\x08" + (bytes_of_zeros // 4).to_bytes(8, "little") + b"\x85"
        array = NEW_ARRAY + b"(K\x01" + shape + dtype("f4") + b"\x89" + code + b"|tb"
        write_pickled(path, in_log(text("a") + array + b"s"))
        start, end = path.read_bytes().split(b"|tb")
        size = len(start) + bytes_of_zeros + len(end) + 2
        holes(size, start, b"tb" + end)(path)

    return make


def socket_at(path):
    with socket.socket(socket.AF_UNIX) as listening:
        os.chdir(path.parent)  # a socket's path is short
        listening.bind(path.name)


# An array remembered as 1, ready to stand under any number of keys.
KEPT = text("first") + ARRAY + b"q\x01s"
MEGABYTES = NEW_ARRAY + b"(K\x01J\x00\x00\x10\x00\x85" + dtype("f4") + b"\x89"
MEGABYTES += b"B\x00\x00\x40\x00" + bytes(4 << 20) + b"tb"
NESTED_KEYS = (text("k" * 15) + b"}") * 60
STATE = b"cnumpy\ndtype\n" + text("f4") + b"\x89\x88\x87R(K\x03" + text("<") + b"NNN"
MINUS = b"J\xff\xff\xff\xff"


def with_dtype(made: bytes) -> bytes:
    """A log with an array whose dtype is spelled by `made`."""
    array = NEW_ARRAY + b"(K\x01K\x02\x85" + made + b"\x89C\x10" + bytes(16) + b"tb"
    return in_log(text("a") + array + b"s")


def again(count: int) -> bytes:
    return b"".join(text(f"{i:x}") + b"h\x01s" for i in range(count))


def member(shape="(2,)", descr="'<f4'", data=bytes(8), version=b"\x01\x00"):
    """An .npy member with a header of one's own."""
    told = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY" + version + len(told).to_bytes(2, "little") + told + data


def zeros_npz(path):
    """300 MiB of zeros, which deflate to 0.3."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        with archive.open("a.npy", "w") as stream:
            stream.write(member(f"({300 << 18},)", data=b""))
            for _ in range(300):
                stream.write(bytes(1 << 20))


def changed(make, change):
    """Return a writer of what `make` writes, with its bytes changed."""

    def write(path):
        make(path)
        path.write_bytes(change(path.read_bytes()))

    return write


def claims_size(size: int):
    """An .npz whose directory says that its member unpacks to `size` bytes."""

    def change(content: bytes) -> bytes:
        place = content.index(b"PK\x01\x02") + 24
        return content[:place] + size.to_bytes(4, "little") + content[place + 4 :]

    return changed(npz({"a.npy": member()}), change)


def encrypted(content: bytes) -> bytes:
    place = content.index(b"PK\x01\x02") + 8
    return content[:place] + b"\x01" + content[place + 1 :]


def sidecar(**entries):
    return raw(json.dumps(entries).encode())


GOOD_LOG = built(b"K\x02\x85", "f4", bytes(8))
GOOD_NPZ = npz({"a.npy": member()})
ONLY_ARRAYS = "a log holds only a dict of numeric arrays"

# Which reader : what it is, how it is made, what must be said.
ATTACKS = [
    *((f"log:gadget by {name}", name, ONLY_ARRAYS) for name in gadgets("")),
    ("log:gadget by EXT2", pickled(b"\x80\x02\x83\xf0\x00" + text("x") + b"\x85R."), "EXT2"),
    ("log:persistent id", pickled(b"\x80\x02Pid\n."), "PERSID"),
    ("log:buffer from outside", pickled(b"\x80\x05\x97."), "NEXT_BUFFER"),
    ("log:gadget as a key", pickled(in_log(b"cos\nsystem\n" + ARRAY + b"s")), "posix.system|os"),
    ("log:gadget in a dtype's metadata", pickled(with_dtype(STATE + MINUS * 2 + b"K\x00"
     + b"}" + text("m") + b"cos\nsystem\n" + text("x") + b"\x85Rstb")), "os.system"),
    ("log:dtype with metadata", pickled(with_dtype(STATE + MINUS * 2 + b"K\x00}tb")), "metadata"),
    ("log:dtype whose flags say that numbers are addresses",
     pickled(with_dtype(STATE + MINUS * 2 + b"K\x3ftb")), "in a state that NumPy does not write"),
    ("log:another function of NumPy's", pickled(b"\x80\x02cnumpy\nload\n" + text("x") + b"\x85R."),
     "numpy.load"),
    ("log:a known name taken apart otherwise", pickled(b"\x80\x04" + short("numpy")
     + short("core.multiarray._reconstruct") + b"\x93."), "numpy.core.multiarray._reconstruct"),
    ("log:array with a first shape of its own", pickled(in_log(text("a")
     + NEW_ARRAY.replace(b"K\x00\x85", b"\x8a\x05\x00\x00\x00\x00\x10\x85") + b"s")),
     "begins otherwise"),
    ("log:array in another version", pickled(in_log(text("a")
     + ARRAY.replace(b"(K\x01K\x02", b"(K\x02K\x02") + b"s")), "state that NumPy does not write"),
    ("log:array of objects", pickled(in_log(text("a") + NEW_ARRAY + b"(K\x01K\x01\x85"
     + dtype("O8", "|", 63) + b"\x89]Natbs")), "an array of objects"),
    ("log:void", pickled(with_dtype(dtype("V8", "|"))), "the dtype V8"),
    ("log:structured", pickled(with_dtype(STATE.replace(b"NNN", b"N)}") + MINUS * 2 + b"K\x00tb")),
     "a structured dtype"),
    ("log:scalar object", pickled(b"\x80\x02cnumpy.core.multiarray\nscalar\n"
     + dtype("O8", "|", 63) + b"N\x86R."), "a NumPy scalar"),
    ("log:data of a subclass", pickled(in_log(text("a") + NEW_ARRAY.replace(
     b"cnumpy\nndarray", b"cnumpy\nmatrix") + b"s")), "numpy.matrix"),
    # much of little
    ("log:shape beyond its data", pickled(built(b"\x8a\x08" + b"\xff" * 7 + b"\x7f\x85", "f4",
     bytes(8))), "with 8 bytes, not"),
    ("log:shape that overflows to its data", pickled(built((b"\x8a\x05\x00\x00\x00\x00\x01" * 2
     + b"\x86"), "f4", b"")), "with 0 bytes, not"),
    ("log:negative shape", pickled(built(MINUS + b"K\x02\x86", "f4", bytes(8))),
     "no tuple of sizes"),
    ("log:a size of two thousand bits", pickled(built(b"\x8a\xff" + b"\x7f" * 255 + b"\x85", "f4",
     bytes(8))), "more than 64 bits"),
    ("log:64 axes", pickled(built(b"(" + b"K\x01" * 64 + b"t", "f4", bytes(4))), "of 64 axes"),
    ("log:a key twice", pickled(built(b"K\x02\x85", "f4", bytes(8), count=2)), "the key a twice"),
    ("log:opcodes without end", pickled(b"\x80\x04" + b"N0" * 3_000_000), "opcodes"),
    ("log:memo without end", pickled(b"\x80\x04" + b"\x8c\x00\x940" * 1_200_000), "to remember"),
    ("log:tuples in tuples", pickled(b"\x80\x04)" + b"\x85" * 1_000_000), "tuples in tuples"),
    ("log:dicts in dicts", pickled(in_log((text("k") + b"}") * 90 + text("a") + ARRAY + b"s" * 91)),
     "dicts nested more than 64 deep"),
    ("log:keys that grow as they are joined", pickled(in_log(KEPT + NESTED_KEYS + again(40_000)
     + b"s" * 60)), "characters of keys"),
    ("log:keys without end", pickled(in_log(KEPT + again(100_001))), "100,000 keys"),
    ("log:one array under many keys", pickled(in_log(text("first") + MEGABYTES + b"q\x01s"
     + again(300))), "the same arrays under key after key"),
    ("log:text decoded again and again", pickled(b"\x80\x02X\x00\x00\x00\x01" + b"a" * (1 << 24)
     + b"q\x010c_codecs\nencode\nq\x020" + text("latin1") + b"q\x030"
     + b"h\x02h\x01h\x03\x86R0" * 200_000 + b"."), "None instead of"),
    ("log:a terabyte of holes", holes(1 << 40), "of which only|no .npy file|refused"),
    ("log:more than memory", sparse_log((1 << 30) - (1 << 16)), "do not fit into memory"),
    # no log
    ("log:wrong magic", raw(b"\x94NUMPY" + bytes(100)), "no .npy file"),
    ("log:an .npz", GOOD_NPZ, "a zip archive"),
    ("log:cut in its pickle", pickled(GOOD_LOG[:-9]), "an end before the pickle's own"),
    ("log:more behind its end", pickled(GOOD_LOG + GOOD_LOG), "bytes after the pickle's end"),
    ("log:header that calls", header(b"{'descr': __import__('os').system('x'), 'shape': ()}"),
     "header that NumPy does not write"),
    ("log:long header", header(b" " * 60_000), "too long or cut off"),
    ("log:header of another version", header(b"{}", b"\x07\x00"), "a .npy version"),
    ("log:header of floats", header(b"{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}"),
     "an array that does not end where the file does"),
    ("log:header of many objects",
     header(b"{'descr': '|O', 'fortran_order': False, 'shape': (9,)}"), "a shape of its own"),
    # no file
    ("log:socket", socket_at, "cannot be opened|not a plain file"),
    # sidecars
    ("sidecar:pipe", os.mkfifo, "not a plain file"),
    ("sidecar:link to zeros without end", link_to("/dev/zero"), "not a plain file"),
    ("sidecar:objects in objects", raw(b'{"a":' * 90_000 + b"1" + b"}" * 90_000), "no proper JSON"),
    ("sidecar:lists without end", raw(b'{"flips": [' + b"[]," * 5_000_000 + b"[]]}"),
     "its flips is other values"),
    ("sidecar:a gigabyte", holes(1 << 30), "more than 16,777,216 bytes"),
    ("sidecar:NaN", raw(b'{"elapsed_s": NaN}'), "NaN is no JSON number"),
    ("sidecar:number beyond a float", raw(b'{"elapsed_s": 1e999}'), "its elapsed_s is inf"),
    ("sidecar:number of a million digits", raw(b'{"seed": ' + b"9" * 1_000_000 + b"}"), "digits"),
    ("sidecar:a name twice", raw(b'{"side": "paddle", "side": "torch"}'), "the name 'side' twice"),
    ("sidecar:a list", raw(b"[]"), "not a JSON object"),
    ("sidecar:a later schema", sidecar(schema=2), "its schema is 2"),
    ("sidecar:text that drives a terminal", sidecar(seed="\x1b[2J"), r"'\x1b[2J'"),
    ("sidecar:counts that are none", sidecar(operators={"exp": {"calls": -1}}),
     "its operators is other values"),
    # weights and data
    ("weights:cut off", changed(GOOD_NPZ, lambda content: content[:-9]), "not a readable .npz"),
    ("weights:damaged", changed(GOOD_NPZ, lambda c: c.replace(bytes(8), b"\1" * 8, 1)), "Bad CRC"),
    ("weights:array of objects", npz({"a.npy": member("(1,)", "'|O'", gadgets("")["REDUCE"])}),
     "holds object, not numbers"),
    ("weights:path out of the archive", npz({"../a.npy": member()}), "no array's name"),
    ("weights:member twice", npz({"a.npy": member()}, twice=True), "holds 'a.npy' twice"),
    ("weights:bomb", zeros_npz, "would unpack to 314,5"),
    ("weights:directory that lies", claims_size(4_000_000_000), "would unpack to 4,000,000,000"),
    ("weights:shape beyond its data", npz({"a.npy": member("(1 << 40,)")}), "ValueError|not"),
    ("weights:a thousand axes", npz({"a.npy": member(f"({'1, ' * 1000})")}), "1000 axes"),
    ("weights:header of another version", npz({"a.npy": member(version=b"\x07\x00")}),
     "a header that NumPy writes for no plain array"),
    ("weights:packed otherwise", npz({"a.npy": member()}, zipfile.ZIP_LZMA), "does not know"),
    ("weights:encrypted", changed(GOOD_NPZ, encrypted), "encrypted"),
    ("weights:pipe", os.mkfifo, "not a plain file"),
    ("data:bomb", zeros_npz, "would unpack to"),
    ("data:no hash", GOOD_NPZ, "no SHA-256"),
    ("owners:sizes that are text", raw(b'{"a": {"kind": "Linear", "shape": ["2"]}}'),
     "no entry of a state dict"),
]  # fmt: skip
# Those that are refused for what they count take a second or more.
COUNTED = ("without end", "again and again", "keys that grow")
CASES = [
    pytest.param(kind, said, id=kind, marks=[pytest.mark.slow] * any(p in kind for p in COUNTED))
    for kind, _, said in ATTACKS
]


@pytest.fixture(scope="module")
def found(request, tmp_path_factory):
    """Return what reading each file came to: (word, sentence, seconds), and their folder."""
    folder = tmp_path_factory.mktemp("hostile")
    here = os.getcwd()
    files = []
    asked = {item.callspec.id for item in request.session.items if item.path == request.path}
    for i, (kind, make, _) in enumerate(ATTACKS):
        if kind not in asked:
            continue
        place = folder / str(i)
        place.mkdir()
        reader = kind.split(":")[0]
        ending = {"log": ".npy", "sidecar": ".json", "owners": ".json"}.get(reader, ".npz")
        path = place / f"hostile{ending}"
        if isinstance(make, str):
            write_pickled(path, gadgets(f"touch '{folder / 'executed'}'")[make])
        else:
            make(path)
        files.append([kind, str(path)])
    os.chdir(here)

    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))

    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", READERS],
        input=json.dumps(files),
        env=os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        preexec_fn=limit,
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), folder


@pytest.mark.parametrize(("kind", "said"), CASES)
def test_refused_in_a_sentence_soon_and_nothing_is_executed(found, kind, said):
    results, folder = found
    word, sentence, seconds = results[kind]
    assert word == "refused", sentence
    assert any(part in sentence for part in said.split("|")), sentence
    assert "hostile." in sentence and sentence.isprintable() and len(sentence) < 700
    assert seconds < CPU_S
    assert not (folder / "executed").exists()
