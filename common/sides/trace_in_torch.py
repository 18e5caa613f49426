"""See every function of torch's that a model calls, and the operators inside those in Python."""

from types import FunctionType

from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from twincheck.common.sides.tracing import Tracing, is_silent


class Seeing(TorchFunctionMode):
    """A mode that tells a tracing of each call."""

    def __init__(self, tracing: Tracing):
        super().__init__()
        self.tracing, self._inside = tracing, _Inside(tracing)

    def __torch_function__(self, function, types, arguments=(), options=None):
        options = options or {}
        name = getattr(function, "__name__", "")
        if is_silent(name):
            return function(*arguments, **options)
        given = self.tracing.numbers([arguments, options])
        if isinstance(function, FunctionType):  # what it calls is seen by operators alone
            with self._inside:
                made = function(*arguments, **options)
        else:
            made = function(*arguments, **options)
        self.tracing.see(name, given, made, arguments, options)
        return made


class _Inside(TorchDispatchMode):
    """A mode that tells a tracing of each operator."""

    def __init__(self, tracing: Tracing):
        super().__init__()
        self.tracing = tracing

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        options = options or {}
        given = self.tracing.numbers([arguments, options])
        made = function(*arguments, **options)
        self.tracing.see(function.overloadpacket.__name__, given, made, arguments, options)
        return made
