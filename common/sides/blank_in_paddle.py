"""Build a Paddle model without the random values that its weights overwrite at once.

    with Blanks() as blanks:          inside, random functions draw nothing: what they would fill
        model = build(config)         is blank
    ...                               put the weights in
    blanks.left(model)                True where something is blank still: build without this

What is blank has a shape and a dtype, but no memory.  Whatever a constructor would do with its
values raises `Read`: Paddle's operators and the methods of its tensors are looked at while a model
is built.  common/sides/blank_in_torch.py, which sees torch's operators, goes on with blank values
instead.
"""

import types
import weakref
from functools import cache, partial

import paddle
from paddle.base import core

from twincheck.common.system.intercept import Intercept, stand_in

_Tensor = paddle.Tensor
# Random operators -> where the shape and the dtype stand of what they make.
_DRAWN = {"gaussian": (0, 4), "uniform": (0, 1), "truncated_gaussian_random": (0, 6)}
# Operators that write a whole tensor -> which argument that is.
_OVERWRITES = {"full_": 0, "assign_value_": 0, "assign_out_": 1}
# Methods that ask for no values.
_HARMLESS = frozenset(
    "_is_initialized _zero_grads clear_grad clear_gradient dim element_size get_device is_complex "
    "is_contiguous is_dense is_dist is_floating_point is_integer is_selected_rows is_sparse "
    "is_sparse_coo is_sparse_csr is_tensor ndimension register_hook requires_grad_ retain_grads "
    "value __format__ __hash__ __init__ __len__ __repr__ __str__".split()
)
_FUNCTIONS = (types.BuiltinFunctionType, types.FunctionType)
_METHODS = (types.FunctionType, types.MethodDescriptorType, types.WrapperDescriptorType)


class Read(RuntimeError):
    """The constructor goes on with a value that would have been drawn."""


class Blanks:
    """The tensors that are blank; nothing is computed of them."""

    now: "Blanks"  # the one that a model is built in

    def __init__(self):
        self.read = False  # a blank tensor was asked for its values
        self._made: dict[int, weakref.ref] = {}
        self._put_back = None
        self._before = ""

    def __enter__(self) -> "Blanks":
        Blanks.now, self._before = self, generator()
        _way().__enter__()
        data = vars(_Tensor)["data"]
        looked = property(lambda tensor: _look(data.__get__, (tensor,), {}), data.__set__)
        self._put_back = stand_in(_Tensor, "data", looked)
        return self

    def __exit__(self, *error: object) -> None:
        self._put_back()
        _way().__exit__()
        # Another random operator has run: it gives other values than without this.
        self.read = self.read or generator() != self._before

    def add(self, tensor) -> None:
        """Take this tensor, which has no memory, as blank from now on."""
        self._made[id(tensor)] = weakref.ref(tensor)

    def overwritten(self, tensor) -> None:
        """The tensor gets proper values before anybody asks for one."""
        self._made.pop(id(tensor), None)

    def has(self, value) -> bool:
        """Return whether a value is a tensor that is blank."""
        if id(value) not in self._made or not isinstance(value, _Tensor):
            return False
        return self._made[id(value)]() is value and not value._is_initialized()

    def in_constants(self, model) -> bool:
        """True where a buffer, or a parameter that is not learned, would have been drawn."""
        fixed = [value for value in model.parameters() if value.stop_gradient]
        return any(map(self.has, (*model.buffers(), *fixed)))

    def left(self, model) -> bool:
        """True where something is blank still, now that the model has its weights."""
        return self.read or any(self.has(reference()) for reference in self._made.values())

    def refuse(self, own) -> None:
        """Raise Read."""
        self.read = True
        raise Read(own.__name__)


def generator() -> str:
    """Return the state of the generator, without addresses."""
    words = str(paddle.get_rng_state()[0]).split()
    return " ".join(word for word in words if not word.startswith("0x"))


# ---- what stands before operators and methods ----------------------------------------------------


@cache
def _way() -> Intercept:
    """Make the handlers once a process: these are thousands."""
    handles = {}
    for owner in ("_C_ops", "_legacy_C_ops"):
        for name, own in vars(getattr(paddle, owner)).items():
            if isinstance(own, _FUNCTIONS) and not name.startswith("__"):
                handles[f"{owner}.{name}"] = partial(_look, written=_OVERWRITES.get(name))
    handles |= {f"_C_ops.{name}": partial(_draw, *places) for name, places in _DRAWN.items()}
    for name, own in vars(_Tensor).items():
        if name not in _HARMLESS and isinstance(own, _METHODS):
            handles[f"Tensor.{name}"] = _SPECIAL.get(name, _look)
    return Intercept(paddle, handles)


def _look(own, arguments, options, written: int | None = None):
    """Run a function that is given no blank tensor but the one that it writes."""
    blanks = Blanks.now
    for i, value in enumerate((*arguments, *options.values())):
        parts = value if isinstance(value, list | tuple) else (value,)
        if i != written and any(map(blanks.has, parts)):
            blanks.refuse(own)
    return own(*arguments, **options)


def _draw(shape_at: int, dtype_at: int, own, arguments, options):
    """A random operator: what it makes is blank."""
    shape = arguments[shape_at]
    if any(type(length) is not int for length in shape):
        Blanks.now.refuse(own)
    kind = core.VarDesc.VarType.DENSE_TENSOR
    made = core.eager.Tensor(arguments[dtype_at], list(shape), "blank", kind, False)
    made.stop_gradient = True
    Blanks.now.add(made)
    return made


def _share(own, arguments, options):
    tensor, other, *_ = arguments
    blank = Blanks.now.has(tensor)
    own(*arguments)
    if blank:
        Blanks.now.add(other)


def _set_value(own, arguments, options):
    """Set a tensor's values, which writes it but does not read it."""
    tensor, value = arguments
    if not Blanks.now.has(value):
        with _way().off():
            return own(tensor, value)
    if list(tensor.shape) != list(value.shape) or tensor.dtype != value.dtype:
        Blanks.now.refuse(own)
    return value._share_underline_tensor_to(tensor)


def _set_item(own, arguments, options):
    """Let some of a blank tensor be overwritten, as an Embedding's padding row is."""
    tensor, _, value = arguments
    if not Blanks.now.has(tensor) or Blanks.now.has(value):
        _look(own, arguments, options)


def _copy(own, arguments, options):
    """Blank a tensor that is given the values of a blank one, as copy.deepcopy does, too."""
    tensor, other, *_ = arguments
    if not Blanks.now.has(other):
        return _look(own, arguments, options)
    if tensor._is_initialized():
        Blanks.now.refuse(own)
    Blanks.now.add(tensor)
    return tensor


_SPECIAL = {
    "set_value": _set_value,
    "copy_": _copy,
    "__setitem__": _set_item,
    "_share_underline_tensor_to": _share,
}
