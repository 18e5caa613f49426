"""Handlers that stand before a framework's functions: all that replaces one does so here.

    way = Intercept(paddle, {"nn.functional.softmax": handle, "Tensor.exp": handle})
    way.put()             for good, or
    with way: …           inside alone
    with way.off(): …     inside, what stood there before answers, as if nothing stood before it

A function is named from the framework's root; what the installed version has not is passed over.
`handle(own, arguments, options)` gets what stood there, and returns what the call shall return.
Where it fails, what stood there is asked: a call that is wrong by itself fails as it would alone.

Several may stand before one function: the last that was put is asked first, and its `own` is the
one before.  So the order in which they are put matters; common/sides/worker.py has it.
"""

import functools
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType

from twincheck.common.system.errors import is_ours

Handle = Callable[[Callable, tuple, dict], object] | type
_INHERITED = object()  # or made when it is asked for


def as_handle(function: Callable) -> Handle:
    """A handle of a function that takes `own`, and then what the call gives."""
    return lambda own, arguments, options: function(own, *arguments, **options)


def stand_in(owner: object, name: str, instead: object) -> Callable[[], None]:
    """Put something in the place of a module's or a class's own; gives what puts that back.

    What somebody else has put there since stays.
    """
    before = vars(owner).get(name, _INHERITED)
    setattr(owner, name, instead)

    def put_back() -> None:
        if vars(owner).get(name) is not instead:
            return
        if before is _INHERITED:
            delattr(owner, name)
        else:
            setattr(owner, name, before)

    return put_back


class Intercept:
    """Handlers of some functions, put and taken away together.

    root      the framework
    handles   name from the root -> what handles the calls; one function under several names stays
              one, with the first one's; in place of a type another, which nothing switches off
    held_by   how the modules are called that may have such a function by its name, imported before
    on        whether the handlers are asked; may be set at any time
    """

    def __init__(
        self,
        root: ModuleType,
        handles: Mapping[str, Handle],
        held_by: tuple[str, ...] = (),
        on=True,
    ):
        self.root, self.handles, self.held_by, self.on = root, handles, held_by, on
        self._made: dict[int, tuple[Callable, Callable]] = {}  # id of an own -> it, and instead
        self._put_back: list[Callable[[], None]] = []

    def put(self) -> None:
        """Stand before all these; again, before what others have put in their place since."""
        for path, handle in self.handles.items():
            *parts, name = path.split(".")
            owner = functools.reduce(lambda held, part: getattr(held, part, None), parts, self.root)
            own = getattr(owner, name, None)
            if own is not None and not self._leads_here(own):
                instead = handle if isinstance(handle, type) else self._before(own, handle)
                self._put_back.append(stand_in(owner, name, instead))
        modules = list(sys.modules.items()) if self.held_by else []
        for called, module in modules:
            if not isinstance(module, ModuleType) or not called.startswith(self.held_by):
                continue
            for name, value in list(vars(module).items()):
                own, instead = self._made.get(id(value), (None, None))
                if own is not None and own is value:
                    self._put_back.append(stand_in(module, name, instead))

    def take_away(self) -> None:
        """Put back what was there."""
        while self._put_back:
            self._put_back.pop()()

    def __enter__(self) -> "Intercept":
        self.on = True
        self.put()
        return self

    def __exit__(self, *error: object) -> None:
        self.on = False  # somebody may have kept one
        self.take_away()

    @contextmanager
    def off(self) -> Iterator[None]:
        """Inside, the handlers are not asked."""
        saved, self.on = self.on, False
        try:
            yield
        finally:
            self.on = saved

    def _before(self, own: Callable, handle: Handle) -> Callable:
        """Return the function that stands before `own` and has `handle` answer; it is made once."""
        if id(own) not in self._made:

            @functools.wraps(own)
            def instead(*arguments, **options):
                if not self.on:
                    return own(*arguments, **options)
                try:
                    return handle(own, arguments, options)
                except Exception as error:
                    if is_ours(error):
                        own(*arguments, **options)
                    raise

            instead.intercept = self
            self._made[id(own)] = own, instead
        return self._made[id(own)][1]

    def _leads_here(self, function: object) -> bool:
        """Return whether this stands before a function already, maybe behind others."""
        while function is not None:
            if getattr(function, "intercept", None) is self:
                return True
            function = getattr(function, "__wrapped__", None)
        return False
