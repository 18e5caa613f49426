"""A model's own casts to float32, lifted; lift_patch.py puts this behind a framework.

Many models compute a part in float32 whatever they run in: a norm, a softmax, rotary tables.  In
the float64 run such a part would have float32's noise, and nothing behind it could be compared
better than in float32.  While `lifting`, a cast to a narrower float is one to float64 instead, and
a tensor that would be made in a narrower float is made in float64; a float32 run stays as it is.
Complex numbers likewise.  Integers, booleans and the reinterpretation of bits are left alone.

What NumPy computes in float32 is float32: only the tensor made of it is wide.
"""

import functools
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from common.sides.places import line_of_model, of_framework_file


@dataclass
class Lift:
    """Whether this process lifts, and what it has lifted.

    counts   file:line of the model -> what stands there ("float64 to float32") -> calls
    caches   what `functools.lru_cache` made since `watch_caches`: a table in it has a precision
    swapped  (owner, name, instead) of the methods that are replaced while lifting, not for good
    """

    on: bool = False
    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    caches: weakref.WeakSet = field(default_factory=weakref.WeakSet)
    swapped: list[tuple[object, str, Callable]] = field(default_factory=list)

    def count(self, what: str) -> None:
        """Add a call to the innermost line of the model; the workbench's own are not counted."""
        line = line_of_model()
        if line:
            calls = self.counts.setdefault(line, {})
            calls[what] = calls.get(what, 0) + 1


_lift = Lift()


@contextmanager
def lifting(wanted: bool) -> Iterator[dict[str, dict[str, int]]]:
    """Lift inside, if `wanted`; gives the counts, which fill up."""
    saved = _lift.on, _lift.counts
    _lift.on, _lift.counts = wanted, {}
    originals = [(owner, name, getattr(owner, name)) for owner, name, _ in _lift.swapped]
    try:
        if wanted != saved[0]:
            _forget_tables()
        for owner, name, instead in _lift.swapped if wanted else ():
            setattr(owner, name, instead)
        yield _lift.counts
    finally:
        if wanted != saved[0]:
            _forget_tables()
        for owner, name, original in originals if wanted else ():
            setattr(owner, name, original)
        _lift.on, _lift.counts = saved


def wanted() -> bool:
    """Whether casts are lifted now."""
    return _lift.on


def note(what: str) -> None:
    """Count what has been lifted elsewhere, under the line of the model that led here."""
    _lift.count(what)


def _forget_tables() -> None:
    """Empty the models' caches: a table that was made in one precision is of no use in another."""
    for made in list(_lift.caches):
        made.cache_clear()


def watch_caches() -> None:
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
            _lift.caches.add(made)
        return made

    functools.lru_cache = functools.wraps(own)(lru_cache)
    functools.lru_cache.watched = True
    functools.cache = functools.wraps(functools.cache)(lambda function: lru_cache(None)(function))


@dataclass(frozen=True)
class Spelling:
    """How a framework writes dtypes, and the functions to put in the place of its own.

    wide       narrow dtype, in every spelling that the framework takes -> the wide one
    is_tensor  whether a value is one of its tensors
    widen      a tensor of integers or narrow floats -> the same values as wide floats
    leaf       the same of a tensor that nothing has been computed from
    """

    wide: Mapping[object, object]
    is_tensor: Callable[[object], bool]
    widen: Callable[[object], object]
    leaf: Callable[[object], object]

    def __post_init__(self):
        object.__setattr__(self, "kinds", frozenset(map(type, self.wide)))

    def asked_for(self, own: Callable) -> Callable:
        """`own`, in which a narrow dtype that it is asked for becomes a wide one."""
        kinds, wide = self.kinds, self.wide

        @functools.wraps(own)
        def instead(*arguments, **options):
            if not _lift.on:
                return own(*arguments, **options)
            for value in (*arguments, *options.values()):
                if type(value) in kinds and value in wide:
                    _lift.count(self._told(value, arguments))
                    arguments = [self._wide(value) for value in arguments]
                    options = {name: self._wide(value) for name, value in options.items()}
                    break
            return own(*arguments, **options)

        return instead

    def from_data(self, own: Callable) -> Callable:
        """The same, where the data may have a narrow dtype of their own, such as NumPy's."""
        asked_for = self.asked_for(own)

        @functools.wraps(own)
        def instead(*arguments, **options):
            made = asked_for(*arguments, **options)
            if _lift.on and self.is_tensor(made) and made.dtype in self.wide:
                _lift.count(f"made in {_name(made.dtype)}")
                return self.leaf(made)
            return made

        return instead

    def result(self, own: Callable, again: Callable | None = None) -> Callable:
        """`own`, whose result is narrow whatever it gets: it is widened, or made `again`."""

        @functools.wraps(own)
        def instead(*arguments, **options):
            made = own(*arguments, **options)
            if not _lift.on or not self.is_tensor(made) or made.dtype not in self.wide:
                return made
            _lift.count(self._told(made.dtype, arguments))
            return self.widen(made) if again is None else again(*arguments, **options)

        return instead

    def by_name(self, narrow: object, cast: Callable) -> Callable[[Callable], Callable]:
        """The same of a method whose name says the narrow dtype that it casts to, like `float`."""

        def replace(own: Callable) -> Callable:
            @functools.wraps(own)
            def instead(value, *arguments, **options):
                if not _lift.on:
                    return own(value, *arguments, **options)
                _lift.count(self._told(narrow, [value]))
                return cast(value, self.wide[narrow])

            return instead

        return replace

    def of_integers(self, own: Callable) -> Callable:
        """`own`, which makes narrow floats of integers: it gets wide floats instead of them."""

        def again(*arguments, **options):
            arguments = [self._widened(value) for value in arguments]
            return own(*arguments, **{name: self._widened(v) for name, v in options.items()})

        return self.result(own, again)

    def _wide(self, value: object) -> object:
        return self.wide.get(value, value) if type(value) in self.kinds else value

    def _widened(self, value: object) -> object:
        return self.widen(value) if self.is_tensor(value) else value

    def _told(self, narrow: object, arguments: Sequence[object]) -> str:
        """What a call would have made, in words for the sidecar."""
        first = arguments[0] if arguments else None
        if self.is_tensor(first):
            return f"{_name(first.dtype)} to {_name(narrow)}"
        return f"made in {_name(narrow)}"


def _name(dtype: object) -> str:
    """A dtype's plain name: float32."""
    return getattr(dtype, "__name__", str(dtype)).rpartition(".")[2]


def install(replacements: Iterable[tuple[object, str, Callable[[Callable], Callable]]]) -> None:
    """Put (owner, name, what makes the replacement of the owner's own) in their places."""
    made: dict[int, Callable] = {}
    for owner, name, replace in replacements:
        own = getattr(owner, name, None)
        if own is not None:
            # One function under two names stays one, for what recognises it.
            made.setdefault(id(own), replace(own))
            setattr(owner, name, made[id(own)])


def install_while_lifting(replacements: Iterable[tuple[object, str, Callable]]) -> None:
    """The same, but only while lifting: what is called too often to ask each time."""
    for owner, name, replace in replacements:
        own = getattr(owner, name, None)
        if own is not None:
            _lift.swapped.append((owner, name, replace(own)))
