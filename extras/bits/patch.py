"""Op transplant: a Paddle worker in which torch computes some operators, gradients included.

A transplanted call gives the same bits as the torch worker's where its inputs are the same: tensors
are shared through DLPack, without a copy.  Beside each call Paddle's own operator runs on the same
inputs, and the calls whose bits differ are counted: an operator that never differs needs no
transplant.  The two logs are then not independent, and the sidecar says so.

Imported only by a Paddle worker that transplants, since it imports torch.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial

import numpy as np
import paddle
import torch
from paddle.utils import dlpack

from twincheck.common.system.intercept import Intercept
from twincheck.common.system.tree import tree_leaves, tree_map
from twincheck.common.transplant.table import Untaken, by_name
from twincheck.extras.bits import Kind
from twincheck.extras.bits.operators import TABLE


@dataclass
class Tally:
    """The calls of one operator, counted."""

    calls: int = 0
    differed: int = 0  # calls for which Paddle's own result has other bits
    gradients: int = 0  # calls of its gradient
    gradients_differed: int = 0
    largest: float = 0.0  # of |Paddle's - torch's|, over the largest |torch's| of that call
    where: str = ""  # the module that ran when it first differed
    untaken: dict[str, int] = field(default_factory=dict)  # why Paddle's own ran instead -> calls


class Transplant:
    """The operators of extras/bits/operators.py that torch computes in this process."""

    def __init__(
        self,
        names: Sequence[str],
        running: Callable[[], str] = str,
        upcast: Callable[[], bool] = bool,
    ):
        """`running` says which module of the model runs now, `upcast` whether casts to float32 or
        less are casts to float64 now."""
        self.names = list(names)
        self.running, self.upcast = running, upcast
        self.compare = True  # run Paddle's own beside it
        self.tally: dict[str, Tally] = {}
        handles = {
            path: partial(self._answer, name, function)
            for name in self.names
            for path, function in TABLE[name].items()
        }
        # Some of Paddle's layers have imported a function by its name.
        self.way = Intercept(paddle, handles, ("paddle.nn.layer.",))
        if os.environ.get("OMP_NUM_THREADS", "").isdecimal():
            torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))  # as in the torch worker

    def take_counts(self) -> dict[str, dict]:
        """Operator -> its tally since the last call of this; for the sidecar."""
        counts = {name: asdict(tally) for name, tally in self.tally.items()}
        self.tally.clear()
        return counts

    def _answer(self, name: str, function: Callable, own: Callable, arguments, options):
        passed = [list(arguments), options]
        tensors = [value for _, value in tree_leaves(passed, paddle.is_tensor)]
        if not any(value.is_floating_point() for value in tensors):
            return own(*arguments, **options)
        tally = self.tally.setdefault(name, Tally())
        try:
            call = _Call(self, name, own, function, passed, tensors, tally)
            with self.way.off():
                return call.run()
        except (Untaken, TypeError, ValueError, RuntimeError, IndexError) as error:
            kind = "" if isinstance(error, Untaken) else f"{type(error).__name__}: "
            reason = f"{kind}{error}".splitlines()[0][:100]
            tally.untaken[reason] = tally.untaken.get(reason, 0) + 1
        return own(*arguments, **options)


class _Call:
    """One call of one operator.

    passed   [arguments, options] as the caller wrote them
    tensors  Paddle's tensors among them, in order
    """

    def __init__(self, transplant, name, own, function, passed, tensors, tally: Tally):
        if any(0 in value.shape for value in tensors):
            raise Untaken(Kind.UNTAKEN_EMPTY())
        self.transplant = transplant
        self.own, self.function = own, function
        self.name, self.passed, self.tensors, self.tally = name, passed, tensors, tally
        with_graph = paddle.is_grad_enabled()
        self.wanted = [
            with_graph and value.is_floating_point() and not value.stop_gradient
            for value in tensors
        ]

    def run(self):
        """The outputs as tensors of Paddle, in its graph where a gradient is wanted."""
        self.inputs = [
            _to_torch(value).requires_grad_(wanted)
            for value, wanted in zip(self.tensors, self.wanted, strict=True)
        ]
        with torch.set_grad_enabled(any(self.wanted)):
            outputs = self._by_torch(*self._filled(self.inputs))
        several = isinstance(outputs, tuple)
        self.outputs = outputs if several else (outputs,)
        if any(value.requires_grad for value in self.outputs):
            wanted = zip(self.tensors, self.wanted, strict=True)
            shown = _Transplanted.apply(self, *(value for value, want in wanted if want))
        else:
            shown = self.shown()
        self.tally.calls += 1
        if self.transplant.compare:
            with paddle.no_grad():
                own = self.by_paddle([value.detach() for value in self.tensors])
            self.count(shown, own, "differed")
        return shown if several else shown[0]

    def shown(self) -> tuple:
        """torch's outputs as tensors of Paddle."""
        return tuple(_to_paddle(value, self.inputs) for value in self.outputs)

    def by_paddle(self, tensors) -> tuple:
        """The outputs of Paddle's own operator for these tensors of Paddle."""
        arguments, options = self._filled(tensors)
        outputs = self.own(*arguments, **options)
        return tuple(outputs) if isinstance(outputs, tuple | list) else (outputs,)

    def gradients(self, of_outputs) -> list:
        """torch's gradients at the inputs that want one, as tensors of Paddle.

        of_outputs   Paddle's gradients at the outputs
        """
        pairs = [
            (output, _to_torch(gradient))
            for output, gradient in zip(self.outputs, of_outputs, strict=True)
            if output.requires_grad
        ]
        outputs, weights = zip(*pairs, strict=True)
        inputs = [value for value in self.inputs if value.requires_grad]
        gradients = torch.autograd.grad(
            outputs, inputs, weights, retain_graph=True, allow_unused=True
        )
        self.tally.gradients += 1
        return [
            _to_paddle(torch.zeros_like(value) if gradient is None else gradient, weights)
            for value, gradient in zip(inputs, gradients, strict=True)
        ]

    def gradients_by_paddle(self, of_outputs) -> list:
        """Return the gradients by Paddle's own operator; None at an input it does not reach."""
        tensors = [value.detach() for value in self.tensors]
        for value, wanted in zip(tensors, self.wanted, strict=True):
            value.stop_gradient = not wanted
        with paddle.enable_grad(), self.transplant.way.off():
            outputs = self.by_paddle(tensors)
        pairs = [
            (output, gradient)
            for output, gradient in zip(outputs, of_outputs, strict=True)
            if not output.stop_gradient
        ]
        if pairs:
            # The leaves were made here, so no other tensor's .grad changes.
            paddle.autograd.backward(*(list(values) for values in zip(*pairs, strict=True)))
        return [value.grad for value in tensors if not value.stop_gradient]

    def count(self, taken, own, entry: str) -> None:
        """Add one to an entry of the tally where torch's results and Paddle's own differ."""
        pairs = [pair for pair in zip(taken, own, strict=True) if pair[1] is not None]
        off = _apart(pairs) if pairs else 0.0
        if off:
            tally = self.tally
            if not tally.largest:
                tally.where = self.transplant.running()
            setattr(tally, entry, getattr(tally, entry) + 1)
            tally.largest = max(tally.largest, off)

    def _filled(self, tensors) -> list:
        """[arguments, options] with other tensors instead of the caller's."""
        following = iter(tensors)
        return tree_map(self.passed, lambda path, value: next(following), paddle.is_tensor)

    def _by_torch(self, arguments, options):
        """The result of torch's function; raises Untaken for arguments that it does not take."""
        named = by_name(self.own, self.function, arguments, options)
        if named.get("dtype") is not None:
            named["dtype"] = getattr(torch, str(named["dtype"]).replace("paddle.", ""))
            if self.transplant.upcast() and named["dtype"] in _NARROW:
                named["dtype"] = torch.float64
        return self.function(**named)


class _Transplanted(paddle.autograd.PyLayer):
    """A call that torch has computed, in Paddle's graph."""

    @staticmethod
    def forward(ctx, call, *tensors):
        ctx.call = call
        shown = call.shown()
        ctx.mark_non_differentiable(*(v for v in shown if not v.is_floating_point()))
        return shown

    @staticmethod
    def backward(ctx, *of_outputs):
        gradients = ctx.call.gradients(of_outputs)
        if ctx.call.transplant.compare:
            own = ctx.call.gradients_by_paddle(of_outputs)
            ctx.call.count(gradients, own, "gradients_differed")
        return tuple(gradients)


_NARROW = (torch.float32, torch.float16, torch.bfloat16)


def _to_torch(value) -> torch.Tensor:
    return torch.utils.dlpack.from_dlpack(dlpack.to_dlpack(value.detach()))


def _to_paddle(value: torch.Tensor, lent: Sequence[torch.Tensor]) -> paddle.Tensor:
    """A result of torch as a tensor of Paddle; `lent` are the tensors that Paddle lent to torch."""
    value = value.detach()
    # Elements that share memory, as expand leaves them, could not be written to one by one.
    if any(step == 0 and size > 1 for step, size in zip(value.stride(), value.shape, strict=True)):
        value = value.contiguous()
    # Paddle 3.3.1 hangs when memory that it lent comes back to it and is then freed.
    own = {other.untyped_storage().data_ptr() for other in lent}
    if value.untyped_storage().data_ptr() in own:
        value = value.clone()
    return dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(value))


def _apart(pairs) -> float:
    """The largest difference of a call's results, over torch's largest value.

    0 where all are equal.  Over all results together, since one may be nothing but rounding, as
    the gradient of a bias that a softmax behind it cancels.
    """
    arrays = [[v.detach().numpy() for v in pair] for pair in pairs]
    taken, own = (
        np.concatenate([np.asarray(v, np.float64).ravel() for v in values])
        for values in zip(*arrays, strict=True)
    )
    if np.array_equal(taken, own, equal_nan=True):
        return 0.0
    off = float(np.nanmax(np.abs(taken - own), initial=0.0))
    size = float(np.nanmax(np.abs(taken), initial=0.0))
    return off / size if np.isfinite(off) and 0.0 < size < np.inf else 1.0
