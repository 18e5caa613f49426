"""A model's own casts to float32, upcast.

    patch(side)           once in a process, before a model's file is imported

Many models compute a part in float32 whatever they run in: a norm, a softmax, rotary tables.  In
the float64 run such a part would have float32's noise, and nothing behind it could be compared
better than in float32.  While `upcasting`, a cast to a narrower float is one to float64, and
a tensor that would be made in a narrower float is made in float64; a float32 run stays as it is.
Complex numbers likewise.  Integers, booleans and the reinterpretation of bits are left alone.

All that can make a narrow float is replaced: what is asked for a dtype, what is called after one,
what takes the dtype of NumPy's data (backend_torch.py, backend_paddle.py).  The rest of the
framework keeps its own functions, and its speed.

What NumPy computes in float32 is float32: only the tensor made of it is wide.
"""

import functools
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from twincheck.common.sides.places import line_of_model, of_framework_file
from twincheck.common.sides.session import current
from twincheck.common.system.hashes import arrays_sha256
from twincheck.common.system.intercept import Handle, Intercept
from twincheck.common.system.reasons import Kind


@dataclass
class Upcast:
    """The upcasting of this process: whether it is on, and what it has upcast."""

    on: bool = False
    # file:line of the model -> what stands there ("float64 to float32") -> calls
    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    # What `functools.lru_cache` made since `patch`: a table in it has a precision.
    caches: weakref.WeakSet = field(default_factory=weakref.WeakSet)
    # Stands before a framework's functions, and is on while upcasting.
    always: list[Intercept] = field(default_factory=list)
    swapped: list[Intercept] = field(
        default_factory=list
    )  # is put and taken away: what is called too often


_upcast = Upcast()


@contextmanager
def upcasting(wanted: bool) -> Iterator[dict[str, dict[str, int]]]:
    """Upcast inside, if `wanted`; gives the counts, which fill up."""
    saved, _upcast.counts = (_upcast.on, _upcast.counts), {}
    try:
        _switch(wanted)
        yield _upcast.counts
    finally:
        _switch(saved[0])
        _upcast.counts = saved[1]


def _switch(on: bool) -> None:
    if on == _upcast.on:
        return
    for made in list(_upcast.caches):  # a table made in one precision is of no use in another
        made.cache_clear()
    _upcast.on = on
    for way in _upcast.always:
        way.on = on
    for way in _upcast.swapped:
        way.put() if on else way.take_away()


def wanted() -> bool:
    """Return whether casts are upcast now."""
    return _upcast.on


def note(what: str) -> None:
    """Add a call to the innermost line of the model; the workbench's own are not counted."""
    line = line_of_model()
    if line:
        calls = _upcast.counts.setdefault(line, {})
        calls[what] = calls.get(what, 0) + 1


def note_table(side, tensor) -> None:
    """Note for the sidecar what NumPy has made in float32: a port may have it in float64."""
    line = line_of_model() if current().tables is None else ""
    if line and (values := side.array(tensor)).size > 1:
        current().seen.tables[digest_of(values)] = line


def digest_of(table: np.ndarray) -> str:
    """Return the hash of a table's numbers in float32, whatever axes it has."""
    return arrays_sha256({"": table.astype(np.float32).reshape(-1)})


@functools.cache
def patch(side) -> None:
    """Stand before all that can make a narrow float; it does nothing until it is wanted."""
    _watch_caches()
    spelling = Spelling(side)
    handles: dict[str, Handle] = {}
    for names, handle in (
        (side.ASKED_FOR_DTYPE, spelling.asked_for),
        (side.FROM_DATA, spelling.from_data),
    ):
        handles |= {f"{owner}{name}": handle for owner in ("", "Tensor.") for name in names}
    for name, dtype in side.CALLED_AFTER_DTYPE.items():
        handles[f"Tensor.{name}"] = functools.partial(spelling.by_name, dtype)
    more, swapped = side.narrow_by_itself(spelling)
    _upcast.always.append(Intercept(side.lib, handles | more, on=False))
    _upcast.always[-1].put()
    _upcast.swapped.append(Intercept(side.lib, swapped))


def _watch_caches() -> None:
    """Know what `functools.lru_cache` and `functools.cache` make from now on."""
    own = functools.lru_cache
    if hasattr(own, "watched"):
        return

    def lru_cache(maxsize=128, typed=False):
        if callable(maxsize):
            return watched(own(maxsize))
        return lambda function: watched(own(maxsize, typed)(function))

    def watched(made):
        code = getattr(made.__wrapped__, "__code__", None)
        if code is not None and not of_framework_file(code.co_filename):
            _upcast.caches.add(made)
        return made

    functools.lru_cache = functools.wraps(own)(lru_cache)
    functools.lru_cache.watched = True
    functools.cache = functools.wraps(functools.cache)(lambda function: lru_cache(None)(function))


class Spelling:
    """A framework's spelling of dtypes, and the handlers of its functions while upcasting."""

    def __init__(self, side):
        self.side, self.wide = side, side.WIDE
        self.kinds = frozenset(map(type, self.wide))

    def asked_for(self, own: Callable, arguments, options):
        """A narrow dtype that it is asked for becomes a wide one."""
        for value in (*arguments, *options.values()):
            if type(value) in self.kinds and value in self.wide:
                note(self._told(value, arguments))
                arguments = [self._wide(value) for value in arguments]
                options = {name: self._wide(value) for name, value in options.items()}
                break
        return own(*arguments, **options)

    def from_data(self, own: Callable, arguments, options):
        """Make a tensor as `asked_for` does, of data whose own dtype may be narrow, as NumPy's."""
        made = self.asked_for(own, arguments, options)
        if not self._is_narrow(made):
            return made
        note(_words(_name(made.dtype)))
        note_table(self.side, made)
        leaf = self._widened(made.detach())
        self.side.want_gradient(leaf, self.side.wants_gradient(made))
        return leaf

    def result(self, own: Callable, arguments, options):
        """Widen the result of a function that makes it narrow whatever it gets."""
        made = own(*arguments, **options)
        if not self._is_narrow(made):
            return made
        note(self._told(made.dtype, arguments))
        return self._widened(made)

    def of_integers(self, own: Callable, arguments, options):
        """Give wide floats for its integers to a function that makes narrow floats of them."""
        made = own(*arguments, **options)
        if not self._is_narrow(made):
            return made
        note(self._told(made.dtype, arguments))
        options = {name: self._widened(value) for name, value in options.items()}
        return own(*map(self._widened, arguments), **options)

    def by_name(self, narrow: object, own: Callable, arguments, options):
        """A method whose name says the narrow dtype that it casts to, like `float`."""
        note(self._told(narrow, arguments))
        return self.side.cast(arguments[0], self.wide[narrow])

    def _is_narrow(self, value: object) -> bool:
        return self.side.is_tensor(value) and value.dtype in self.wide

    def _wide(self, value: object) -> object:
        return self.wide.get(value, value) if type(value) in self.kinds else value

    def _widened(self, value: object) -> object:
        """A tensor of integers or narrow floats as wide floats; else the value."""
        if not self.side.is_tensor(value):
            return value
        return self.side.cast(value, self.wide.get(value.dtype, self.side.lib.float64))

    def _told(self, narrow: object, arguments: Sequence[object]) -> str:
        """Return what a call would have made, in words for the sidecar."""
        first = arguments[0] if arguments else None
        return _words(_name(narrow), _name(first.dtype) if self.side.is_tensor(first) else "")


@functools.cache  # one a call of the model's, and few that differ
def _words(narrow: str, dtype: str = "") -> str:
    return Kind.CAST_TO(dtype=dtype, narrow=narrow) if dtype else Kind.MADE_IN(narrow=narrow)


def _name(dtype: object) -> str:
    """A dtype's plain name: float32."""
    return getattr(dtype, "__name__", str(dtype)).rpartition(".")[2]
