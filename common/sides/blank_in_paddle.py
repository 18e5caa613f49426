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

import functools
import types
import weakref
from contextlib import ExitStack

import paddle
from paddle import _C_ops, _legacy_C_ops
from paddle.base import core

from common.sides.backend_paddle import random_state

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
    """The tensors that are blank; nothing is computed of them.

    What stands in the place of operators is made once a process: there are thousands.
    """

    now: "Blanks"  # the one that a model is built in

    def __init__(self):
        self.read = False  # a blank tensor was asked for its values
        self._made: dict[int, weakref.ref] = {}
        self._inside = ExitStack()
        self._looking = True
        self._before = b""

    def __enter__(self) -> "Blanks":
        Blanks.now, self._before = self, random_state()
        for owner in (_C_ops, _legacy_C_ops):
            for name, own in list(vars(owner).items()):
                if isinstance(own, _FUNCTIONS) and not name.startswith("__"):
                    written = _OVERWRITES.get(name)
                    drawn = owner is _C_ops and name in _DRAWN
                    self._put(
                        owner, name, self._draw(own, name) if drawn else self._look(own, written)
                    )
        special = {
            "set_value": self._set_value,
            "copy_": self._copy,
            "__setitem__": self._set_item,
            "_share_underline_tensor_to": self._share,
        }
        for name, own in list(vars(_Tensor).items()):
            if name not in _HARMLESS and isinstance(own, _METHODS):
                self._put(_Tensor, name, special.get(name, self._look)(own))
        data = vars(_Tensor)["data"]
        self._put(_Tensor, "data", property(self._look(data.__get__), data.__set__))
        return self

    def __exit__(self, *error: object) -> None:
        self._inside.close()
        # Another random operator has run: it gives other values than without this.
        self.read = self.read or random_state() != self._before

    def _put(self, owner, name: str, instead) -> None:
        self._inside.callback(setattr, owner, name, vars(owner)[name])
        setattr(owner, name, instead)

    def add(self, tensor) -> None:
        """From now on this tensor, which has no memory, is blank."""
        self._made[id(tensor)] = weakref.ref(tensor)

    def overwritten(self, tensor) -> None:
        """The tensor gets proper values before anybody asks for one."""
        self._made.pop(id(tensor), None)

    def has(self, value) -> bool:
        """Whether a value is a tensor that is blank."""
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

    # ---- what stands in the place of operators and methods --------------------------------------

    @staticmethod
    @functools.cache
    def _look(own, written: int | None = None):
        """`own`, which is given no blank tensor but the one that it writes."""

        @functools.wraps(own)
        def instead(*arguments, **options):
            self = Blanks.now
            if self._looking:
                for i, value in enumerate((*arguments, *options.values())):
                    parts = value if isinstance(value, list | tuple) else (value,)
                    if i != written and any(map(self.has, parts)):
                        self._refuse(own)
            return own(*arguments, **options)

        return instead

    def _refuse(self, own) -> None:
        self.read = True
        raise Read(f"{own.__name__} of a blank tensor")

    @staticmethod
    @functools.cache
    def _draw(own, name: str):
        """A random operator: what it makes is blank."""

        @functools.wraps(own)
        def instead(*arguments, **options):
            self = Blanks.now
            shape_at, dtype_at = _DRAWN[name]
            shape = arguments[shape_at]
            if any(type(length) is not int for length in shape):
                self._refuse(own)
            kind = core.VarDesc.VarType.DENSE_TENSOR
            made = core.eager.Tensor(arguments[dtype_at], list(shape), "blank", kind, False)
            made.stop_gradient = True
            self.add(made)
            return made

        return instead

    @staticmethod
    @functools.cache
    def _share(own):
        @functools.wraps(own)
        def share(tensor, other, *arguments):
            self = Blanks.now
            blank = self.has(tensor)
            own(tensor, other, *arguments)
            if blank:
                self.add(other)

        return share

    @staticmethod
    @functools.cache
    def _set_value(own):
        @functools.wraps(own)
        def set_value(tensor, value):
            self = Blanks.now
            if not self.has(value):
                return self._unseen(own, tensor, value)
            if list(tensor.shape) != list(value.shape) or tensor.dtype != value.dtype:
                self._refuse(own)
            value._share_underline_tensor_to(tensor)

        return set_value

    @staticmethod
    @functools.cache
    def _set_item(own):
        """Some of a blank tensor may be overwritten, as an Embedding's padding row is."""

        @functools.wraps(own)
        def set_item(tensor, index, value):
            self = Blanks.now
            if not self.has(tensor) or self.has(value):
                self._look(own)(tensor, index, value)

        return set_item

    @staticmethod
    @functools.cache
    def _copy(own):
        """What copy.deepcopy calls, too."""

        @functools.wraps(own)
        def copy_(tensor, other, *arguments, **options):
            self = Blanks.now
            if not self.has(other):
                return self._look(own)(tensor, other, *arguments, **options)
            if tensor._is_initialized():
                self._refuse(own)
            self.add(tensor)
            return tensor

        return copy_

    def _unseen(self, own, *arguments):
        """Run something of Paddle's that writes a tensor, but does not read it."""
        saved, self._looking = self._looking, False
        try:
            return own(*arguments)
        finally:
            self._looking = saved
