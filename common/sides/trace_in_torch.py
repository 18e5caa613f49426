"""See every function of torch's that a model calls, and those that these call."""

from torch.overrides import TorchFunctionMode

from twincheck.common.sides.tracing import SILENT, Tracing


class Seeing(TorchFunctionMode):
    """A mode that tells a tracing of each call."""

    def __init__(self, tracing: Tracing):
        super().__init__()
        self.tracing = tracing

    def __torch_function__(self, function, types, arguments=(), options=None):
        options = options or {}
        name = getattr(function, "__name__", "")
        if name in SILENT or not name:
            return function(*arguments, **options)
        given = self.tracing.numbers([arguments, options])
        made = function(*arguments, **options)
        self.tracing.see(name, given, made, arguments, options)
        return made
