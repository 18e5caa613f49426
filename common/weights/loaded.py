"""Where each element comes from that a library's own loader has put into a model; NumPy only.

The reference's weights are written as the library's own folder, with a mark in place of each value
(marks.py).  What a model holds after its loader has read that folder says of each of its elements
where it came from.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from twincheck.common.system.reasons import Kind
from twincheck.common.weights.layers import Entry, Owner
from twincheck.common.weights.layout import Layout, LayoutError
from twincheck.common.weights.marks import NOWHERE, Marks, State, float32, numbers_of
from twincheck.common.weights.traced_convert import Converted, Parts, grouped

LOADED = Kind.CHANGE_BY_LOADER()  # what is done to values whose way the loader alone knows

# What a narrower type leaves of a float32: its bits that are always 0.
_NARROW = {"bfloat16": 0xFFFF, "float16": 0x1FFF}


@dataclass
class Loaded:
    """What a loader made of the marked folders, on one side; one process leaves it for others.

    starts    torch key -> the number of its first element, of all that were marked
    sources   this side's key -> the number of the element that each of its own is, or NOWHERE
    reasons   its key -> what became of elements that come from nowhere
    problems  sentences: what the loaded model has otherwise than the one that `build` makes
    notes     sentences that are no fault
    """

    starts: dict[str, int]
    sources: dict[str, np.ndarray]
    reasons: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def parts(self, key: str) -> Parts | None:
        """Where the elements of an entry come from; None where some come from nowhere."""
        index = self.sources[key].reshape(-1)
        return None if (index == NOWHERE).any() else grouped(index, self.starts)

    def departure(self, key: str, wanted: np.ndarray, numbers: State) -> str:
        """In words, how an entry is not what it should be; empty where it is.

        wanted    the numbers that it should have, as this side's model lays them out
        numbers   torch key -> the numbers of its elements
        """
        found = self.sources[key]
        if np.array_equal(found, wanted):
            return ""
        share = _share(int((found != wanted).sum()), found.size)
        lost = found == NOWHERE
        if lost.any():
            share = _share(int(lost.sum()), found.size)
            return Kind.LOADED_FROM_NOWHERE(key=key, share=share, why=self.reasons[key])
        parts = grouped(found.reshape(-1), self.starts)
        own = grouped(wanted.reshape(-1), self.starts)
        if set(parts) != set(own):
            alien = sorted(set(parts) - set(own)) or list(parts)
            told = {"key": key, "share": share, "found": alien, "wanted": list(own)}
            return Kind.LOADED_FROM_OTHERS(**told)
        (source, *more) = parts
        if not more and np.array_equal(found, numbers[source].reshape(found.shape)):
            return Kind.LOADED_AS_IN_TORCH(key=key, source=source)
        if found.ndim == 2 and found.shape == wanted.T.shape and np.array_equal(found, wanted.T):
            return Kind.LOADED_TURNED(key=key, source=source)
        at = tuple(int(i) for i in np.argwhere(found != wanted)[0])
        told = {"key": key, "share": share, "sources": list(parts), "at": str(list(at))}
        for name, values in (("found", found), ("wanted", wanted)):
            told[name] = self._place(int(values[at]), numbers)
        return Kind.LOADED_ELSEWHERE(**told)

    def departures(self, marks: Marks) -> list[str]:
        """What is not where it was, of a side's entries that have come back to it."""
        numbers = marks.numbers()
        found = [self.departure(key, numbers[key], numbers) for key in self.sources]
        return list(filter(None, found))

    def _place(self, number: int, numbers: State) -> str:
        key = next(iter(grouped(np.array([number]), self.starts)))
        index = np.unravel_index(number - self.starts[key], numbers[key].shape)
        return f"{key}{[int(i) for i in index]}"


def _share(count: int, size: int) -> str:
    if count == size:
        return Kind.ALL_ELEMENTS(size=size)
    return Kind.SOME_ELEMENTS(count=count, size=size)


def read_marks(
    marks: Marks, passes: Sequence[Mapping[str, np.ndarray]], owners: Mapping[str, Owner]
) -> Loaded:
    """What a side's models hold that have read the marked folders, one a pass.

    passes   key -> values, of each pass
    owners   of the model that `build` makes: every key that it has is looked for
    """
    loaded = Loaded(dict(marks.starts), {})
    for key in owners:
        found = [values[key] for values in passes if key in values]
        if len(found) < len(passes):
            loaded.problems.append(Kind.LOADED_LACKS(key=key))
        elif found[0].shape != owners[key].shape:
            shapes = {"shape": str(list(found[0].shape)), "built": str(list(owners[key].shape))}
            loaded.problems.append(Kind.LOADED_SHAPE(key=key, **shapes))
        elif found[0].dtype.kind == "f":
            loaded.sources[key] = marks.sources(found)
            lost = loaded.sources[key] == NOWHERE
            if lost.any():
                loaded.reasons[key] = _why(*(float32(values)[lost] for values in found))
    surplus = sorted(set(passes[0]) - set(owners))
    if surplus:
        loaded.problems.append(Kind.LOADED_HAS_MORE(keys=surplus))
    return loaded


def tie_problems(built: Mapping[str, Owner], loaded: Mapping[str, Owner]) -> list[str]:
    """What is one tensor in the loaded model alone, or in that which `build` makes alone."""
    problems = []
    keys = [key for key in built if key in loaded]
    for key in keys:
        there, here = loaded[key].same_as, built[key].same_as
        if there != key and there in built and built[there].same_as != here:
            problems.append(Kind.LOADED_TIED(key=there, other=key))
        if here != key and here in loaded and loaded[here].same_as != there:
            problems.append(Kind.LOADED_UNTIED(key=here, other=key))
    return problems


def _why(first: np.ndarray, second: np.ndarray) -> str:
    """Why elements that come from nowhere do not, from what they are in both passes."""
    bits = first.view(np.uint32), second.view(np.uint32)
    if np.array_equal(*bits):
        return Kind.LEFT_INITIAL()
    for name, mask in _NARROW.items():
        if not any((values & mask).any() for values in bits):
            return Kind.ROUNDED_ON_THE_WAY(dtype=name)
    return Kind.COMPUTED_ON_THE_WAY()


def unloaded(side: str, problems: Sequence[str]) -> LayoutError:
    """The error for a side whose own loader does not do what it should."""
    certificate = {"rows": [], "only_torch": [], "only_paddle": [], "without_partner": {}}
    sentence = Kind.LOADER_PROBLEMS(side=side, problems=list(problems))
    return LayoutError(sentence, certificate | {"problems": list(problems)})


class LoadedLayout(Layout):
    """The pairing of one model's entries of which a loader says where they come from.

    What RENAME, `convert` and the kinds of layers know decides where an element belongs; the loader
    must put it there.  What they do not know, the loader says: another name, fused or split
    weights.  A Linear that it fills whole must be transposed all the same.
    """

    def __init__(self, torch_owners, paddle_owners, rename, convert, loaded: Loaded):
        self._loaded = loaded
        self._numbers = numbers_of(torch_owners, loaded.starts)
        self._departures: list[str] = []
        self._by_loader: set[str] = set()  # what neither a name nor `convert` knows
        super().__init__(torch_owners, paddle_owners, rename, convert)

    def _pair(self, traced: Mapping[str, Parts]) -> None:
        super()._pair(traced)
        self.problems += self._loaded.problems
        self.problems += dict.fromkeys(self._departures)

    def _turn_squares(self) -> None:
        """The loader says it of each."""

    def _sources(self, keys: Sequence[str], traced: Mapping[str, Parts]) -> list:
        sources = super()._sources(keys, traced)
        sources = [entry for entry in sources if not entry.misfit(self.torch_owners)]
        first = keys[0]
        if first not in self._loaded.sources:
            return sources
        if not sources:
            sources = self._from_loader(first)
        return [self._compared(source) for source in sources]

    def _compared(self, source: Entry | Converted) -> Entry | Converted:
        """The source as the loader has it; what departs from where it belongs is a problem."""
        key = source.paddle_key
        marked = key in self._loaded.sources and not set(source.torch_keys) - set(self._numbers)
        if not marked:  # it takes what is no float, or the loaded model has no such entry
            return source
        wanted = source.from_torch(self._numbers)
        departure = self._loaded.departure(key, wanted, self._numbers)
        if departure and isinstance(source, Entry) and self._either_way(source):
            other = replace(source, transposed=not source.transposed)
            fits = not other.misfit(self.torch_owners)
            if fits and np.array_equal(other.from_torch(self._numbers), self._loaded.sources[key]):
                return other
        self._departures += [departure] if departure else []
        return source

    def _either_way(self, entry: Entry) -> bool:
        """Whether one side alone has a layer of the framework's there: nobody knows its layout."""
        kinds = self.torch_owners[entry.torch_key].kind, self.paddle_owners[entry.paddle_key].kind
        return entry.whole and len(entry.shape) == 2 and bool(kinds[0]) != bool(kinds[1])

    def _from_loader(self, key: str) -> list:
        """What the loader alone knows; nothing where some elements come from nowhere."""
        parts, owner = self._loaded.parts(key), self.paddle_owners[key]
        self._by_loader.add(key)
        if parts is None:
            self._departures.append(
                self._loaded.departure(key, np.full(owner.shape, NOWHERE - 1), self._numbers)
            )
            return []
        (torch_key, *more) = parts
        if not more and parts[torch_key][0].size == self._numbers[torch_key].size:
            entry = self._paired(key, owner, torch_key, None)
            if not entry.misfit(self.torch_owners):
                # A layer, or a bare parameter, has the name of that whose weights it has.
                path, torch_path = key.rpartition(".")[0], torch_key.rpartition(".")[0]
                if path and torch_path and owner.kind:
                    self._table.setdefault(path, torch_path)
                self._table.setdefault(key, torch_key)
                return [entry]
        return [self._converted(key, parts, LOADED)]

    def _sentence(self) -> str:
        problems = list(self.problems)
        if self.only_torch:
            problems.append(Kind.LOADER_PUTS_NOWHERE(keys=sorted(self.only_torch)))
        if self.only_paddle and not self._departures:
            problems.append(Kind.LOADER_FILLS_NONE(keys=sorted(self.only_paddle)))
        return Kind.LOADER_OF_PADDLE(problems=problems)

    def told(self) -> str:
        """What is proven of the loader, in words."""
        by_loader = self._by_loader & set(self.entries)
        told = [Kind.LOADER_PROVEN(count=len(self.entries))]
        told += [Kind.LOADER_SAYS(count=len(by_loader))] if by_loader else []
        return Kind.TEXT(text=[*told, *self._loaded.notes])
