"""Discrete choices of any model, in the ledger.

    patch(side)   once in a process, before a model's file is imported

A model's own argmax, argmin, topk, sort and argsort of floats are then recorded with their scores
and margins, and go on with the reference's choice, as if the model had called `choose`
(common/verdict/choices.py says why).  Each has the name of the module that runs: `encoder.topk`.
What only one side calls is passed over: its results are judged where they are used.
"""

from functools import cache, partial

from twincheck.common.logs.sidecar import CHOICE
from twincheck.common.sides.instruments import enter_choice
from twincheck.common.sides.session import current
from twincheck.common.system.aliases import under_its_names
from twincheck.common.system.intercept import Intercept


@cache
def patch(side):
    """Put the ledger before a framework's functions and its tensors' methods."""
    choices = _Choices(side)
    handles = {}
    for name in choices.original:
        # Their arguments have Paddle's names, under torch's too.
        handle = under_its_names(getattr(choices, name), "paddle")
        handles |= {name: handle, f"Tensor.{name}": handle}
    Intercept(side.lib, handles).put()


class _Choices:
    """The handlers that stand before a side's functions, and the functions that stood there."""

    def __init__(self, side):
        self.side = side
        names = ("argmax", "argmin", "topk", "argsort", "sort")
        self.original = {name: getattr(side.lib, name) for name in names}

    def _watched(self, value):
        """True where a choice among these values can depend on rounding, and is looked at."""
        session = current()
        watched = session.record is not None or session.forced is not None
        watched = watched and not session.is_graph
        return watched and self.side.is_float(value) and value.ndim > 0 and 0 not in value.shape

    def _settled(self, kind, scores, choice, axis, sign=1.0):
        """Enter a choice in the ledger; what to go on with.

        The choice's own axis, where it has one, is the scores' `axis`, here and in what comes back.
        """
        site, enter = current().site_of_draw(), partial(enter_choice, self.side)
        label = current().label(f"{site}.{kind}" if site else kind)
        scores = (scores.detach() * sign).moveaxis(axis, -1)
        if choice.ndim < scores.ndim:
            return enter(label, scores, choice, CHOICE)
        return enter(label, scores, choice.moveaxis(axis, -1), CHOICE).moveaxis(-1, axis)

    # ---- the functions: x is a tensor, `rest` what one framework alone takes -------------------

    def argmax(self, x, axis=None, keepdim=False, dtype=None, **rest):
        return self._extreme("argmax", 1.0, x, axis, keepdim, dtype, rest)

    def argmin(self, x, axis=None, keepdim=False, dtype=None, **rest):
        return self._extreme("argmin", -1.0, x, axis, keepdim, dtype, rest)

    def _extreme(self, kind, sign, value, axis, keepdim, dtype, rest):
        """An argmax (sign 1) or argmin (sign -1)."""
        if dtype is not None:
            found = self._extreme(kind, sign, value, axis, keepdim, None, rest)
            return self.side.cast(found, dtype)
        if rest or not self._watched(value):
            return self.original[kind](value, axis, keepdim, **rest)
        if axis is None:  # of all values
            choice = self._extreme(kind, sign, value.reshape([-1]), 0, False, None, {})
            return choice.reshape([1] * value.ndim) if keepdim else choice
        choice = self._settled(kind, value, self.original[kind](value, axis), axis, sign)
        return choice.unsqueeze(axis) if keepdim else choice

    def topk(self, x, k, axis=None, largest=True, sorted=True, **rest):
        axis = -1 if axis is None else axis
        plain = self.original["topk"](x, k, axis, largest, sorted, **rest)
        if rest or not self._watched(x):
            return plain
        values, choice = plain
        if not sorted:  # an order all the same, so that two can be compared
            order = self._order("argsort", values, axis, largest)
            choice = self.side.take_along(choice, order, axis)
        choice = self._settled("topk", x, choice, axis, 1.0 if largest else -1.0)
        return _like(plain, self.side.take_along(x, choice, axis), choice)

    def argsort(self, x, axis=-1, descending=False, stable=False, **rest):
        choice = self._order("argsort", x, axis, descending, stable, rest)
        if rest or not self._watched(x):
            return choice
        return self._settled("argsort", x, choice, axis, 1.0 if descending else -1.0)

    def sort(self, x, axis=-1, descending=False, stable=False, **rest):
        plain = self._order("sort", x, axis, descending, stable, rest)
        # Paddle's has no indices.
        if rest or not self._watched(x) or self.side.is_tensor(plain):
            return plain
        choice = self._settled("argsort", x, plain[1], axis, 1.0 if descending else -1.0)
        return _like(plain, self.side.take_along(x, choice, axis), choice)

    def _order(self, kind, value, axis, descending, stable=False, rest=()):
        also = {"stable": True} if stable else {}  # Paddle 2.6 does not know it
        also |= {self.side.AXIS: axis, "descending": descending, **dict(rest)}
        return self.original[kind](value, **also)


def _like(plain, *parts):
    """The parts as the framework returned them: a named tuple, or any."""
    return getattr(plain, "_make", type(plain))(parts)
