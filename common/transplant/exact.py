"""Operators of Paddle's that are inexact in float64, and their exact formulas.

Some of Paddle's operators keep a constant in float32 (LayerNorm's epsilon), or clip (cross_entropy
at -64), in float64 too.  A float64 run then differs from torch's although the port is right.  Where
that happens, this module computes such an operator from Paddle's own exact primitives, gradient
included (formulas.py), so that a second run shows whether the difference goes:

    watch   Paddle's own operator runs; how far its result is from the exact one is noted by module
    lift    the exact formula runs instead
    unclip  so it does for cross_entropy and log_softmax where logits are clipped: their gradient is
            that of the exact loss, so that it is no slope of the clipped one
    off     nothing is done: all other runs, each float32 run among them

A formula must agree with Paddle's own result to what tools/operators.py has measured of it, or it
is not used: it then does not mean the same, and the difference stays.  In a graph there are no
values to look at: it stands in wherever it is asked for.  Imported only by a Paddle worker.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np
import paddle

from twincheck.common.system.intercept import Intercept
from twincheck.common.transplant import formulas
from twincheck.common.transplant.formulas import BY_PATH, batch_norm
from twincheck.common.transplant.table import Untaken, by_name

OFF, WATCH, UPCAST, UNCLIP = "off", "watch", "upcast", "unclip"

# Beyond this part of its largest value a result is no constant's in float32: the formula is not
# that of the operator.  Interpolate's weights are the least exact, 1e-6 off.
_APART = 1e-5
# Below this part nothing is noted: the formula's own sums leave as much.
_ROUNDED = 2.0**-46
# Paddle takes no logit for more than this below the largest; only then may its result be far off.
CLIPPED_FROM = 64.0

_CLIPS = ("softmax", "log_softmax", "cross_entropy")
_COMPLEX = ("exp", "sigmoid")  # exact of real numbers
# Their values may be exact where their gradients are not, by about this much: p_norm's adds 1e-12
# to the norm; a group norm's without a weight is another function's.
_ONLY_GRADIENT = {"avg_pool": 2.0**-24, "p_norm": 1e-12, "group_norm": 0.0324}


class Exact:
    """The operators of one process: what is done with their calls, and what was noted of them.

    site      called for the module that runs now
    probing   called for whether it is looked at; later passes of the same modules are not
    """

    def __init__(self, site: Callable[[], str] = str, probing: Callable[[], bool] = lambda: True):
        self.site, self.probing = site, probing
        handles = {
            path: partial(self._answer, name, formula) for path, (name, formula) in BY_PATH.items()
        }
        handles["_C_ops.batch_norm"] = self._batch_norm  # of functions and layers, old ones too
        handles["_C_ops.batch_norm_"] = self._batch_norm_of_graph
        self.way = Intercept(paddle, handles, ("paddle.nn.", "paddle.vision."))
        self.begin(OFF)

    def begin(self, mode: str, found: dict[str, dict[str, float]] | None = None) -> None:
        """What is done from now on; what was noted is forgotten, or is this."""
        self.mode, self.way.on = mode, mode != OFF
        self.found = {} if found is None else found  # site -> operator -> how far off it was

    @contextmanager
    def doing(self, mode: str) -> Iterator[dict[str, dict[str, float]]]:
        """Inside, this is done; gives what is noted meanwhile, and puts back what was before."""
        saved = self.mode, self.found
        self.begin(mode)
        try:
            yield self.found
        finally:
            self.begin(*saved)

    def note(self, name: str, off: float, clips: bool = False) -> None:
        """Remember how far off an operator was in the module that runs; one that clips, always."""
        if off > _ROUNDED or clips:
            known = self.found.setdefault(self.site(), {})
            known[name] = max(known.get(name, 0.0), off)

    def _leaves_alone(self) -> bool:
        """True where an operator that does not clip is Paddle's own, and nothing is noted."""
        return self.mode == UNCLIP or self.mode == WATCH and not self.probing()

    @contextmanager
    def _plain(self) -> Iterator[None]:
        """Inside, every operator is Paddle's own; no gradient where results are only looked at."""
        with_graph = self.mode != WATCH and paddle.is_grad_enabled()
        with self.way.off(), paddle.set_grad_enabled(with_graph):
            yield

    def _answer(self, name: str, formula: Callable, own: Callable, arguments, options):
        """Paddle's own result or the exact one, as the mode says, once both are compared."""
        values = (*arguments, *options.values())
        if any(isinstance(value, paddle.pir.Value) for value in values):
            return self._in_graph(name, formula, own, arguments, options)
        first = next((value.dtype for value in values if isinstance(value, paddle.Tensor)), None)
        if first != (paddle.complex128 if name in _COMPLEX else paddle.float64):
            return own(*arguments, **options)
        try:
            named = by_name(own, formula, arguments, options)
            clips = name in _CLIPS and _spread(named) > CLIPPED_FROM
            if not clips and self._leaves_alone():
                return own(*arguments, **options)
            with self._plain():
                exact = formula(**named)
        except (Untaken, TypeError, ValueError, IndexError):
            exact = None
        if exact is None:
            return own(*arguments, **options)
        with self.way.off():
            kept = own(*arguments, **options)
        off = apart(kept, exact)
        if not off <= _APART and not (clips and off < np.inf):
            return kept
        self.note(name, max(off, _ONLY_GRADIENT.get(name, 0.0)), clips)
        return kept if self.mode == WATCH else exact

    def _in_graph(self, name: str, formula: Callable, own: Callable, arguments, options):
        """The exact operator in a graph, where no values are there to look at; or Paddle's own."""
        floats = [value.dtype for value in (*arguments, *options.values()) if _is_float(value)]
        if self.mode != UPCAST or name in (*_CLIPS, *_COMPLEX) or floats[:1] != [paddle.float64]:
            return own(*arguments, **options)
        try:
            with self.way.off():
                return formula(**by_name(own, formula, arguments, options))
        except Exception:  # whatever a formula asks of values
            return own(*arguments, **options)

    def _batch_norm_of_graph(self, own: Callable, arguments, options):
        """`_C_ops.batch_norm_`, which a static graph has in its place.

        Its statistics are made whole behind the graph (common/sides/batch_norm.py).
        """
        x, mean, variance, weight, bias, testing, momentum, epsilon, layout, kept_ones, trained = (
            arguments
        )
        if self.mode != UPCAST or x.dtype != paddle.float64:
            return own(*arguments)
        training = not (kept_ones or testing and not trained)
        with self.way.off():
            exact, *_ = batch_norm(x, mean, variance, weight, bias, training, epsilon, layout)
            if training:  # it moves the statistics, and gives nothing that is asked for a gradient
                still = (v if v is None else v.detach() for v in (weight, bias))
                own(x.detach(), mean, variance, *still, *arguments[5:])
        return exact, *[None] * 5

    def _batch_norm(self, own: Callable, arguments, options):
        """`_C_ops.batch_norm`, by itself: in training it also moves its statistics, in place."""
        x, mean, variance, weight, bias, testing, momentum, epsilon, layout, kept_ones, trained = (
            arguments
        )
        if self._leaves_alone() or x.dtype != paddle.float64:
            return own(*arguments)
        held = mean, variance
        training = not (kept_ones or testing and not trained)
        before = [statistic.clone() for statistic in held] if training else held
        kept, *others = own(*arguments)
        with self._plain():
            exact, *taken = batch_norm(x, *before, weight, bias, training, epsilon, layout)
        off = apart(kept, exact)
        moved = []
        if training:
            with paddle.no_grad():
                moved = [
                    momentum * old + (1.0 - momentum) * new.detach()
                    for old, new in zip(before, taken, strict=True)
                ]
            # A mean may be nothing beside the values that it is the mean of.
            spread = float(paddle.sqrt(taken[1].max())) if taken[1].size else 0.0
            off = max(off, *(apart(*pair, spread) for pair in zip(held, moved, strict=True)))
        if not off <= _APART:
            return kept, *others
        self.note("batch_norm", off)
        if self.mode != UPCAST:
            return kept, *others
        for statistic, new in zip(held, moved, strict=False):
            paddle.assign(new, output=statistic)
        return exact, *others


def _is_float(value: object) -> bool:
    kinds = (paddle.float64, paddle.float32, paddle.float16, paddle.bfloat16)
    return isinstance(value, paddle.pir.Value) and value.dtype in kinds


def lp_pool(kept, *arguments):
    """The exact result (formulas.lp_pool's arguments), or what is kept where it is another's."""
    try:
        exact = formulas.lp_pool(*arguments)
    except Untaken:
        return kept
    return exact if apart(kept, exact) <= _APART else kept


def apart(own, exact, least: float = 0.0) -> float:
    """The largest difference, as a part of the exact result's largest value, or of `least`."""
    with paddle.no_grad():
        values = (value.detach().numpy() for value in (own, exact))
        a, b = (value.astype(np.result_type(value, np.float64)) for value in values)
    if a.shape != b.shape or not (np.isfinite(a).all() and np.isfinite(b).all()):
        return np.inf
    size = max(float(np.abs(b).max(initial=0.0)), least)
    off = float(np.abs(a - b).max(initial=0.0))
    return off / size if size else (np.inf if off else 0.0)


def _spread(named) -> float:
    """How far apart the logits lie along the axis of a softmax."""
    values = named.get("x", named.get("input", named.get("logits"))).detach().numpy()
    return float(np.ptp(values, axis=named.get("axis", -1)).max(initial=0.0))
