"""Which entry of the torch model goes where in the Paddle model, and how its values come back.

NumPy only.  A Paddle entry takes its values from a torch entry, from some rows of one (attention's
three projections), or from several through case.py's `convert`.  An entry without a partner on the
other side, used twice, or tied on one side alone is an error that names both sides.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from twincheck.common.system.door import to_type
from twincheck.common.system.errors import UserError
from twincheck.common.system.matrices import contiguous
from twincheck.common.system.reasons import Kind
from twincheck.common.weights.layers import (
    CONSTANTS,
    TRANSPOSED,
    Entry,
    Owner,
    is_reshaped,
    make_rename,
    projection,
    torch_locals,
    torch_path,
    why_no_partner,
)
from twincheck.common.weights.marks import State
from twincheck.common.weights.traced_convert import Converted, Parts, trace

Pairs = Iterable[tuple[str, np.ndarray]]


# How a BatchNorm's running variance is kept in Paddle, for the certificate.
UNBIASED, BIASED = "unbiased", "biased"


class LayoutError(UserError):
    """Weights that cannot be carried over one to one; `certificate` says what could be."""

    def __init__(self, sentence: str, certificate: dict[str, object]):
        super().__init__(sentence)
        self.certificate = certificate


class Layout:
    """The pairing of one model's entries: its certificate, and the conversion in both directions.

    `entries` maps each Paddle tensor's first key to where its values come from; `paddle_first` and
    `torch_first` map every key to the first key of the same tensor.  Raises LayoutError unless
    every torch element is used once, every Paddle entry is filled, and what is tied on one side is
    tied on the other.  A tensor that one side lists twice and the other once is no tie.
    """

    def __init__(
        self,
        torch_owners: Mapping[str, Owner],
        paddle_owners: Mapping[str, Owner],
        rename: Mapping[str, str] | None = None,
        convert: Callable[[State], State] | None = None,
        alike: bool = False,
    ):
        self._alike = alike  # both are models of one framework: nothing is turned
        self.torch_owners = torch_owners
        self.paddle_owners = paddle_owners
        self.torch_first = _firsts(torch_owners)
        self.paddle_first = _firsts(paddle_owners)
        self.entries: dict[str, Entry | Converted] = {}
        self.users: dict[str, list[str]] = {}  # torch key -> the Paddle keys that read it
        self.only_torch: list[str] = []
        self.only_paddle: list[str] = []
        self.without_partner: dict[str, str] = {}  # key -> why it needs none
        self.problems: list[str] = []
        self._table = dict(rename or {})
        self._users_own = make_rename(self._table)
        shapes = {key: owner.shape for key, owner in paddle_owners.items()}
        traced = trace(convert, torch_owners, shapes) if convert else {}
        self._pair(traced)
        if not self.problems:  # what does not fit cannot be counted
            self._count()
        self.rename = make_rename(self._table)
        if self.problems or self.only_torch or self.only_paddle:
            raise LayoutError(self._sentence(), self.certificate())

    # ---- pairing --------------------------------------------------------------------------------

    def _pair(self, traced: Mapping[str, Parts]) -> None:
        """Find each Paddle tensor's source, under whichever of its names torch knows."""
        for first, keys in _groups(self.paddle_first).items():
            sources = self._sources(keys, traced)
            if not sources:
                self._left_over(first, self.paddle_owners[first], self.only_paddle)
                continue
            entry = self.entries[first] = sources[0]
            for torch_key in entry.torch_keys:
                self.users.setdefault(torch_key, []).append(first)
            if len({source.reads() for source in sources}) > 1:
                theirs = list(dict.fromkeys(source.torch_key for source in sources))
                own = [source.paddle_key for source in sources]
                self.problems.append(Kind.TIED_IN_PADDLE(paddle=own, torch=theirs))
            misfit = entry.misfit(self.torch_owners)
            self.problems += [misfit] if misfit else []
        if not self._alike:
            self._turn_squares()

    def _turn_squares(self) -> None:
        """Squares in classes of the model's own lie as the other weights of their class do.

        They are a problem where these do not say how, and any such class keeps one as Paddle does.
        """
        own = [
            (first, entry, theirs.own)
            for first, entry in self.entries.items()
            if isinstance(entry, Entry) and entry.kind in TRANSPOSED and len(entry.shape) == 2
            if not (theirs := self.torch_owners[entry.torch_key]).kind
        ]
        ways = {(name, e.transposed) for _, e, name in own if e.shape != e.shape[::-1]}
        for first, entry, name in own:
            if entry.shape != entry.shape[::-1] or all(turned for _, turned in ways):
                continue
            if (name, True) not in ways and (name, False) in ways:
                self.entries[first] = replace(entry, transposed=False)
            elif (name, True) not in ways or (name, False) in ways:
                told = {"key": entry.torch_key, "name": name, "command": to_type("new")}
                self.problems.append(Kind.ENTRY_SQUARE(**told))

    def _sources(self, keys: Sequence[str], traced: Mapping[str, Parts]) -> list[Entry | Converted]:
        """Where the values of a tensor come from, as each of its keys has it."""
        sources = [self._converted(key, traced[key]) for key in keys if key in traced]
        return sources or [entry for entry in map(self._entry, keys) if entry is not None]

    def _entry(self, key: str) -> Entry | None:
        """Where a Paddle key's values come from; None where torch has none of its names.

        First the key's own name is tried, through the user's RENAME, then what the layers' kinds
        call it in torch.
        """
        owner = self.paddle_owners[key]
        path = key[: len(key) - len(owner.local)].rstrip(".")
        for site in dict.fromkeys((path, torch_path(path, owner.within))):
            locals_ = (owner.local,) if self._alike else torch_locals(owner)
            names = (f"{site}.{local}" if site else local for local in locals_)
            keys = map(self._users_own, names)
            sources = [(torch_key, None) for torch_key in keys if torch_key in self.torch_owners]
            fused = projection(self.torch_owners, self._users_own(site), owner.local)
            sources += [fused] if fused else []
            if sources:
                self._rename_children(path, site)
                return self._paired(key, owner, *sources[0])
        return None

    def _paired(
        self, key: str, owner: Owner, torch_key: str, rows: tuple[int, int] | None
    ) -> Entry:
        torch_key = self.torch_first[torch_key]
        theirs = self.torch_owners[torch_key]
        own = not theirs.kind and theirs.shape == owner.shape != owner.shape[::-1]
        turned = owner.local in TRANSPOSED.get(owner.kind, ()) and len(owner.shape) == 2
        return Entry(
            key,
            torch_key,
            owner.kind or "parameter",
            owner.shape,
            turned and not (own or self._alike),
            rows,
            not self._alike and is_reshaped(owner) and theirs.shape != owner.shape,
        )

    def _converted(self, key: str, parts: Parts, change: str = "convert") -> Converted:
        owner = self.paddle_owners[key]
        return Converted(key, owner.kind or "parameter", owner.shape, parts, change)

    def _rename_children(self, path: str, site: str) -> None:
        """Give probes and dropout sites inside a layer the names that its weights have in torch."""
        paddle_parts, torch_parts = path.split("."), site.split(".")
        for i, (paddle_part, torch_part) in enumerate(zip(paddle_parts, torch_parts, strict=True)):
            if paddle_part != torch_part:
                name = ".".join(paddle_parts[: i + 1])
                self._table.setdefault(name, self._users_own(".".join(torch_parts[: i + 1])))

    def _left_over(self, key: str, owner: Owner, unexplained: list[str]) -> None:
        constant = "" if owner.parameter else CONSTANTS.get(owner.local, "")
        reason = why_no_partner(owner) or constant
        if reason:
            self.without_partner[key] = reason
        else:
            unexplained.append(key)

    def _count(self) -> None:
        """Every element of every torch tensor must be used once."""
        for first, names in _groups(self.torch_first).items():
            users = self.users.get(first, [])
            if not users:
                for key in names:
                    self._left_over(key, self.torch_owners[key], self.only_torch)
                continue
            if len(users) == 1 and self.entries[users[0]].whole:
                continue
            uses = np.zeros(self.torch_owners[first].shape, np.int8)
            for key in users:
                self.entries[key].count(first, uses)
            unused, twice = int((uses == 0).sum()), bool((uses > 1).any())
            if twice and len(names) > 1 and len(users) > 1:
                self.problems.append(Kind.TIED_IN_TORCH(torch=names, paddle=users))
            elif twice:
                self.problems.append(Kind.ENTRY_TWICE(key=first, users=users))
            if unused:
                self.problems.append(Kind.ENTRY_UNUSED(count=unused, size=uses.size, key=first))

    def _sentence(self) -> str:
        problems = []
        if self.only_paddle:
            problems.append(Kind.ONLY_IN_PADDLE(keys=sorted(self.only_paddle)))
        if self.only_torch:
            problems.append(Kind.ONLY_IN_TORCH(keys=sorted(self.only_torch)))
        return Kind.WEIGHTS_NOT_CARRIED(problems=problems + self.problems)

    # ---- values ---------------------------------------------------------------------------------

    def to_paddle(self, torch_state: State, copied: bool = True) -> dict[str, np.ndarray]:
        """The Paddle state dict with the torch state's values, each tensor under all its names.

        copied   False: for who copies them anyway, views of what is only turned or cut
        """
        values = {
            key: entry.from_torch(torch_state) if copied else entry.seen_in(torch_state)
            for key, entry in self.entries.items()
        }
        return {key: values[first] for key, first in self.paddle_first.items() if first in values}

    def to_torch(self, paddle_state: State) -> dict[str, np.ndarray]:
        """The torch state dict with the Paddle state's values; torch's counts of batches are 0.

        A spectral norm's estimates that have no partner are left out.
        """
        pairs = self.as_torch((key, paddle_state[key]) for key in self.entries)
        values = {key: contiguous(array) for key, array in pairs}
        state = {key: values[first] for key, first in self.torch_first.items() if first in values}
        counts = (key for key in self.without_partner if key.endswith("num_batches_tracked"))
        return state | {key: np.zeros((), np.int64) for key in counts}

    def as_torch(self, pairs: Pairs) -> Iterator[tuple[str, np.ndarray]]:
        """Paddle's (key, values) under torch's keys and in torch's shapes.

        Values are parameters, their gradients or moments.  A torch entry is yielded as soon as its
        last part has come, so that few are held at a time; a part that never comes is 0.  One that
        has a single part is a view of it: models are large, and most of their entries are such.
        """
        waiting: dict[str, np.ndarray] = {}
        missing: dict[str, set[str]] = {}
        for key, values in pairs:
            first = self.paddle_first[key]
            entry = self.entries[first]
            if isinstance(entry, Entry) and entry.whole and self.users[entry.torch_key] == [first]:
                shape = self.torch_owners[entry.torch_key].shape
                yield entry.torch_key, entry.to_torch(values, shape)
                continue
            for torch_key in entry.torch_keys:
                if torch_key not in waiting:
                    shape = self.torch_owners[torch_key].shape
                    waiting[torch_key] = np.zeros(shape, values.dtype)
                    missing[torch_key] = set(self.users[torch_key])
            entry.put(values, waiting)
            for torch_key in entry.torch_keys:
                missing[torch_key].discard(first)
                if not missing[torch_key]:
                    yield torch_key, waiting.pop(torch_key)
        yield from waiting.items()

    def carried(self) -> set[str]:
        """Paddle's keys whose values are a torch entry's, whole, each under its first name."""
        return {key for key, e in self.entries.items() if isinstance(e, Entry) and e.whole}

    def from_torch(self, key: str, lookup: Callable[[str], np.ndarray | None]) -> np.ndarray | None:
        """One Paddle entry from the torch entries that it reads; None where one is not there."""
        entry = self.entries[self.paddle_first[key]]
        state = {torch_key: lookup(torch_key) for torch_key in entry.torch_keys}
        return None if any(v is None for v in state.values()) else entry.from_torch(state)

    def torch_ndim(self, key: str) -> int:
        """How many axes a Paddle entry has in torch."""
        entry = self.entries[self.paddle_first[key]]
        return max(len(self.torch_owners[torch_key].shape) for torch_key in entry.torch_keys)

    def converted_modules(self) -> list[str]:
        """Probes, by torch's names, all of whose weights `convert` writes or reads.

        The other side may have no such probe: a fused layer there stands for several here.
        """
        by_convert: dict[str, bool] = {}
        for first, entry in self.entries.items():
            converted = isinstance(entry, Converted)
            names = [self.torch_owners[key].probe for key in entry.torch_keys]
            for name in (*names, self.rename(self.paddle_owners[first].probe)):
                by_convert[name] = by_convert.get(name, True) and converted
        return sorted(name for name, only in by_convert.items() if only and name)

    # ---- certificate ----------------------------------------------------------------------------

    def certificate(self) -> dict[str, object]:
        """What goes where, for the sidecar and twincheck certificate; nothing here is measured."""
        rename = make_rename(self._table)
        torch_names, paddle_names = _groups(self.torch_first), _groups(self.paddle_first)
        rows = []
        for first, entry in self.entries.items():
            owner = self.paddle_owners[first]
            torch_owners = [self.torch_owners[key] for key in entry.torch_keys]
            also = [key for torch_key in entry.torch_keys for key in torch_names[torch_key][1:]]
            kept = UNBIASED if owner.unbiased else BIASED  # a BatchNorm's running variance
            rows.append(
                {
                    "torch_key": entry.torch_key,
                    "paddle_key": first,
                    "torch_keys": list(entry.torch_keys),
                    "kind": entry.kind,
                    "change": entry.change,
                    "transposed": entry.transposed,
                    "parameter": all(source.parameter for source in torch_owners),
                    "parameter_in_torch_alone": not owner.parameter
                    and any(source.parameter for source in torch_owners),
                    "also_in_torch": also,
                    "also_in_paddle": paddle_names[first][1:],
                    "probe": rename(owner.probe),
                    "padding": [torch_owners[0].padding, owner.padding],
                    "variance": kept if torch_owners[0].unbiased else "",
                }
            )
        return {
            "rows": rows,
            "only_torch": sorted(self.only_torch),
            "only_paddle": sorted(self.only_paddle),
            "without_partner": self.without_partner,
            "problems": self.problems,
        }


class SameLayout:
    """The reference's own side: names and values stay as they are."""

    def as_torch(self, pairs: Pairs) -> Iterator[tuple[str, np.ndarray]]:
        """The pairs themselves."""
        yield from pairs

    def from_torch(self, key: str, lookup: Callable[[str], np.ndarray | None]) -> np.ndarray | None:
        """The values that are looked up."""
        return lookup(key)


def _firsts(owners: Mapping[str, Owner]) -> dict[str, str]:
    """Key -> the first key of the same tensor."""
    first: dict[str, str] = {}
    return {key: first.setdefault(owner.same_as, key) for key, owner in owners.items()}


def _groups(first: Mapping[str, str]) -> dict[str, list[str]]:
    """A tensor's first key -> all its keys."""
    groups: dict[str, list[str]] = {}
    for key, value in first.items():
        groups.setdefault(value, []).append(key)
    return groups
