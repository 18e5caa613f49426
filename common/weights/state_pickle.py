"""State dicts inside pickles, as torch.save and paddle.save write them, read without executing.

NumPy only.  Both machines are common/logs/pickle_machine.py's with a few more known names; every
other name that a file asks for is refused, and the refusal says which.

    torch   {name: tensor}, each tensor some elements of a storage whose bytes are elsewhere in the
            file; OrderedDict, Parameter and a state dict's _metadata are known
    Paddle  {name: ndarray}, {name: (parameter's name, ndarray)} and the table
            StructuredToParameterName@@
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from twincheck.common.logs.pickle_machine import (
    Machine,
    Refused,
    StoredArray,
    _Global,
    _Text,
    printable,
)
from twincheck.common.system.reasons import Kind

# torch's storage classes -> the dtype of their elements; bfloat16 is no NumPy dtype.
BFLOAT16 = "bfloat16"
STORAGES = {
    "FloatStorage": "f4",
    "DoubleStorage": "f8",
    "HalfStorage": "f2",
    "BFloat16Storage": BFLOAT16,
    "LongStorage": "i8",
    "IntStorage": "i4",
    "ShortStorage": "i2",
    "CharStorage": "i1",
    "ByteStorage": "u1",
    "BoolStorage": "b1",
}
_TORCH = {
    ("collections", "OrderedDict"): "ordered",
    ("torch._utils", "_rebuild_tensor"): "tensor",
    ("torch._utils", "_rebuild_tensor_v2"): "tensor",
    ("torch._utils", "_rebuild_parameter"): "parameter",
} | {("torch", name): f"storage {code}" for name, code in STORAGES.items()}
_PADDLE = {("builtins", "tuple"): "tuple", ("__builtin__", "tuple"): "tuple"}
NAME_TABLE = "StructuredToParameterName@@"
_MAX_AXES = 32


@dataclass(frozen=True)
class Storage:
    """A storage that a pickle names; the file around the pickle says where its bytes are."""

    key: str
    code: str  # a dtype, or BFLOAT16
    count: int  # elements


@dataclass(frozen=True)
class StoredTensor:
    """Some elements of a storage, as torch's strides and offset say (in elements)."""

    storage: Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def size(self) -> int:
        """Return how many elements it has."""
        return math.prod(self.shape)


class _StateMachine(Machine):
    """A machine for dicts of any values; `_named` checks these once a dict is complete."""

    def result(self) -> object:
        """The one value that is left; the file is then positioned behind STOP."""
        if len(self.stack) != 1:
            raise Refused(Kind.STATE_NO_RESULT())
        self.memo.clear()  # the next pickle in the file has its own
        return self.stack.pop()

    def check_item(self, key: object, value: object) -> None:
        """Keys are text; values may be any."""
        if not isinstance(key, _Text) or key.text is None:
            raise Refused(Kind.STATE_KEY())


class TorchMachine(_StateMachine):
    """Follows what torch.save pickles of a state dict."""

    known = _TORCH  # its few names

    def persistent(self) -> None:
        """BINPERSID: a storage, and nothing else."""
        items = self.pop()
        fits = isinstance(items, tuple) and len(items) in (5, 6) and items[5:] in ((), (None,))
        if not fits:
            raise Refused(Kind.STATE_PERSISTENT_ID())
        word, kind, key, device, count = items[:5]
        texts = [getattr(value, "text", None) for value in (word, key, device)]
        named = isinstance(kind, _Global) and kind.kind.startswith("storage ")
        if texts[0] != "storage" or not named or None in texts:
            raise Refused(Kind.STATE_PERSISTENT_ID())
        if type(count) is not int or count < 0:
            raise Refused(Kind.STATE_STORAGE_SIZE())
        self.stack.append(Storage(texts[1], kind.kind.split()[1], count))

    def call_ordered(self) -> dict:
        """OrderedDict()"""
        return {}

    def call_tensor(self, storage, offset, shape, strides, *more) -> StoredTensor:
        """A tensor's place in its storage; whether it wants gradients is of no interest."""
        for values in (shape, strides):
            if not isinstance(values, tuple) or len(values) > _MAX_AXES:
                raise Refused(Kind.STATE_TENSOR_SHAPE())
        plain = all(type(n) is int and n >= 0 for n in (offset, *shape, *strides))
        if (
            not (plain and isinstance(storage, Storage))
            or len(shape) != len(strides)
            or len(more) > 3
        ):
            raise Refused(Kind.STATE_TENSOR_BUILT())
        tensor = StoredTensor(storage, offset, shape, strides)
        reach = offset + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
        if tensor.size and reach >= storage.count:
            raise Refused(Kind.STATE_TENSOR_BEYOND(shape=shape, count=storage.count))
        return tensor

    def call_parameter(self, tensor, wants_gradient, hooks) -> StoredTensor:
        """A Parameter is its tensor."""
        if not isinstance(tensor, StoredTensor):
            raise Refused(Kind.STATE_PARAMETER())
        return tensor

    def build(self) -> None:
        """BUILD: a state dict's _metadata, which says nothing of the values."""
        state, target = self.pop(), self.pop()
        if not isinstance(state, dict) or set(state) != {"_metadata"} or type(target) is not dict:
            raise Refused(Kind.STATE_OF_OTHERS())
        self.stack.append(target)

    _actions = Machine._actions | {b"Q": persistent}


class PaddleMachine(_StateMachine):
    """Follows what paddle.save pickles of a state dict."""

    known = _StateMachine.known | _PADDLE  # NumPy's names, and tuple

    def call_tuple(self, values) -> tuple:
        """tuple((name, array)): a tensor of Paddle's"""
        if not isinstance(values, tuple):
            raise Refused(Kind.STATE_TUPLE())
        return values


def torch_tensors(unpickled: object) -> dict[str, StoredTensor]:
    """Name -> tensor of TorchMachine's result; Refused where that is no state dict."""
    return _named(unpickled, lambda value: value if isinstance(value, StoredTensor) else None)


def paddle_arrays(unpickled: object) -> dict[str, StoredArray]:
    """Name -> array of PaddleMachine's result; Refused where that is no state dict."""
    if isinstance(unpickled, dict):
        unpickled = {key: value for key, value in unpickled.items() if key != NAME_TABLE}

    def array(value: object) -> StoredArray | None:
        if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], _Text):
            value = value[1]
        filled = isinstance(value, StoredArray) and value.data is not None
        return value if filled else None

    return _named(unpickled, array)


def _named(unpickled: object, weight_of) -> dict:
    """Name -> `weight_of` of each value, which is None for what is no weight: Refused."""
    if not isinstance(unpickled, Mapping):
        raise Refused(Kind.STATE_UNNAMED())
    weights = {}
    for key, value in unpickled.items():
        weights[key] = weight_of(value)
        if weights[key] is None:
            what, inside = Kind.VALUE_OF_TYPE(type=type(value).__name__.strip("_").lower()), ""
            if isinstance(value, _Text):
                what = Kind.VALUE_TEXT()
            if isinstance(value, dict):
                keys = [printable(key) for key in list(value)[:3]] + ["…"] * (len(value) > 3)
                inside = Kind.WHICH_HOLDS(keys=keys or [Kind.NOTHING()])
            raise Refused(Kind.STATE_VALUE(what=what, key=printable(key), inside=inside))
    return weights
