"""Keep every call of a run: what a function was given, what it made, which lines asked for it.

A layer of the framework's and a function of its are one call each, whatever they call.  Torch shows
the operators in those that it has in Python too, since the other side may have them written out.
"""

import importlib
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from types import FunctionType

import numpy as np

from twincheck.common.logs.trace import PYTHON, Call, Frame, Trace
from twincheck.common.sides import instruments, probes
from twincheck.common.sides.calls import changed
from twincheck.common.sides.places import STEPS, is_models, makers
from twincheck.common.sides.python_values import Made, PythonValues
from twincheck.common.sides.session import current
from twincheck.common.system.intercept import Intercept, stand_in
from twincheck.common.system.tree import tree_leaves

MOST_BYTES = 1 << 28  # of values; a run of more is not traced to its end
MOST_OF_A_LEAF = 1 << 18  # numbers of what the run was given
MOST_FRAMES = 8


class Tracing:
    """The trace of a run, while it is made, of the modules whose names `takes` says yes to."""

    def __init__(self, side, takes: Callable[[str], bool]):
        self.side, self.takes = side, takes
        self.calls = importlib.import_module(f"twincheck.common.sides.calls_in_{side.NAME}")
        self.trace = Trace()
        self._numbers: dict[int, int] = {}  # id of a tensor -> the number of its value
        self._kept: list[object] = []  # the tensors, since an id may be given away again
        self._replaced: dict[int, object] = {}  # id of what a probe put there -> what was made
        self._put: dict[int, int] = {}  # likewise, the number of its value -> the id of that
        self.python = PythonValues(is_models)
        self._fed: dict[int, set[Made]] = {}  # number of a call -> what Python gave it
        self._bytes = 0
        self._inside = False  # whether a call runs that is one with what it calls
        self._reads = False  # whether it is only the trace that reads a tensor

    def hear(self, name: str, own: Callable, arguments: tuple, options: dict, built: str = ""):
        """Answer a call with what it gives, and keep it.

        built  of a layer, the line that builds it
        """
        if self._inside or not self._wanted() or not (frames := self._frames()):
            return own(*arguments, **options)
        self._inside = True
        try:
            with self._looking_into(own):
                return self._kept_call(name, own, arguments, options, frames, built)
        finally:
            self._inside = False

    def _looking_into(self, function: Callable) -> AbstractContextManager:
        """Inside, the operators in one of torch's functions in Python are kept too."""
        if self.side.NAME != "torch" or not isinstance(function, FunctionType):
            return nullcontext()

        def hear_inside(name, own, arguments, options):
            if self._reads:
                return own(*arguments, **options)
            return self._kept_call(name, own, arguments, options, self._frames())

        return self.calls.heard_inside(hear_inside)

    def _kept_call(self, name, own, arguments, options, frames: list[Frame], built: str = ""):
        given = [self._number(tensor) for tensor in self._tensors([arguments, options])]
        made = own(*arguments, **options)
        written = arguments[:1] if changed(name) == (0,) else ()
        results = [self._new(self._made(tensor)) for tensor in self._tensors([written, made])]
        plain = {str(i): value for i, value in enumerate(arguments)} | options
        plain = {key: found for key, value in plain.items() if (found := _plain(value)) is not None}
        if results:
            if not given and (fed := self.python.read_now(sys._getframe(1))):
                self._fed[len(self.trace.calls)] = fed
            name = name.rpartition(".")[2]
            self.trace.calls.append(Call(name, given, results, list(frames), plain, built))
        return made

    def layer(self, own: Callable, arguments: tuple, options: dict):
        """Answer a call of a layer: of the framework's own it is kept as one."""
        module = arguments[0]
        if not self.side.of_framework(module) or self.side.is_container(module):
            return own(*arguments, **options)
        built = next((line for line, _ in makers(module)), "")
        return self.hear(type(module).__name__, own, arguments, options, built)

    @contextmanager
    def at_probes(self) -> Iterator[None]:
        """Inside, what a probe calls is not the model's; what it puts there comes from nowhere."""
        own = probes.observe

        def observe(side, session, label, value, *rest, **more):
            before, self._inside = self._inside, True
            try:
                seen = own(side, session, label, value, *rest, **more)
                if seen is not value and self._wanted():
                    self._replaced[id(seen)] = value
                    self._put[self._new(seen)] = id(value)
                return seen
            finally:
                self._inside = before

        with ExitStack() as stack:
            for module in (probes, instruments):
                stack.callback(stand_in(module, "observe", observe))
            yield

    def end(self) -> None:
        """Say in the trace what Python made, and which values probes have put in others' places."""
        numbers: dict[Made, list[int]] = {}
        for made in self.python.made.values():
            numbers[made] = [len(self.trace.values) + i for i in range(len(made.arrays()))]
            self.trace.values += made.arrays()
        for made, own in numbers.items():
            given = sorted(value for one in made.given for value in numbers[one])
            frames = [Frame(made.file, made.line, made.function)]
            self.trace.calls.append(Call(PYTHON, given, own, frames))
        for call, fed in self._fed.items():
            self.trace.calls[call].fed = sorted(value for one in fed for value in numbers[one])
        known = {value: self._numbers.get(made) for value, made in self._put.items()}
        self.trace.put = {value: made for value, made in known.items() if made is not None}

    def _wanted(self) -> bool:
        running = current().running
        return self.trace.whole and (not running or any(map(self.takes, running)))

    def _tensors(self, values) -> list[object]:
        return [leaf for _, leaf in tree_leaves(values, self.side.is_tensor)]

    def _made(self, tensor) -> object:
        """Return what a layer has made, where a probe put another value in its place."""
        while id(tensor) in self._replaced:
            tensor = self._replaced[id(tensor)]
        return tensor

    def _number(self, tensor) -> int:
        number, values = self._numbers.get(id(tensor)), self._array(tensor)
        if number is None and values.size > MOST_OF_A_LEAF:
            values = np.zeros(0)  # a large weight: it says nothing, and is much
        known = None if number is None else self.trace.values[number]
        if known is not None and (not known.size or _same(known, values)):
            return number
        return self._new(tensor, values)  # made or changed where nobody looked

    def _new(self, tensor, values: np.ndarray | None = None) -> int:
        values = self._array(tensor) if values is None else values
        self._bytes += values.nbytes
        self.trace.whole &= self._bytes <= MOST_BYTES
        self._kept.append(tensor)
        self.trace.values.append(values)
        number = self._numbers[id(tensor)] = len(self.trace.values) - 1
        if values.size and current().gradients and self.side.wants_gradient(tensor):
            tensor.register_hook(partial(self._keep_gradient, number))
        return number

    def _keep_gradient(self, number: int, gradient) -> None:
        if current().in_backward and self.trace.whole and number not in self.trace.gradients:
            self.trace.gradients[number] = kept = self._array(gradient)
            self._bytes += kept.nbytes
            self.trace.whole &= self._bytes <= MOST_BYTES

    def _array(self, tensor) -> np.ndarray:
        self._reads = True
        try:
            return np.array(self.side.array(tensor))
        except (RuntimeError, ValueError, TypeError, NotImplementedError):
            return np.zeros(0)  # sparse, or it has no memory
        finally:
            self._reads = False

    def _frames(self) -> list[Frame]:
        """Return the lines of the model that led here, the innermost first."""
        frame, found, building = sys._getframe(2), [], not current().running
        while frame is not None and len(found) < MOST_FRAMES:
            code = frame.f_code
            if code.co_filename.startswith(STEPS):
                break
            if is_models(code.co_filename):
                plain = _plain_names(frame.f_locals)
                found.append(Frame(code.co_filename, frame.f_lineno, code.co_name, plain))
            elif building and not found and "/nn/" in code.co_filename:
                return []  # a layer draws its initial values
            frame = frame.f_back
        return found


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
    """Inside, the calls of a side's functions are kept; gives the trace that they come into."""
    tracing = Tracing(side, takes)
    layers = {} if side.NAME == "torch" else {"__call__": tracing.layer}
    with tracing.at_probes(), tracing.calls.heard(tracing.hear), Intercept(side.MODULE, layers):
        with tracing.python.heard():
            yield tracing.trace
    tracing.end()
