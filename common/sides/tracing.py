"""Keep every operator's call of a run: what it was given, what it made, which lines asked for it.

A framework's layer is one operator on the side that is looked into, and so is what its functions
call; torch shows what is inside those too, since the other side may have it written out.
"""

import inspect
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cache, partial

import numpy as np

from twincheck.common.logs.trace import Call, Frame, Trace
from twincheck.common.sides.places import STEPS, is_instrument, makers
from twincheck.common.sides.session import current
from twincheck.common.system.intercept import Intercept
from twincheck.common.system.tree import tree_leaves

MOST_BYTES = 1 << 28  # of values; a run of more is not traced to its end
MOST_OF_A_LEAF = 1 << 18  # numbers of what the run was given
MOST_FRAMES = 8
_OWNERS = ("", "Tensor", "nn.functional", "linalg", "fft", "signal", "incubate.nn.functional")
# What computes nothing, or is asked by instruments and by Python itself.
_SILENT = frozenset(
    """
    __array__ __bool__ __class__ __deepcopy__ __delattr__ __dir__ __dlpack__ __dlpack_device__
    __float__ __format__ __get__ __getattribute__ __getstate__ __hash__ __index__ __init__
    __init_subclass__ __int__ __len__ __new__ __reduce__ __reduce_ex__ __repr__ __set__
    __setattr__ __setstate__ __sizeof__ __str__ __subclasshook__ __torch_function__
    __tvm_ffi_env_stream__ _make_subclass _share_memory backward batch clear_grad
    clear_gradient cpu data_ptr detach dim dim_order element_size finfo gradient has_names
    iinfo item ndimension nelement no_grad numel numpy place rank register_hook requires_grad_
    retain_grad retain_grads seed size stride summary tolist type value
    """.split()
)
_SILENT_FROM = ("set_", "get_", "is_", "in_", "enable", "disable", "save", "load")
_WRITES = ("__setitem__", "__iadd__", "__isub__", "__imul__", "__itruediv__", "__idiv__")


def is_silent(name: str) -> bool:
    """Return whether a function of a framework's computes nothing of a model's."""
    return not name or name in _SILENT or name.startswith(_SILENT_FROM)


class Tracing:
    """The trace of a run, while it is made, of the modules whose names `takes` says yes to."""

    def __init__(self, side, takes: Callable[[str], bool]):
        self.side, self.takes = side, takes
        self.trace = Trace()
        self._numbers: dict[int, int] = {}  # id of a tensor -> the number of its value
        self._kept: list[object] = []  # the tensors, since an id may be given away again
        self._bytes = 0
        self._layer: object | None = None  # the framework's layer that is called
        self._inside = 0  # how many operators run that are one with what they call

    def handle(self, name: str, own: Callable, arguments: tuple, options: dict):
        """Answer a call of an operator with what it gives, and keep it."""
        frames = () if self._inside or not self._wanted() else self._frames()
        if not frames:
            return own(*arguments, **options)
        self._inside += 1
        try:
            given = [self._number(t) for t in self._tensors([arguments, options])]
            made = own(*arguments, **options)
            self._keep(name, given, made, arguments, options, frames)
        finally:
            self._inside -= 1
        return made

    @contextmanager
    def calling(self, layer: object) -> Iterator[None]:
        """Inside, a layer of the framework is called: its call says where it was built."""
        saved, self._layer = self._layer, layer
        try:
            yield
        finally:
            self._layer = saved

    def see(self, name: str, given: list[int], made, arguments, options) -> None:
        """Keep a call whose inside is looked at too."""
        if not self._inside and self._wanted() and (frames := self._frames()):
            self._keep(name, given, made, arguments, options, frames)

    def numbers(self, values) -> list[int]:
        """Return the numbers of the tensors among values; none where nobody asks."""
        if self._inside or not self._wanted():
            return []
        return [self._number(tensor) for tensor in self._tensors(values)]

    def _wanted(self) -> bool:
        running = current().running
        return self.trace.whole and (not running or any(map(self.takes, running)))

    def _tensors(self, values) -> list[object]:
        return [leaf for _, leaf in tree_leaves(values, self.side.is_tensor)]

    def _number(self, tensor) -> int:
        number, values = self._numbers.get(id(tensor)), self._array(tensor)
        if number is None and values.size > MOST_OF_A_LEAF:
            values = np.zeros(0)  # a large weight: it says nothing, and is much
        known = None if number is None else self.trace.values[number]
        if known is not None and (not known.size or _same(known, values)):
            return number
        return self._new(tensor, values)  # made or changed where nobody looked

    def _new(self, tensor, values: np.ndarray) -> int:
        self._bytes += values.nbytes
        self.trace.whole &= self._bytes <= MOST_BYTES
        self._kept.append(tensor)
        self.trace.values.append(values)
        self._numbers[id(tensor)] = len(self.trace.values) - 1
        return len(self.trace.values) - 1

    def _array(self, tensor) -> np.ndarray:
        try:
            return np.array(self.side.array(tensor))
        except (RuntimeError, ValueError, TypeError, NotImplementedError):
            return np.zeros(0)  # sparse, or it has no memory

    def _keep(self, name, given, made, arguments, options, frames) -> None:
        results = self._tensors(made)
        if name in _WRITES or name.endswith("_") and not name.endswith("__"):
            results = [*self._tensors(arguments[:1]), *results]
        results = [self._new(tensor, self._array(tensor)) for tensor in results]
        plain = {str(i): value for i, value in enumerate(arguments)} | options
        plain = {key: found for key, value in plain.items() if (found := _plain(value)) is not None}
        self.trace.calls.append(Call(name, given, results, list(frames), plain))
        if self._layer is not None:
            self.trace.calls[-1].built = next((line for line, _ in makers(self._layer)), "")

    def _frames(self) -> list[Frame]:
        """Return the lines of the model that led here, the innermost first."""
        frame, found, building = sys._getframe(2), [], not current().running
        while frame is not None and len(found) < MOST_FRAMES:
            code = frame.f_code
            if code.co_filename.startswith(STEPS):
                break
            if not is_instrument(code.co_filename) and not _of_python(code.co_filename):
                plain = _plain_names(frame.f_locals)
                found.append(Frame(code.co_filename, frame.f_lineno, code.co_name, plain))
            elif building and not found and "/nn/" in code.co_filename:
                return []  # a layer draws its initial values
            frame = frame.f_back
        return found


@cache
def _of_python(filename: str) -> bool:
    """Return whether a file is of Python's own library."""
    libraries = (sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"))
    return filename.startswith(libraries) and "-packages" not in filename


def _plain_names(variables: Mapping[str, object]) -> dict[str, object]:
    """Return the variables of a frame that are plain, and the plain attributes of its `self`."""
    found = {name: value for name, value in variables.items() if name.isidentifier()}
    own = getattr(variables.get("self"), "__dict__", {})
    found |= {f"self.{name}": value for name, value in own.items() if not name.startswith("_")}
    told = {name: _plain(value) for name, value in found.items()}
    return {name: value for name, value in told.items() if value is not None}


def _plain(value: object) -> object:
    """A plain value as JSON can hold it, a short list of such too; None for another."""
    if isinstance(value, bool | int | str) and len(str(value)) < 80:
        return value
    if isinstance(value, float) and np.isfinite(value):
        return float(value)
    if isinstance(value, np.integer | np.floating):
        return _plain(value.item())
    if isinstance(value, list | tuple) and 0 < len(value) <= 12:
        found = [_plain(one) for one in value]
        return None if None in found else found
    return None


def _same(one: np.ndarray, other: np.ndarray) -> bool:
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    return np.array_equal(one, other, equal_nan=one.dtype.kind in "fc")


@contextmanager
def tracing(side, takes: Callable[[str], bool]) -> Iterator[Trace]:
    """Inside, the calls of a side's operators are kept; gives the trace that they come into."""
    tracing = Tracing(side, takes)
    with ExitStack() as stack:
        if side.NAME == "torch":
            from twincheck.common.sides.trace_in_torch import Seeing

            stack.enter_context(Seeing(tracing))
        else:
            stack.enter_context(_before_functions(tracing))
        yield tracing.trace


def _before_functions(tracing: Tracing) -> Intercept:
    """Return what stands before the framework's functions and its layers."""
    side, handles = tracing.side, {}
    for owner in _OWNERS:
        held = side.lib
        for part in filter(None, owner.split(".")):
            held = getattr(held, part, None)
        for name in dir(held) if held is not None else ():
            own = getattr(held, name, None)
            private = name.startswith("_") and not name.startswith("__")
            if private or is_silent(name) or not inspect.isroutine(own):
                continue
            handles[f"{owner}.{name}".removeprefix(".")] = partial(tracing.handle, name)

    def layer(own, arguments, options):
        module = arguments[0]
        if not side.of_framework(module) or side.is_container(module):
            return own(*arguments, **options)
        with tracing.calling(module):
            return tracing.handle(type(module).__name__, own, arguments, options)

    handles["nn.Layer.__call__"] = layer
    users = {
        name
        for name, module in list(sys.modules.items())
        if not is_instrument(str(getattr(module, "__file__", None) or "<"))
    }
    return Intercept(side.lib, handles, tuple(users))
