"""Follow the pickle inside a log without executing it.

A tiny machine knows the few opcodes that `np.save` of a dict of arrays needs (protocols 2 to 5,
NumPy 1 and 2), remembers where each array's bytes lie, and refuses everything else by name.
Nothing is imported or called on the file's behalf, and no array is read.  NumPy only.
"""

import io
import math
import pickletools
import struct
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from twincheck.common.system.files import read_into
from twincheck.common.system.memory import no_collections
from twincheck.common.system.reasons import Kind
from twincheck.common.system.words import printable

CHUNK_BYTES = 1 << 20

# What a log may hold, as NumPy spells it in a pickle (item type and size).
DTYPES = ("b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8")

# The only names that may occur in a log, and what each stands for here.
_CORES = ("numpy.core", "numpy._core")
_GLOBALS = {(f"{core}.multiarray", "_reconstruct"): "reconstruct" for core in _CORES}
_GLOBALS |= {(f"{core}.multiarray", "scalar"): "scalar" for core in _CORES}
_GLOBALS |= {(f"{core}.numeric", "_frombuffer"): "frombuffer" for core in _CORES}
_GLOBALS |= {
    ("numpy", "ndarray"): "ndarray",
    ("numpy", "dtype"): "dtype",
    ("_codecs", "encode"): "encode",
    ("builtins", "bytes"): "bytes",
    ("__builtin__", "bytes"): "bytes",
}

# Bounds on what is no array data.  np.save's own pickles of 100,000 tensors need 3 million opcodes,
# a memo of 900,000 and a stack of 2,003; a hostile file must not hold the reader for long, nor make
# much of little: every bound is on what a small file could otherwise multiply.
_MAX_KEYS = 100_000
_MAX_OPCODES = 4_000_000
_MAX_MEMO = 1_000_000
_MAX_STACK = 100_000
_MAX_TUPLE = 100  # NumPy's own have 9 at most, but for a shape
_MAX_AXES = 32
_MAX_DEPTH = 64  # of dicts; tuples hold tuples, and those none
_MAX_KEY_CHARACTERS = 1 << 24  # all keys together, once nested ones are joined
MAX_TEXT_BYTES = 1024
# One array may stand under several keys, but not make a log out of nearly nothing.
_MAX_REUSE = 16
_FREE_BYTES = 1 << 26
_LATIN1_LEAD_BYTES = 0xC3  # no character of latin-1 starts with more in UTF-8


@dataclass(slots=True, eq=False)
class _Global:
    kind: str


@dataclass(slots=True, eq=False)
class _Bytes:
    """Bytes in the file, not read yet; as_text: stored as text of that many latin-1 characters.

    A single byte is read, since NumPy's `_reconstruct` is called with one.
    """

    offset: int
    stored: int
    count: int
    as_text: bool = False
    single: bytes = b""


def stored_bytes(offset: int, count: int) -> _Bytes:
    """The bytes of an array that lies in a file as it is, from `offset` on."""
    return _Bytes(offset, count, count)


@dataclass(slots=True, eq=False)
class _Text:
    """Text in the file; `text` is None where it is too long for a key and was not read."""

    offset: int
    stored: int
    text: str | None
    encoded: _Bytes | None = None  # found once, however often the memo brings it back


@dataclass(slots=True, eq=False)
class _DType:
    code: str
    dtype: np.dtype | None = None  # known once its byte order is


@dataclass(slots=True, eq=False)
class StoredArray:
    """An array in the file: what it is and where its bytes lie."""

    shape: tuple[int, ...] | None = None  # None until built
    dtype: np.dtype | None = None
    fortran: bool = False
    data: _Bytes | None = None
    contents: dict | None = None  # of np.save's envelope

    def read(self, file: io.BufferedReader) -> np.ndarray:
        """Return its values from the file; raises Refused where they are not there any more."""
        data = self.data
        file.seek(data.offset)
        if data.as_text:  # protocol 2: text whose latin-1 encoding they are
            try:
                content = file.read(data.stored).decode().encode("latin1")
                flat = np.frombuffer(content, self.dtype).copy()
            except ValueError:
                raise Refused(Kind.STATE_DATA()) from None
        else:
            flat = np.empty(data.count // self.dtype.itemsize, self.dtype)
            if not read_into(file, memoryview(flat.view(np.uint8))):
                raise Refused(Kind.REFUSED_CUT_SHORT())
        flat = flat.astype(self.dtype.newbyteorder("="), copy=False)
        return flat.reshape(self.shape, order="F" if self.fortran else "C")


# In the memo's place of what may not be used twice (a dict could hold itself); a scalar of NumPy's;
# where a tuple or a list begins.
_WITHHELD, _SCALAR, _MARK = object(), object(), object()


class Refused(Exception):
    """The reason, which is what was found; the reader adds the file and the place."""


class Machine:
    """Follows the opcodes of the pickle that begins where `file` stands."""

    known = _GLOBALS  # (module, name) -> the kind of what may be asked for by it

    def __init__(self, file: io.BufferedReader, size: int):
        self.file = file
        self.size = size
        self.stack: list = []
        self.memo: dict[int, object] = {}
        self.keys = 0

    @no_collections()  # millions of small values and no cycle among them
    def run(self) -> dict:
        """The dict that np.save was given; leaves the file after STOP."""
        read, actions = self.file.read, self._actions
        for _ in range(_MAX_OPCODES):
            code = read(1)
            if code == b".":
                return self.result()
            action = actions.get(code)
            if action is None:
                if not code:
                    raise Refused(Kind.REFUSED_CUT_SHORT())
                known = pickletools.code2op.get(code.decode("latin1"))
                opcode = known.name if known else repr(code)
                raise Refused(Kind.REFUSED_OPCODE(opcode=opcode))
            action(self)
            if len(self.stack) > _MAX_STACK:
                raise Refused(Kind.REFUSED_STACK())
        raise Refused(Kind.REFUSED_OPCODES(most=_MAX_OPCODES))

    def result(self) -> dict:
        envelope = self.stack[0] if len(self.stack) == 1 else None
        if not isinstance(envelope, StoredArray) or envelope.contents is None:
            raise Refused(Kind.REFUSED_RESULT(what=_describe(envelope)))
        if self.file.tell() != self.size:
            behind = self.size - self.file.tell()
            raise Refused(Kind.REFUSED_BYTES_BEHIND(count=behind))
        return envelope.contents

    def take(self, count: int) -> bytes:
        data = self.file.read(count)
        if len(data) != count:
            raise Refused(Kind.REFUSED_CUT_SHORT())
        return data

    def unpack(self, form: str) -> int:
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def pop(self) -> object:
        if not self.stack or self.stack[-1] is _MARK:
            raise Refused(Kind.REFUSED_NO_OPERANDS())
        return self.stack.pop()

    def pop_to_mark(self) -> list:
        for i in range(len(self.stack) - 1, -1, -1):
            if self.stack[i] is _MARK:
                values = self.stack[i + 1 :]
                del self.stack[i:]
                return values
        raise Refused(Kind.REFUSED_NO_OPERANDS())

    def skip(self, count: int) -> int:
        """Pass over data; its offset."""
        offset = self.file.tell()
        if count > self.size - offset:
            raise Refused(Kind.REFUSED_CUT_SHORT())
        self.file.seek(count, io.SEEK_CUR)
        return offset

    def protocol(self) -> None:
        version = self.unpack("B")
        if not 2 <= version <= 5:
            raise Refused(Kind.REFUSED_PROTOCOL(version=version))

    def text(self, count: int) -> None:
        offset, text = self.file.tell(), None
        if count <= MAX_TEXT_BYTES:
            try:
                text = self.take(count).decode("utf-8")
            except UnicodeDecodeError:
                raise Refused(Kind.REFUSED_NOT_UTF8()) from None
        else:
            self.skip(count)
        self.stack.append(_Text(offset, count, text))

    def data(self, count: int) -> None:
        offset = self.skip(count)
        single = b""
        if count == 1:
            self.file.seek(offset)
            single = self.take(1)
        self.stack.append(_Bytes(offset, count, count, single=single))

    def long(self) -> None:
        count = self.unpack("B")
        if count > 8:
            raise Refused(Kind.REFUSED_LONG())
        self.stack.append(int.from_bytes(self.take(count), "little", signed=True))

    def push_tuple(self, values: list) -> None:
        if len(values) > _MAX_TUPLE:
            raise Refused(Kind.REFUSED_TUPLE(count=len(values)))
        for value in values:
            if type(value) is tuple and any(type(inner) is tuple for inner in value):
                raise Refused(Kind.REFUSED_TUPLES())
        self.stack.append(tuple(values))

    def remember(self, index: int) -> None:
        value = self.pop()
        self.stack.append(value)
        if len(self.memo) >= _MAX_MEMO:
            raise Refused(Kind.REFUSED_MEMO(most=_MAX_MEMO))
        self.memo[index] = _WITHHELD if isinstance(value, dict | list) else value

    def recall(self, index: int) -> None:
        if index not in self.memo:
            raise Refused(Kind.REFUSED_REFERENCE())
        if self.memo[index] is _WITHHELD:
            raise Refused(Kind.REFUSED_TWICE())
        self.stack.append(self.memo[index])

    def find(self, module: str, name: str) -> None:
        kind = self.known.get((module, name))
        if kind is None:
            raise Refused(Kind.REFUSED_GLOBAL(name=printable(f"{module}.{name}")))
        self.stack.append(_Global(kind))

    def find_line(self) -> None:
        lines = [self.file.readline(MAX_TEXT_BYTES) for _ in range(2)]
        if not all(line.endswith(b"\n") for line in lines):
            raise Refused(Kind.REFUSED_GLOBAL_ENDLESS())
        self.find(*(line[:-1].decode("utf-8", "replace") for line in lines))

    def find_stack(self) -> None:
        name, module = self.pop(), self.pop()
        if not all(isinstance(part, _Text) and part.text is not None for part in (module, name)):
            raise Refused(Kind.REFUSED_GLOBAL_NAMELESS())
        self.find(module.text, name.text)

    def append(self, values: list) -> None:
        target = self.pop()
        if not isinstance(target, list):
            raise Refused(Kind.REFUSED_APPEND())
        target.extend(values)
        self.stack.append(target)

    def set_items(self, values: list) -> None:
        target = self.pop()
        if not isinstance(target, dict) or len(values) % 2:
            raise Refused(Kind.REFUSED_SETITEM())
        for key, value in zip(values[::2], values[1::2], strict=True):
            self.check_item(key, value)
            if key.text in target:
                raise Refused(Kind.REFUSED_KEY_TWICE(key=printable(key.text)))
            target[key.text] = value
        self.stack.append(target)

    def check_item(self, key: object, value: object) -> None:
        """Refuse what is no key, or no value, of a log's dict."""
        self.keys += 1
        if self.keys > _MAX_KEYS:
            raise Refused(Kind.REFUSED_KEYS(most=_MAX_KEYS))
        if not isinstance(key, _Text) or key.text is None:
            raise Refused(Kind.REFUSED_KEY(what=_describe(key)))
        array = isinstance(value, StoredArray) and value.data is not None
        if not array and not isinstance(value, dict):
            raise Refused(Kind.REFUSED_VALUE(what=_describe(value), key=printable(key.text)))

    def reduce(self) -> None:
        values, function = self.pop(), self.pop()
        if not isinstance(function, _Global) or not isinstance(values, tuple):
            raise Refused(Kind.REFUSED_CALL(what=_describe(function)))
        action = getattr(self, f"call_{function.kind}", None)
        if action is None:
            raise Refused(Kind.REFUSED_CALL(what=function.kind))
        self.stack.append(action(*values))

    def build(self) -> None:
        state, target = self.pop(), self.pop()
        if not isinstance(state, tuple):
            raise Refused(Kind.REFUSED_STATE_NO_TUPLE(what=_describe(target)))
        if isinstance(target, _DType) and target.dtype is None:
            self.build_dtype(target, *state)
        elif isinstance(target, StoredArray) and target.shape is None:
            self.build_array(target, *state)
        else:
            raise Refused(Kind.REFUSED_STATE(what=_describe(target)))
        self.stack.append(target)

    # -- the calls that a log may ask for; a wrong number of arguments is a TypeError, caught above

    # What NumPy would do with anything else is NumPy's affair: a dtype's flags alone can make it
    # take numbers for addresses.  So the arguments must be those that NumPy itself writes.

    def call_reconstruct(self, kind, shape, letter) -> StoredArray:
        if not isinstance(kind, _Global) or kind.kind != "ndarray":
            raise Refused(Kind.REFUSED_ARRAY_CLASS(what=_describe(kind)))
        if shape != (0,) or not isinstance(letter, _Bytes) or letter.single != b"b":
            raise Refused(Kind.REFUSED_ARRAY_BEGIN())
        return StoredArray()

    def call_dtype(self, code, align, copy) -> _DType:
        if not all(type(flag) in (bool, int) and flag in (0, 1) for flag in (align, copy)):
            raise Refused(Kind.REFUSED_DTYPE_BEGIN())
        if not isinstance(code, _Text) or code.text not in (*DTYPES, "O8"):
            name = printable(code.text or "") if isinstance(code, _Text) else _describe(code)
            raise Refused(Kind.REFUSED_DTYPE(dtype=name))
        return _DType(code.text)

    def call_encode(self, text, encoding) -> _Bytes:
        """Bytes as protocol 2 spells them: text whose latin-1 encoding they are."""
        if not isinstance(text, _Text) or getattr(encoding, "text", None) != "latin1":
            raise Refused(Kind.REFUSED_ENCODE())
        if text.encoded is None:
            text.encoded = self.encode(text)
        return text.encoded

    def encode(self, text: _Text) -> _Bytes:
        here, count, remaining = self.file.tell(), 0, text.stored
        self.file.seek(text.offset)
        while remaining:
            chunk = np.frombuffer(self.take(min(remaining, CHUNK_BYTES)), np.uint8)
            if chunk.max() > _LATIN1_LEAD_BYTES:
                raise Refused(Kind.REFUSED_NOT_LATIN1())
            count += int(np.count_nonzero(chunk & 0xC0 != 0x80))
            remaining -= chunk.size
        self.file.seek(here)
        single = (text.text or "").encode("latin1") if count == 1 else b""
        return _Bytes(text.offset, text.stored, count, True, single)

    def call_bytes(self) -> _Bytes:
        return _Bytes(0, 0, 0)

    def call_scalar(self, dtype, data) -> object:
        return _SCALAR

    def call_frombuffer(self, data, dtype, shape, order) -> StoredArray:
        order = getattr(order, "text", None)
        if order not in ("C", "F") or not isinstance(data, _Bytes):
            raise Refused(Kind.REFUSED_BUFFER())
        return self.fill(StoredArray(), shape, dtype, order == "F", data)

    def build_dtype(self, target, *state) -> None:
        if len(state) > 8:
            raise Refused(Kind.REFUSED_DTYPE_METADATA())
        version, order, sub, names, fields, size, align, flags = state
        order = getattr(order, "text", None)
        if order not in ("<", ">", "|", "=") or not (sub is names is fields is None):
            raise Refused(Kind.REFUSED_DTYPE_STRUCTURED())
        if [version, size, align, flags] != [3, -1, -1, 63 if target.code == "O8" else 0]:
            raise Refused(Kind.REFUSED_DTYPE_STATE(dtype=target.code))
        if target.code == "O8":
            target.dtype = np.dtype(object)
        elif order == "|" and target.code[1:] != "1":
            raise Refused(Kind.REFUSED_DTYPE_ORDER(dtype=target.code))
        else:
            target.dtype = np.dtype(target.code).newbyteorder(order)

    def build_array(self, target, version, shape, dtype, fortran, data) -> None:
        if version != 1 or type(fortran) is not bool:
            raise Refused(Kind.REFUSED_ARRAY_STATE())
        self.fill(target, shape, dtype, fortran, data)

    def fill(self, target: StoredArray, shape, dtype, fortran: bool, data) -> StoredArray:
        if not isinstance(dtype, _DType) or dtype.dtype is None:
            raise Refused(Kind.REFUSED_ARRAY_DTYPE(what=_describe(dtype)))
        # Lengths come first: the memo can bring a long tuple or list back at no cost to the file.
        if isinstance(shape, tuple) and len(shape) > _MAX_AXES:
            raise Refused(Kind.REFUSED_AXES(count=len(shape)))
        if not isinstance(shape, tuple) or not all(type(n) is int and n >= 0 for n in shape):
            raise Refused(Kind.REFUSED_SHAPE())
        target.shape, target.dtype, target.fortran = shape, dtype.dtype, fortran
        if dtype.code == "O8":
            one = isinstance(data, list) and len(data) == 1
            if shape == () and one and type(data[0]) is dict:
                target.contents = data[0]
            return target
        if not isinstance(data, _Bytes):
            raise Refused(Kind.REFUSED_DATA(what=_describe(data)))
        needed = dtype.dtype.itemsize * math.prod(shape)
        if needed != data.count:
            sizes = {"shape": shape, "count": data.count, "needed": needed}
            raise Refused(Kind.REFUSED_DATA_LENGTH(**sizes))
        target.data = data
        return target

    _actions = {
        b"\x80": protocol,
        b"\x95": lambda self: self.take(8),  # FRAME: only a reading hint
        b"(": lambda self: self.stack.append(_MARK),
        b")": lambda self: self.stack.append(()),
        b"]": lambda self: self.stack.append([]),
        b"}": lambda self: self.stack.append({}),
        b"N": lambda self: self.stack.append(None),
        b"\x88": lambda self: self.stack.append(True),
        b"\x89": lambda self: self.stack.append(False),
        b"K": lambda self: self.stack.append(self.unpack("B")),
        b"M": lambda self: self.stack.append(self.unpack("<H")),
        b"J": lambda self: self.stack.append(self.unpack("<i")),
        b"G": lambda self: self.stack.append(self.unpack(">d")),
        b"\x8a": long,
        b"X": lambda self: self.text(self.unpack("<I")),
        b"\x8c": lambda self: self.text(self.unpack("B")),
        b"\x8d": lambda self: self.text(self.unpack("<Q")),
        b"B": lambda self: self.data(self.unpack("<I")),
        b"C": lambda self: self.data(self.unpack("B")),
        b"\x8e": lambda self: self.data(self.unpack("<Q")),
        b"\x96": lambda self: self.data(self.unpack("<Q")),
        b"t": lambda self: self.push_tuple(self.pop_to_mark()),
        b"\x85": lambda self: self.push_tuple([self.pop()]),
        b"\x86": lambda self: self.push_tuple([self.pop(), self.pop()][::-1]),
        b"\x87": lambda self: self.push_tuple([self.pop(), self.pop(), self.pop()][::-1]),
        b"0": pop,
        b"q": lambda self: self.remember(self.unpack("B")),
        b"r": lambda self: self.remember(self.unpack("<I")),
        b"\x94": lambda self: self.remember(len(self.memo)),
        b"h": lambda self: self.recall(self.unpack("B")),
        b"j": lambda self: self.recall(self.unpack("<I")),
        b"c": find_line,
        b"\x93": find_stack,
        b"a": lambda self: self.append([self.pop()]),
        b"e": lambda self: self.append(self.pop_to_mark()),
        b"s": lambda self: self.set_items([self.pop(), self.pop()][::-1]),
        b"u": lambda self: self.set_items(self.pop_to_mark()),
        b"R": lambda self: self.reduce(),
        b"b": lambda self: self.build(),
    }


def _describe(value: object) -> str:
    """Describe a value of the machine for a message; never its contents, which may be anything."""
    if isinstance(value, StoredArray):
        if value.shape is None:
            return Kind.VALUE_ARRAY_WITHOUT_DATA()
        return Kind.VALUE_ARRAY() if value.data is not None else Kind.VALUE_ARRAY_OF_OBJECTS()
    if isinstance(value, _Global):
        return Kind.VALUE_GLOBAL(name=value.kind)
    if type(value) in (int, float, bool):
        return Kind.VALUE_OF_PYTHON(type=type(value).__name__)
    if value is None or value is _SCALAR:
        return "None" if value is None else Kind.VALUE_NUMPY_SCALAR()
    kinds = {_Text: Kind.VALUE_TEXT, _Bytes: Kind.VALUE_BYTES, _DType: Kind.VALUE_DTYPE}
    known = kinds.get(type(value))
    return known() if known else Kind.VALUE_OF_TYPE(type=type(value).__name__)


def flatten(contents: dict, file_bytes: int) -> dict[str, StoredArray]:
    """Nested dicts as one, keys joined by '/'; refuses what is far more than the file's size."""
    flat: dict[str, StoredArray] = {}
    characters = data_bytes = 0
    for path, value in _leaves(contents, "", 1):
        if path in flat:
            raise Refused(Kind.REFUSED_KEY_TWICE(key=printable(path)))
        flat[path] = value
        characters += len(path)
        if characters > _MAX_KEY_CHARACTERS:
            raise Refused(Kind.REFUSED_KEY_CHARACTERS(most=_MAX_KEY_CHARACTERS))
        data_bytes += value.data.count
        if data_bytes > max(_FREE_BYTES, _MAX_REUSE * file_bytes):
            raise Refused(Kind.REFUSED_REUSE())
    return flat


def _leaves(contents: dict, above: str, depth: int) -> Iterator[tuple[str, StoredArray]]:
    for name, value in contents.items():
        path = f"{above}/{name}" if above else name
        if len(path) > MAX_TEXT_BYTES:
            raise Refused(Kind.REFUSED_KEY_LENGTH(most=MAX_TEXT_BYTES, key=printable(path)))
        if not isinstance(value, dict):
            yield path, value
        elif depth > _MAX_DEPTH:
            raise Refused(Kind.REFUSED_DEPTH(most=_MAX_DEPTH))
        else:
            yield from _leaves(value, path, depth + 1)
