"""Read what torch.save wrote, both formats, with NumPy alone; nothing in it is executed.

zip      NAME/data.pkl with the names and shapes, NAME/data/KEY with a storage's bytes each
legacy   before PyTorch 1.6: five pickles (magic number, version, system, the object, keys of
         the storages), then each storage's size and bytes
"""

import io
import os
import zipfile

import numpy as np

from twincheck.common.logs.pickle_machine import Refused
from twincheck.common.system.files import read_into
from twincheck.common.system.reasons import Kind
from twincheck.common.weights.state_pickle import (
    BFLOAT16,
    Storage,
    StoredTensor,
    TorchMachine,
    torch_tensors,
)

# The first bytes of a file in the format before PyTorch 1.6.
LEGACY_MAGIC = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."
_VERSION = b"\x80\x02M\xe9\x03."
# Several tensors may share a storage; but a small file must not unpack to a huge checkpoint.
_MAX_REUSE = 16
_FREE_BYTES = 1 << 26


def read_torch_zip(
    file: io.BufferedReader, archive: zipfile.ZipFile
) -> tuple[dict[str, np.ndarray], list[str]]:
    """Name -> array of a torch.save zip, and the names of those that were bfloat16.

    bfloat16 becomes float32, which holds it exactly; tensors that share a storage share memory.
    Raises Refused in words, or what zipfile and NumPy raise for a damaged file.
    """
    members = {member.filename: member for member in archive.infolist()}
    packed = [name for name, m in members.items() if m.compress_type != zipfile.ZIP_STORED]
    if packed or len(members) != len(archive.infolist()):
        raise Refused(Kind.TORCH_ZIP_PACKED())
    pickles = [name for name in members if name.split("/", 1)[-1] == "data.pkl"]
    if len(pickles) != 1:
        raise Refused(Kind.TORCH_ZIP_PICKLES())
    prefix = pickles[0].removesuffix("data.pkl")
    order = "<"
    if f"{prefix}byteorder" in members:
        order = {b"little": "<", b"big": ">"}.get(archive.read(f"{prefix}byteorder"))
        if order is None:
            raise Refused(Kind.TORCH_ZIP_BYTE_ORDER())
    content = archive.read(pickles[0])
    machine = TorchMachine(io.BytesIO(content), len(content))
    tensors = torch_tensors(machine.run())

    def load(storage: Storage) -> bytearray:
        name = f"{prefix}data/{storage.key}"
        if name not in members:
            raise Refused(Kind.TORCH_STORAGE_MISSING(name=ascii(name)))
        if members[name].file_size != storage.count * _item_bytes(storage.code):
            told = {"name": ascii(name), "count": members[name].file_size}
            raise Refused(Kind.TORCH_STORAGE_BYTES(**told, storage=str(storage)))
        with archive.open(name) as stream:
            content = _read(stream, members[name].file_size)
            stream.read(1)  # reading to the end also checks the member's sum
        return content

    return _arrays(tensors, load, order, os.fstat(file.fileno()).st_size)


def read_torch_legacy(file: io.BufferedReader) -> tuple[dict[str, np.ndarray], list[str]]:
    """Read the tensors of a file in torch.save's format from before PyTorch 1.6, and notes."""
    size = os.fstat(file.fileno()).st_size
    if file.read(len(LEGACY_MAGIC)) != LEGACY_MAGIC or file.read(len(_VERSION)) != _VERSION:
        raise Refused(Kind.TORCH_VERSION())
    machine = TorchMachine(file, size)
    system = machine.run()
    if not isinstance(system, dict) or type(system.get("little_endian")) is not bool:
        raise Refused(Kind.TORCH_BYTE_ORDER_MISSING())
    tensors = torch_tensors(machine.run())
    wanted = {tensor.storage.key: tensor.storage for tensor in tensors.values()}
    listed = machine.run()
    if not isinstance(listed, list):
        raise Refused(Kind.TORCH_STORAGES_UNLISTED())
    listed = [getattr(key, "text", None) for key in listed]
    if set(listed) != set(wanted) or len(set(listed)) != len(listed):
        raise Refused(Kind.TORCH_STORAGES_OTHERS())
    offsets = {}
    for key in listed:
        count = int.from_bytes(_read(file, 8), "little")
        if count != wanted[key].count:
            raise Refused(Kind.TORCH_STORAGE_ELEMENTS(count=count, needed=wanted[key].count))
        offsets[key] = file.tell()
        if count * _item_bytes(wanted[key].code) > size - file.tell():
            raise Refused(Kind.TORCH_STORAGES_CUT_SHORT())
        file.seek(count * _item_bytes(wanted[key].code), io.SEEK_CUR)
    if file.tell() != size:
        raise Refused(Kind.TORCH_BYTES_BEHIND(count=size - file.tell()))

    def load(storage: Storage) -> bytearray:
        file.seek(offsets[storage.key])
        return _read(file, storage.count * _item_bytes(storage.code))

    return _arrays(tensors, load, "<" if system["little_endian"] else ">", size)


def _item_bytes(code: str) -> int:
    return 2 if code == BFLOAT16 else np.dtype(code).itemsize


def _read(stream, count: int) -> bytearray:
    content = bytearray(count)
    if not read_into(stream, memoryview(content)):
        raise Refused(Kind.TORCH_STORAGES_CUT_SHORT())
    return content


def _arrays(tensors: dict[str, StoredTensor], load, order: str, file_bytes: int):
    """Name -> array, and the names of those that were bfloat16; `load` gives a storage's bytes."""
    total = sum(tensor.size * _item_bytes(tensor.storage.code) for tensor in tensors.values())
    total += sum(s.count * _item_bytes(s.code) for s in {t.storage for t in tensors.values()})
    if total > max(_FREE_BYTES, _MAX_REUSE * file_bytes):
        raise Refused(Kind.TORCH_UNPACKS_TO(unpacked=total, packed=file_bytes))
    storages: dict[str, np.ndarray] = {}
    kinds: dict[str, Storage] = {}
    arrays = {}
    for name, tensor in tensors.items():
        storage = tensor.storage
        if kinds.setdefault(storage.key, storage) != storage:
            raise Refused(Kind.TORCH_STORAGE_TWO_KINDS(name=ascii(storage.key)))
        if storage.key not in storages:
            storages[storage.key] = _numbers(load(storage), storage.code, order)
        flat = storages[storage.key]
        # An axis of one element may have any stride.
        steps = [s * (n > 1) for n, s in zip(tensor.shape, tensor.strides, strict=True)]
        values = np.lib.stride_tricks.as_strided(
            flat[tensor.offset :] if tensor.size else flat[:0],
            tensor.shape,
            tuple(step * flat.itemsize for step in steps),
            writeable=False,
        )
        # A copy only where the elements do not lie in order.
        arrays[name] = np.ascontiguousarray(values).reshape(tensor.shape)
    return arrays, [name for name, t in tensors.items() if t.storage.code == BFLOAT16]


def _numbers(content: bytearray, code: str, order: str) -> np.ndarray:
    """A storage's elements, in this machine's byte order."""
    if code == BFLOAT16:
        return widened(np.frombuffer(content, np.dtype("u2").newbyteorder(order)))
    if code == "b1":  # torch takes any byte but 0 for true, NumPy expects a 1
        return np.frombuffer(content, np.uint8) != 0
    values = np.frombuffer(content, np.dtype(code).newbyteorder(order))
    return values.astype(values.dtype.newbyteorder("="), copy=False)


def widened(bits: np.ndarray) -> np.ndarray:
    """bfloat16's bits (uint16) as float32, exactly: it is the upper half of one."""
    return (bits.astype(np.uint32) << 16).view(np.float32)
