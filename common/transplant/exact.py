"""Operators of Paddle's that are inexact in float64, and their exact formulas.

Some of Paddle's operators keep a constant in float32 (LayerNorm's epsilon), or clip (cross_entropy
at -64), in float64 too.  A float64 run then differs from torch's although the port is right.  Where
that happens, this module takes out of such an operator what its constants make, gradient included
(formulas.py), so that a second run shows whether the difference goes:

    watch   Paddle's own operator runs; how far its result and its gradients are from the exact ones
            is noted by module, and what its constants do not explain of that
    lift    to Paddle's own result is added what lies between the formula with exact constants and
            the same with those that Paddle keeps; so are the gradients of both
    unclip  so it is for cross_entropy and log_softmax where logits are clipped: their gradient is
            that of the exact loss, so that it is no slope of the clipped one
    off     nothing is done: all other runs, each float32 run among them

So an operator that is wrong stays as wrong as it is, in whatever state it is asked: only what its
constants make is as large as what is taken out.  In place of an operator that clips stands the
exact formula, and of one that has float32's accuracy of complex numbers, where Paddle's own is
shown to be that.  Imported only by a Paddle worker.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np
import paddle

from twincheck.common.system.intercept import Intercept
from twincheck.common.transplant import formulas
from twincheck.common.transplant.formulas import BY_PATH, CLIPPED_FROM, batch_norm
from twincheck.common.transplant.table import Untaken, by_name

OFF, WATCH, UPCAST, UNCLIP = "off", "watch", "upcast", "unclip"

# Below this part nothing is noted: the formula's own sums leave as much.
_ROUNDED = 2.0**-46
# Of a difference: what is left of it with the constants that Paddle keeps.  Measured of every
# operator of the table (tools/operators.py): 1e-8 at most, or what rounding leaves.
_LEFT = 1e-3
# Times how far one rounding of the operands brings the formula: what rounding leaves of both.
_ROUNDINGS = 8.0
ALONE = "gradient alone"  # of the first input that has one
_CLIPS = ("softmax", "log_softmax", "cross_entropy")
_COMPLEX = ("exp", "sigmoid")  # exact of real numbers
# inexact or wrong -> site -> operator -> how far off it is; of a wrong one by part
Noted = dict[str, dict[str, dict]]


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
        handles["grad"] = self._asked_alone
        handles["_C_ops.batch_norm"] = self._batch_norm  # of functions and layers, old ones too
        handles["_C_ops.batch_norm_"] = self._batch_norm_of_graph
        self.way = Intercept(paddle, handles, ("paddle.nn.", "paddle.vision."))
        self.begin(OFF)

    def begin(self, mode: str, noted: Noted | None = None) -> None:
        """Set what is done from now on; what was noted is forgotten, or is this."""
        self.mode, self.way.on = mode, mode != OFF
        self.noted = {"inexact": {}, "wrong": {}} if noted is None else noted
        # What is wrong where `paddle.grad` asks for a gradient of an operator's first input alone.
        self._alone: list[tuple[str, str, float]] = []

    @contextmanager
    def doing(self, mode: str) -> Iterator[Noted]:
        """Inside, this is done; gives what is noted meanwhile, and puts back what was before."""
        saved = self.mode, self.noted
        self.begin(mode)
        try:
            yield self.noted
        finally:
            self.begin(*saved)

    def note(self, name: str, off: float, clips: bool = False) -> None:
        """Remember how far off an operator was in the module that runs; one that clips, always."""
        if off > _ROUNDED or clips:
            known = self.noted["inexact"].setdefault(self.site(), {})
            known[name] = max(known.get(name, 0.0), off)

    def _leaves_alone(self) -> bool:
        """True where an operator that does not clip is Paddle's own, and nothing is noted."""
        return self.mode == UNCLIP or self.mode == WATCH and not self.probing()

    def _answer(self, name: str, formula: Callable, own: Callable, arguments, options):
        """Return Paddle's own result, or the exact one, as the mode says."""
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
            whole = clips or name in formulas.IN_FLOAT32
            if self.mode == WATCH or whole:

                def exact(arguments, options):
                    return formula(**by_name(own, formula, arguments, options))

                def kept(arguments, options):
                    return own(*arguments, **options)

                size = formulas.IN_FLOAT32.get(name, lambda **_: 0.0)(**named)
                try:
                    fits = self._compare(name, kept, exact, (arguments, options), size, clips)
                except RuntimeError:  # a gradient that Paddle does not compute in this state
                    fits = False
                if self.mode == WATCH or not fits:
                    return own(*arguments, **options)
            with self.way.off():
                if whole:
                    return formula(**named)
                return self._lifted(name, own(*arguments, **options), partial(formula, **named))
        except (Untaken, TypeError, ValueError, IndexError):
            return own(*arguments, **options)

    def _compare(
        self, name: str, own: Callable, exact: Callable, given, size=0.0, clips=False
    ) -> bool:
        """Note how far off an operator is; returns whether its constants explain all of it.

        own, exact   functions of what is given, whose tensors are copies
        size         what float32's roundings explain, as a part of the largest value
        """
        with self.way.off():
            mine, precise = (_parts(run, given) for run in (own, exact))
            with formulas.as_kept():
                kept = _parts(exact, given)
                rounded: dict[str, object] = {}
                for part, own_part in mine.items():
                    # A softmax's gradient is a difference of terms as large as what arrives.
                    least = 1.0 if clips and part != "result" else 0.0
                    off, left = (apart(own_part, other[part], least) for other in (precise, kept))
                    if not (off < np.inf and left < np.inf):
                        return False  # a score of -inf
                    if left > max(_LEFT * off, _ROUNDED, size):
                        rounded = rounded or _parts(exact, given, moved=True)
                        if left > _ROUNDINGS * apart(rounded[part], kept[part]):
                            self._note_wrong(name, part, off)
                            return False
                    self.note(name, off, clips)
        return True

    def _note_wrong(self, name: str, part: str, off: float) -> None:
        """Remember what an operator computes otherwise than its definition has it."""
        if part == ALONE:
            self._alone.append((self.site(), name, off))
            return
        known = self.noted["wrong"].setdefault(self.site(), {}).setdefault(name, {})
        part = part.partition(" ")[0]
        known[part] = max(known.get(part, 0.0), off)

    def _asked_alone(self, own: Callable, arguments, options):
        """`paddle.grad`, which need not ask for the gradients of weights."""
        for site, name, off in self._alone:
            self.noted["wrong"].setdefault(site, {}).setdefault(name, {})["gradient"] = off
        self._alone.clear()
        return own(*arguments, **options)

    def _lifted(self, name: str, own, formula: Callable):
        """Add to Paddle's own result, and to its gradients, what its constants leave out."""
        more = formulas.left_out(name, formula)
        if isinstance(own, paddle.Tensor):
            with paddle.no_grad():
                sizes = (value.abs().max() if value.size else 0.0 for value in (more, own))
                most, size = map(float, sizes)
            if not most + size < np.inf or most and not size:
                return own
            self.note(name, most / size if size else 0.0)
        return own + more

    def _in_graph(self, name: str, formula: Callable, own: Callable, arguments, options):
        """The exact operator in a graph, where no values are there to look at; or Paddle's own."""
        kept = own(*arguments, **options)
        floats = [value.dtype for value in (*arguments, *options.values()) if _is_float(value)]
        if self.mode != UPCAST or name in (*_CLIPS, *_COMPLEX) or floats[:1] != [paddle.float64]:
            return kept
        try:
            with self.way.off():
                exact = partial(formula, **by_name(own, formula, arguments, options))
                if name in formulas.IN_FLOAT32:  # no formula has Paddle's own float32
                    return exact()
                return self._lifted(name, kept, exact)
        except Exception:  # whatever a formula asks of values
            return kept

    def _batch_norm_of_graph(self, own: Callable, arguments, options):
        """`_C_ops.batch_norm_`, which a static graph has in its place.

        Its statistics are made whole behind the graph (common/sides/batch_norm.py).
        """
        x, mean, variance, weight, bias, testing, momentum, epsilon, layout, kept_ones, trained = (
            arguments
        )
        kept, *others = own(*arguments)
        if self.mode != UPCAST or x.dtype != paddle.float64:
            return kept, *others
        training = not (kept_ones or testing and not trained)
        given = x, mean, variance, weight, bias, training, epsilon, layout
        with self.way.off():
            return self._lifted("batch_norm", kept, lambda: batch_norm(*given)[0]), *others

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

        def exact(x, weight, bias):
            return batch_norm(x, *before, weight, bias, training, epsilon, layout)

        def moved(taken):
            """The statistics after a batch that has these."""
            share = formulas.constant(momentum)
            with paddle.no_grad():
                pairs = zip(before, taken, strict=True)
                return [share * old + (1.0 - share) * new for old, new in pairs]

        def kept(given, _):
            statistics = (statistic.clone() for statistic in before)
            return own(given[0], *statistics, *given[1:], *arguments[5:])[0]

        if self.mode == WATCH:
            of_it = (x, weight, bias), {}
            self._compare("batch_norm", kept, lambda given, _: exact(*given)[0], of_it)
        if self.mode != WATCH and training:  # a gradient keeps what it writes into as it was then
            held = [statistic.clone() for statistic in before]
        result, *others = own(x, *held, *arguments[3:])
        with self.way.off():
            precise, rounded, taken = [], [], []

            def formula():
                found, *taken[:] = exact(x, weight, bias)
                return found

            if self.mode != WATCH:
                result = self._lifted("batch_norm", result, formula)
            elif training:
                with paddle.no_grad():
                    formula()
            if training:
                with formulas.as_kept():
                    rounded = moved(taken)
                precise = moved(taken)
                # A mean may be nothing beside the values that it is the mean of.
                spread = float(paddle.sqrt(precise[1].max())) if precise[1].size else 0.0
                offs = [apart(*pair, spread) for pair in zip(rounded, precise, strict=True)]
                self.note("batch_norm", max(offs))
            if self.mode == WATCH:
                return result, *others
            for number, (one, other) in enumerate(zip(precise, rounded, strict=True)):
                paddle.assign(held[number] + (one - other), output=(mean, variance)[number])
            return result, *others


def _parts(run: Callable, given, moved: bool = False) -> dict[str, object]:
    """Return the result of a function of copies, and its gradients with respect to them, by name.

    moved   the copies' values are moved by one rounding each
    """
    rng, wanted = np.random.default_rng(0), []

    def copied(value):
        if not isinstance(value, paddle.Tensor):
            return value
        copy = value.detach()
        if moved and copy.is_floating_point():
            amounts = 1.0 + rng.choice((-(2.0**-53), 2.0**-52), tuple(copy.shape))
            copy = copy * paddle.to_tensor(amounts)
        copy.stop_gradient = value.stop_gradient
        if not copy.stop_gradient:
            wanted.append(copy)
        return copy

    arguments, options = given
    arguments = tuple(map(copied, arguments))
    result = run(arguments, {name: copied(value) for name, value in options.items()})
    parts = {"result": result}
    if not wanted or result.stop_gradient:
        return parts
    drawn = np.random.default_rng(1).normal(size=(2, *result.shape))
    drawn = drawn[0] + 1j * drawn[1] if result.is_complex() else drawn[0]
    drawn = paddle.to_tensor(drawn, dtype=result.dtype)
    every = [f"gradient {number}" for number in range(len(wanted))]
    for names, some in ((every, wanted), ([ALONE], wanted[:1]))[: len(wanted)]:
        found = paddle.grad(result, some, drawn, retain_graph=True, allow_unused=True)
        parts |= zip(names, found, strict=True)
    return parts


def _is_float(value: object) -> bool:
    kinds = (paddle.float64, paddle.float32, paddle.float16, paddle.bfloat16)
    return isinstance(value, paddle.pir.Value) and value.dtype in kinds


def lp_pool(kept, *arguments):
    """The exact result (formulas.lp_pool's arguments), or what is kept where it is another's."""
    try:
        exact = formulas.lp_pool(*arguments)
    except Untaken:
        return kept
    return exact if apart(kept, exact) <= formulas.POWERS_APART else kept


def apart(own, exact, least: float = 0.0) -> float:
    """The largest difference, as a part of the exact result's largest value, or of `least`.

    None stands for zeros.
    """
    zeros = next((np.zeros(value.shape) for value in (own, exact) if value is not None), 0.0)
    with paddle.no_grad():
        values = (zeros if value is None else value.detach().numpy() for value in (own, exact))
        a, b = (value.astype(np.result_type(value, np.float64)) for value in values)
    if a.shape != b.shape or not (np.isfinite(a).all() and np.isfinite(b).all()):
        return np.inf
    size = max(float(np.abs(b).max(initial=0.0)), least)
    off = float(np.abs(a - b).max(initial=0.0))
    return off / size if size else (np.inf if off else 0.0)


def _spread(named) -> float:
    """Return how far apart the logits lie, at most, along the axis of a softmax."""
    values = named.get("x", named.get("input", named.get("logits"))).detach().numpy()
    return float(np.ptp(values, axis=named.get("axis", -1)).max(initial=0.0))
