"""Are the initial weights drawn from the same distributions?  Parameter by parameter.

Both sides build the model under several seeds, each with its own framework's initialisers
(common/sides/initial.py).  The values can never be equal; their distributions must be: what is a
constant on one side is the same constant on the other, and what is drawn passes a two-sample test
(Kolmogorov and Smirnov).  Of what differs it is found which distribution each side has, and layers
that differ alike are one `Start`.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain

import numpy as np

from twincheck.common.logs.sidecar import OWN, Sidecar
from twincheck.common.system.reasons import Kind, Reason
from twincheck.common.verdict.row import Row, claim

LEVEL = 1e-4  # probability that a right port is called wrong, over all its parameters together
# A constant that a framework computes, such as a table of sines, may round elsewhere.
CONSTANT_ALLOWED = 1e-6
SMALLEST = 1e-300  # a probability; what is less is written as less than that
CUT = 2.0  # standard deviations at which a truncated normal distribution ends
# Rules of common initialisers: family, c, fan -> scale = sqrt(c / fan); and what it costs, in units
# of log likelihood, to believe it: torch's default is tried first, literals of few digits last.
_RULES = (
    *(("uniform", c, "in", 2.0 * (c != 1)) for c in (1.0, 6.0, 3.0, 1.5, 2.0)),
    *(("uniform", c, fan, 3.0) for c, fan in ((6.0, "both"), (3.0, "both"), (6.0, "out"))),
    *(("normal", c, "in", 2.0) for c in (1.0, 2.0)),
    *(("normal", c, fan, 3.0) for c, fan in ((2.0, "out"), (1.0, "out"), (2.0, "both"))),
)
_DIGITS = {1: 2.0, 2: 7.0, 3: 11.0}  # of a literal -> its cost
_FITS = 1e-4  # the least p-value of values that a rule is said to have drawn
_TESTED = 20_000  # values that a rule is tested on


@dataclass(frozen=True)
class Drawn:
    """The distribution that a parameter begins with, as far as its values show it."""

    family: str  # constant, table (fixed values), uniform, normal, truncated or other
    mean: float
    scale: float  # of a uniform one half its width, else its standard deviation
    c: float = 0.0  # scale = sqrt(c / fan), where its layer's fan says how wide it is
    fan: str = ""  # in, out, both (their sum); empty where the scale is a number
    padding: int = -1  # the row that is 0, of a table otherwise drawn

    @property
    def rule(self) -> tuple:
        """Return what layers of any size have in common that are drawn alike."""
        return self.family, self.mean, self.c if self.fan else self.scale, self.fan, self.padding


@dataclass(frozen=True)
class Part:
    """A parameter of a layer of the port that begins otherwise than torch's."""

    row: Row
    name: str  # the port's own
    local: str  # in its layer
    shape: tuple[int, ...]
    torch: Drawn
    paddle: Drawn


@dataclass(frozen=True)
class Start:
    """Layers of one class that begin otherwise than torch's, all in the same way."""

    kind: str  # Paddle's class of layers, or the port's own
    is_of_paddle: bool
    layers: Mapping[str, tuple[Part, ...]]  # the port's name of a layer -> its parts
    places: Mapping[str, str]  # layer -> file:line of the port's that builds it
    torch_place: str  # that of the reference's first one
    others: tuple[str, ...]  # layers of this class that are not among these
    optional: frozenset[str]  # local names that not every one of them has

    @property
    def parts(self) -> tuple[Part, ...]:
        """Return the parts of the layer that has most of them, which stand for the others'."""
        return max(self.layers.values(), key=len)

    @property
    def rows(self) -> list[Row]:
        """The rows that show it, each once."""
        rows = (part.row for parts in self.layers.values() for part in parts)
        return list({row.key: row for row in rows}.values())


def judge_initial(
    torch_log: Mapping[str, np.ndarray], paddle_log: Mapping[str, np.ndarray]
) -> list[Row]:
    """Return one row `init/NAME` for each parameter of either side."""
    names = _names(torch_log, paddle_log)
    return [_judge_one(name, torch_log, paddle_log, LEVEL / len(names)) for name in names]


def _names(*logs: Mapping[str, np.ndarray]) -> list[str]:
    keys = dict.fromkeys(chain(*logs))
    return [key.removesuffix(":values") for key in keys if key.endswith(":values")]


def draws(log: Mapping[str, np.ndarray]) -> bool:
    """Return whether a side draws at all: loaded weights are the same under every seed."""
    own = [(log[f"{name}:constant"], log[f"{name}:values"]) for name in _names(log)]
    tables = [constant for constant, values in own if np.ptp(values) > 0]
    return not tables or not all(constant.all() for constant in tables)


def _spread(side: str, values: np.ndarray, constant: np.ndarray) -> Reason:
    kind = Kind.INITIAL_SPREAD_CONSTANT if constant.all() else Kind.INITIAL_SPREAD
    return kind(side=side, std=values.std(), mean=values.mean())


def _judge_one(name: str, torch_log, paddle_log, level: float) -> Row:
    logs = {"torch": torch_log, "paddle": paddle_log}
    key = f"init/{name}"
    for side, log in logs.items():
        if f"{name}:values" not in log:
            missing = Kind.MISSING_IN_TORCH if side == "torch" else Kind.MISSING_IN_PADDLE
            return Row(key, "INVALID", reasons=(missing(),), origin=True)
    values = [log[f"{name}:values"].astype(np.float64) for log in logs.values()]
    constant = [log[f"{name}:constant"].astype(bool) for log in logs.values()]
    rows = [log[f"{name}:rows"] for log in logs.values()]
    torch, paddle = map(_spread, logs, values, constant)
    spreads = Kind.INITIAL_SPREADS(torch=torch, paddle=paddle)
    if values[0].shape[1:] != values[1].shape[1:] or constant[0].shape != constant[1].shape:
        return Row(key, "INVALID", reasons=(Kind.INITIAL_SHAPES(spreads=spreads),), origin=True)
    if not all(np.isfinite(v).all() for v in values):
        return Row(key, "INVALID", reasons=(Kind.INITIAL_NOT_FINITE(spreads=spreads),), origin=True)
    columns = [log.get(f"{name}:columns", np.zeros(0)) for log in logs.values()]
    rows_, columns_ = (
        (Kind.INITIAL_CONSTANT_ROW, Kind.INITIAL_CONSTANT_ROWS),
        (Kind.INITIAL_CONSTANT_COLUMN, Kind.INITIAL_CONSTANT_COLUMNS),
    )
    for (one, several), (ours, theirs) in ((rows_, constant), (columns_, columns)):
        wrong = np.flatnonzero(ours != theirs) if ours.shape == theirs.shape else np.zeros(0)
        if wrong.size:
            at = {"side": "torch" if ours[wrong[0]] else "paddle", "spreads": spreads}
            if wrong.size == ours.size:
                why = Kind.INITIAL_CONSTANT_ALL(**at)
            elif wrong.size > 1:
                why = several(index=int(wrong[0]), more=wrong.size - 1, **at)
            else:
                why = one(index=int(wrong[0]), **at)
            return claim(key, float(wrong.size), 0.0, why)
    off = np.abs(rows[0] - rows[1])[constant[0]].max(initial=0.0)
    allowed = CONSTANT_ALLOWED * float(np.abs(values[0]).max())
    if constant[0].all():
        return claim(
            key, max(off, float(np.abs(values[0][0] - values[1][0]).max())), allowed, spreads
        )
    if not off <= allowed:
        return claim(key, off, allowed, Kind.INITIAL_IN_CONSTANT_ROWS(spreads=spreads))
    p = same_distribution(values[0].reshape(-1), values[1].reshape(-1))
    of = {"spreads": spreads, "count": values[0].size, "level": level}
    if p >= SMALLEST:
        why = Kind.INITIAL_CHANCE(p=p, **of)
    else:
        why = Kind.INITIAL_NO_CHANCE(p=SMALLEST, **of)
    # Both as powers of ten: what is off is how unlikely such values are of one distribution.
    return claim(key, -math.log10(max(p, SMALLEST)), -math.log10(level), why)


def same_distribution(a: np.ndarray, b: np.ndarray) -> float:
    """Return the p-value of the two-sample Kolmogorov-Smirnov test of two flat arrays.

    By the limit distribution, brought to as few values as there are (Stephens 1970): for 32 values
    or more of each side it is 0.7 to 1.9 times SciPy's exact one between 1e-9 and 1e-5.  SciPy is
    not asked, since its import takes longer than all else that step 1 judges.
    """
    # In order, they are looked up four times as fast.
    values, count = np.sort(np.concatenate([a, b])), a.size * b.size / (a.size + b.size)
    shares = (np.searchsorted(np.sort(own), values, "right") / own.size for own in (a, b))
    return _by_chance(float(np.abs(np.subtract(*shares)).max()), count)


def _by_chance(distance: float, count: float) -> float:
    """Return the p-value of the largest distance between two distribution functions."""
    root, k = math.sqrt(count), np.arange(1, 101)
    scaled = distance * (root + 0.12 + 0.11 / root)
    terms = (-1.0) ** (k - 1) * np.exp(-2.0 * (k * scaled) ** 2)
    return min(2.0 * float(terms.sum()), 1.0) if scaled > 0.2 else 1.0


# ---- which distributions they are ---------------------------------------------------------------


class _Sample:
    """The values of a parameter, and what the likelihood of a distribution takes of them."""

    def __init__(self, values: np.ndarray, constant: np.ndarray, shape: tuple[int, ...]):
        flat = values.astype(np.float64).reshape(-1)
        self.is_constant, self.values, self.axes = bool(constant.all()), flat, shape
        rows = np.flatnonzero(constant) if len(shape) > 1 else np.zeros(0, np.int64)
        self.padding = int(rows[0]) if rows.size == 1 and not self.is_constant else -1
        self.is_mixed = not self.is_constant and constant.any() and self.padding < 0
        self.drawn = flat[flat != 0] if self.padding >= 0 else flat
        mean, error = float(self.drawn.mean()), self.drawn.std() / math.sqrt(self.drawn.size)
        self.mean = 0.0 if abs(mean) <= 5 * error else float(f"{mean:.2g}")
        self.far = float(np.abs(self.drawn - self.mean).max())
        self.square = float(np.square(self.drawn - self.mean).mean())
        self.fans = {"": 1.0}
        if len(shape) > 1:
            each = math.prod(shape[2:])
            self.fans |= {"in": shape[1] * each, "out": shape[0] * each}
            self.fans["both"] = self.fans["in"] + self.fans["out"]

    def likelihood(self, family: str, scale: float) -> float:
        """The logarithm of how likely its values are."""
        count = self.drawn.size
        if not scale > 0 or family == "uniform" and self.far > scale * (1 + 1e-6):
            return -math.inf
        if family == "uniform":
            return -count * math.log(2 * scale)
        normal = -count * (math.log(scale * math.sqrt(2 * math.pi)) + self.square / scale**2 / 2)
        if family == "normal":
            return normal
        far = self.far > CUT * scale * (1 + 1e-6)
        return -math.inf if far else normal - count * math.log(math.erf(CUT / math.sqrt(2)))

    def candidates(self) -> Iterable[tuple[float, Drawn]]:
        """(cost, distribution) of those that it may have been drawn from."""
        for family, c, fan, cost in _RULES:
            if fan in self.fans and not self.mean:
                yield cost, self.of(family, c, fan)
        width = self.far * (1 + 1 / self.drawn.size)
        guesses = {"uniform": (self.far, width), "normal": (math.sqrt(self.square),)}
        guesses["truncated"] = (self.far / CUT, width / CUT, math.sqrt(self.square) / 0.8796)
        for family, scales in guesses.items():
            for scale in scales:
                for digits, cost in _DIGITS.items():
                    yield cost, self.of(family, float(f"{scale:.{digits}g}") ** 2, "")

    def of(self, family: str, c: float, fan: str) -> Drawn:
        """A distribution of that rule, for this parameter's own fan."""
        scale = math.sqrt(c / self.fans[fan])
        return Drawn(family, self.mean, scale, c, fan, self.padding)

    def fits(self, drawn: Drawn) -> bool:
        """Return whether its values may come from a distribution."""
        z = (np.sort(self.drawn[:_TESTED]) - drawn.mean) / drawn.scale
        if drawn.family == "uniform":
            shares = np.clip((z + 1.0) / 2.0, 0.0, 1.0)
        else:
            shares = np.array([math.erf(value / math.sqrt(2.0)) for value in z])  # from -1 to 1
            if drawn.family == "truncated":
                shares = np.clip(shares / math.erf(CUT / math.sqrt(2.0)), -1.0, 1.0)
            shares = (shares + 1.0) / 2.0
        steps = np.arange(z.size + 1) / z.size
        apart = float(max((steps[1:] - shares).max(), (shares - steps[:-1]).max()))
        return _by_chance(apart, z.size) > _FITS

    def is_by(self, rule: Drawn) -> bool:
        """Return whether it may have been drawn by another parameter's rule."""
        if self.is_constant or self.is_mixed or rule.fan not in self.fans:
            return False
        if rule.family not in ("uniform", "normal", "truncated"):
            return False
        return self.padding == rule.padding and self.fits(self.of(rule.family, rule.c, rule.fan))

    def likeliest(self) -> Drawn:
        """The distribution that it was most likely drawn from."""
        if self.is_constant:
            family = "table" if np.ptp(self.values) else "constant"
            return Drawn(family, float(self.values[0]), 0.0)
        other = Drawn("other", float(self.drawn.mean()), math.sqrt(self.square))
        if self.is_mixed or not np.isfinite(self.values).all():
            return other
        found = self.candidates()
        best = max(found, key=lambda one: self.likelihood(one[1].family, one[1].scale) - one[0])[1]
        return best if self.fits(best) else other


def starts(
    rows: Iterable[Row],
    torch_log: Mapping[str, np.ndarray],
    paddle_log: Mapping[str, np.ndarray],
    sidecars: Mapping[str, Sidecar],
) -> list[Start]:
    """Return what differs, layers of one class that differ alike together, in the rows' order.

    sidecars    side -> that of its log, which says who owns each parameter
    """
    owners = {side: _owners(sidecar) for side, sidecar in sidecars.items()}
    holding: dict[str, list[str]] = {}
    for own, (_, _, _, *keys) in owners["paddle"].items():
        for key in keys:
            holding.setdefault(key, []).append(own)
    red = {row.key.removeprefix("init/"): row for row in rows if row.verdict == "DIVERGED"}
    red = {name: row for name, row in red.items() if name in holding}
    samples = {name: _sample(name, torch_log, len(holding[name])) for name in red}
    torch = _together(samples, owners["torch"])
    layers: dict[str, list[Part]] = {}
    torch_of: dict[str, str] = {}
    for name, row in red.items():
        theirs = _sample(name, paddle_log).likeliest()
        for own in holding[name]:
            local, layer = owners["paddle"][own][1], _layer(own, owners["paddle"])
            part = Part(row, own, local, samples[name].axes, torch[name], theirs)
            layers.setdefault(layer, []).append(part)
            torch_of.setdefault(layer, name)

    def like(layer: str, local: str, rule: Drawn) -> bool:
        """Return whether torch draws a parameter by a rule whose row is not red."""
        own = f"{layer}.{local}".lstrip(".")
        name = owners["paddle"][own][3]
        sample = samples.get(name) or _sample(name, torch_log, len(holding[name]))
        return sample.is_by(rule)

    return list(_grouped(layers, torch_of, owners, like))


def _owners(sidecar: Sidecar) -> dict[str, list[str]]:
    found = next(iter(sidecar.owners.values()), {})
    return {name: told for name, told in found.items() if name and len(told) > 3}


def _layer(name: str, owners: Mapping[str, list[str]]) -> str:
    """The layer of a parameter; the root's name is empty."""
    return name[: -len(owners[name][1]) - 1]


def _sample(name: str, log: Mapping[str, np.ndarray], pieces: int = 1) -> _Sample:
    """A parameter's values, for the fan of one of so many pieces of its rows."""
    shape = tuple(log[f"{name}:shape"].tolist())
    if len(shape) > 1 and shape[0] % pieces == 0:
        shape = (shape[0] // pieces, *shape[1:])
    sample = _Sample(log[f"{name}:values"], log[f"{name}:constant"] == 1, shape)
    weight = f"{name.rpartition('.')[0]}.weight:shape".lstrip(".")
    if len(shape) == 1 and weight in log and log[weight].size > 1:  # a bias goes by its weight's
        sample.fans["in"] = float(np.prod(log[weight][1:]))
    return sample


def _together(samples: Mapping[str, _Sample], owners: Mapping[str, list[str]]) -> dict[str, Drawn]:
    """torch's distribution of each parameter: one rule for all of a class, where it may be."""
    pools: dict[tuple, list[str]] = {}
    for name in samples:
        kind, local, *_ = owners.get(name, ["", name])
        pools.setdefault((kind, local), []).append(name)
    found = {name: sample.likeliest() for name, sample in samples.items()}
    for names in pools.values():
        rules = {found[name].rule: found[name] for name in names}
        drawn = [name for name in names if found[name].family not in ("constant", "table")]
        for rule in rules.values() if len(rules) > 1 else ():
            if rule.family in ("constant", "table", "other"):
                continue
            common = {
                name: samples[name].of(rule.family, rule.c, rule.fan)
                for name in drawn
                if rule.fan in samples[name].fans
            }
            if len(common) == len(drawn) and all(samples[n].fits(d) for n, d in common.items()):
                found |= common
                break
    return found


def _grouped(layers, torch_of, owners, like) -> Iterable[Start]:
    """Layers whose class and rules are alike, each group as one.

    like    (layer, local, distribution) -> whether torch draws a parameter that is not red so
    """
    kinds: dict[str, list[str]] = {}
    locals_of: dict[str, set[str]] = {}
    for own, told in owners["paddle"].items():
        kinds[_layer(own, owners["paddle"])] = told
        locals_of.setdefault(_layer(own, owners["paddle"]), set()).add(told[1])
    groups: list[tuple[str, dict[str, Drawn], dict[str, tuple[Part, ...]]]] = []
    for layer in sorted(layers, key=lambda name: -len(layers[name])):  # the fullest first
        parts = layers[layer]
        rules = {part.local: part.torch for part in parts}
        for kind, its, members in groups:
            alike = all(n in its and rule.rule == its[n].rule for n, rule in rules.items())
            beside = locals_of[layer].intersection(its) - set(rules)
            if kind == kinds[layer][0] and alike and all(like(layer, n, its[n]) for n in beside):
                members[layer] = tuple(parts)
                break
        else:
            groups.append((kinds[layer][0], rules, {layer: tuple(parts)}))
    order = list(layers)
    groups.sort(key=lambda group: min(map(order.index, group[2])))
    for kind, rules, members in groups:
        members = {name: members[name] for name in order if name in members}
        first = next(iter(members))
        yield Start(
            kind.removeprefix(f"{OWN} "),
            not kind.startswith(f"{OWN} "),
            members,
            {name: kinds[name][2] for name in members},
            owners["torch"].get(torch_of[first], ["", "", ""])[2],
            tuple(name for name in kinds if kinds[name][0] == kind and name not in members),
            frozenset(n for n in rules if any(n not in locals_of[layer] for layer in members)),
        )
