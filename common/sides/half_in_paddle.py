"""What Paddle computes in half precision where it has no kernel for it: on a CPU.

There an operator runs in float32 on its rounded inputs, and its result is rounded, as in kernels
for GPUs, whose sums are in float32 too.  Its gradient comes the same way, since a cast has one:
computed in float32 from a rounded gradient, and rounded.  Of which type a result of two types is,
or that there is none, the framework says itself: it is asked with float32 for half precision and
float64 for float32.
"""

import ctypes
import inspect
from collections.abc import Callable
from contextlib import contextmanager
from functools import partial

import numpy as np
import paddle

from twincheck.common.sides.session import current
from twincheck.common.system.half import HALF, rounded
from twincheck.common.system.intercept import Intercept
from twincheck.common.system.reasons import Kind
from twincheck.common.system.tree import tree_leaves, tree_map

_HALF = (paddle.bfloat16, paddle.float16)
# Their kernels take parameters in float32 beside an input in half precision.
_NORMS = ("batch_norm", "group_norm", "instance_norm", "layer_norm", "rms_norm")
_METHODS = (
    "add radd sub rsub mul rmul truediv rtruediv div rdiv pow rpow mod floordiv matmul neg "
    "eq ne lt le gt ge"
).split()
# Their gradients are computed from their results, which a kernel has rounded by then.
_FROM_RESULT = frozenset(
    "exp expm1 sqrt rsqrt reciprocal tanh sigmoid softmax log_softmax logsumexp".split()
)
# Operators under the names that Paddle's lists for mixed precision have for them.
_LISTED = {
    "matmul": "matmul_v2", "linear": "linear_v2", "sum": "reduce_sum", "mean": "reduce_mean",
    "mean_all": "mean", "prod": "reduce_prod", "embedding": "lookup_table_v2",
    "cross_entropy_with_softmax": "softmax_with_cross_entropy",
    "mul": "elementwise_mul", "rmul": "elementwise_mul", "multiply": "elementwise_mul",
    "linear_interp": "linear_interp_v2", "nearest_interp": "nearest_interp_v2",
    "bilinear_interp": "bilinear_interp_v2", "bicubic_interp": "bicubic_interp_v2",
}  # fmt: skip
_KEPT_NORMS = ("batch_norm", "sync_batch_norm")  # as their input is; their weights stay
_EXACT = ("cast", "share_data", "check_numerics")  # each has a kernel, or changes no value
_VAR = paddle.base.core.VarDesc.VarType
# How half precision is asked for -> which it is.
_ASKED = {kind: kind for kind in _HALF} | {"bfloat16": _HALF[0], "float16": _HALF[1]}
_ASKED |= {_VAR.BF16: _HALF[0], _VAR.FP16: _HALF[1]}


@contextmanager
def computing(dtype, device):
    """Watch inside what a run in half precision computes; on a CPU compute it, too."""
    if dtype not in HALF:
        yield ""
        return
    with Emulation(lambda *noted: current().note_computed(*noted), device == "cpu").on():
        yield Kind.KERNELS_EMULATED() if device == "cpu" else Kind.KERNELS_OF_PADDLE()


class Emulation:
    """Operators in half precision, emulated inside `with emulation.on()`.

    note      is told each call: the operator's name, and the types of its tensors
    computes  False where there are kernels, as on a GPU: then calls are told, and left as they are
    """

    def __init__(
        self, note: Callable[[str, list], None] = lambda name, types: None, computes: bool = True
    ):
        self._note = note
        self._computes = computes
        operators = paddle._C_ops
        self._cast = operators.cast
        self._mixed = None  # half precision, operators that are lowered and that are not
        handles = {
            f"_C_ops.{name}": partial(self._answer, name)
            for name in dir(operators)
            if not name.startswith("_")
            and callable(getattr(operators, name))
            and not inspect.isclass(getattr(operators, name))
        }
        methods = (f"__{name}__" for name in _METHODS)
        handles |= {f"Tensor.{name}": partial(self._answer, name) for name in methods}
        # What keeps an LSTM's weights in one piece, for GPUs.
        handles["_legacy_C_ops.coalesce_tensor"] = lambda own, given, more: (
            given[0][0].dtype in _HALF or own(*given, **more)
        )
        if computes:
            of_amp = ("amp.auto_cast", "amp.autocast")
            handles |= dict.fromkeys(
                of_amp, lambda own, given, more: self._auto_cast(*given, **more)
            )
        # Modules have operators by name, such as paddle.tensor.linalg's `matmul`.
        self._way = Intercept(paddle, handles, held_by=("",))

    def on(self) -> Intercept:
        """A context; inside, operators are emulated."""
        return self._way

    def _answer(self, name: str, own: Callable, arguments, options):
        plain = name.strip("_")
        in_place = name.endswith("_") and not name.endswith("__")
        if self._mixed and not in_place and plain not in _EXACT:
            arguments, options = self._lowered(plain, arguments, options)
        given = [list(arguments), options]
        tensors = [value for _, value in tree_leaves(given, paddle.is_tensor)]
        floats = [value.dtype for value in tensors if value.is_floating_point()]
        if floats:
            self._note(plain, [str(kind).replace("paddle.", "") for kind in floats])
        if not self._computes:
            return own(*arguments, **options)
        asked = [value for _, value in tree_leaves(given, _is_type)]
        made = next((_ASKED[kind] for kind in asked if kind in _ASKED), None)
        if plain in _EXACT or not made and not any(kind in _HALF for kind in floats):
            return own(*arguments, **options)
        with self._way.off():
            if in_place:
                return self._in_place(own, arguments, options)
            if made is None and asked:  # it says which type its result has
                return own(*self._wide(list(arguments)), **self._wide(options))
            return self._computed(plain, own, arguments, options, made, floats)

    @contextmanager
    def _auto_cast(
        self,
        enable=True,
        custom_white_list=None,
        custom_black_list=None,
        level="O1",
        dtype="float16",
        use_promote=True,
    ):
        """Stand for paddle.amp.auto_cast, which does nothing on a CPU."""
        if enable and level not in ("O0", "O1"):
            raise NotImplementedError(Kind.AMP_LEVEL_NOT_EMULATED(level=str(level)))
        saved, lists = self._mixed, paddle.amp.amp_lists
        lowered, kept = set(custom_white_list or ()), set(custom_black_list or ())
        lowered |= lists.white_list()[dtype]["O1"] - kept
        kept |= lists.black_list()[dtype]["O1"] - lowered
        self._mixed = (_ASKED[dtype], lowered, kept) if enable and level == "O1" else None
        try:
            yield
        finally:
            self._mixed = saved

    def _lowered(self, plain, arguments, options):
        """An operator's arguments as mixed precision casts them: by its lists, else to the widest.

        An operator of neither list computes in float32 where one of its tensors is.
        """
        half, lowered, kept = self._mixed
        given = [list(arguments), dict(options)]
        tensors = [value for _, value in tree_leaves(given, paddle.is_tensor)]
        types = {value.dtype for value in tensors} & {paddle.float32, *_HALF}
        name = _LISTED.get(plain, plain)
        wide = name in kept or paddle.float32 in types
        wanted = half if name in lowered else paddle.float32 if wide else None
        if wanted is None or types <= {wanted} or plain in _KEPT_NORMS:
            return arguments, options

        def change(path, value):
            return self._cast(value, wanted) if value.dtype in types - {wanted} else value

        changed = tree_map(given, change, paddle.is_tensor)
        return tuple(changed[0]), changed[1]

    def _computed(self, plain, own, arguments, options, made, floats):
        """The result of an operator that changes nothing in place."""
        half = made or next(kind for kind in floats if kind in _HALF)
        if made is None and any(kind not in _HALF for kind in floats):
            try:
                wider = {paddle.float32: paddle.float64}
                result = own(*self._wide(list(arguments), wider), **self._wide(options, wider))
                return self._cast_all(
                    result, {paddle.float32: half, paddle.float64: paddle.float32}
                )
            except (RuntimeError, ValueError, TypeError) as error:
                if not any(norm in plain for norm in _NORMS):
                    told = dict.fromkeys(str(kind).replace("paddle.", "") for kind in floats)
                    types = " and ".join(told)
                    raise TypeError(Kind.TYPES_MIXED(operator=plain, types=types)) from error
        result = own(*self._wide(list(arguments)), **self._wide(options))
        if plain in _FROM_RESULT and not result.stop_gradient:
            # Where its values are: what its gradient has kept of it is rounded too.
            address = ctypes.cast(result.data_ptr(), ctypes.POINTER(ctypes.c_float))
            values = np.ctypeslib.as_array(address, (int(result.size),))
            values[:] = rounded(values, str(half).replace("paddle.", ""))
        return self._cast_all(result, {paddle.float32: half})

    def _wide(self, values, more=None):
        """Return values with float32 in place of half precision, of tensors and of asked types."""
        casts = dict.fromkeys(_HALF, paddle.float32) | (more or {})

        def change(path, value):
            if not paddle.is_tensor(value):
                return paddle.float32 if value in _ASKED else value
            return self._cast(value, casts[value.dtype]) if value.dtype in casts else value

        return tree_map(values, change, lambda value: paddle.is_tensor(value) or _is_type(value))

    def _cast_all(self, values, casts):
        def change(path, value):
            if value.dtype in casts and 0 in value.shape:  # such as a cache that is still empty
                return paddle.empty(value.shape, dtype=casts[value.dtype])
            if value.dtype not in casts or not value._is_initialized():  # such as einsum's caches
                return value
            return self._cast(value, casts[value.dtype])

        return tree_map(values, change, paddle.is_tensor)

    def _in_place(self, own, arguments, options):
        """Run an operator that writes into its first argument, and round what it writes there."""
        first, *others = arguments
        try:
            copy = self._cast(first, paddle.float32)
        except RuntimeError:  # it has no values yet: this operator gives it its first
            copy = paddle.empty(first.shape, dtype=paddle.float32)
        own(copy, *self._wide(others), **self._wide(options))
        paddle.assign(self._cast(copy, first.dtype), first)
        return first


def _is_type(value: object) -> bool:
    if isinstance(value, str):
        return value in ("float32", "float64", *_ASKED)
    return isinstance(value, type(paddle.bfloat16) | _VAR)
