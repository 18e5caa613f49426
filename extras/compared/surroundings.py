"""What two runs were made in and of: versions, sources, settings, and what of these differs."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from twincheck.common.logs.sidecar import Sidecar, setting_text
from twincheck.common.system.frameworks import SIDES
from twincheck.common.system.reasons import is_of
from twincheck.extras.compared import Kind
from twincheck.extras.compared.read import Found, Name, Told

BOTH = "both"
WITHOUT = "–"
_SHOWN_OF_A_HASH = 12
# What a sidecar says of a run, and how that is called; in this order.
_OF_A_RUN = {
    "device": Kind.DEVICE(),
    "dtype": Kind.PRECISION(),
    "autocast": "--autocast",
    "preset": Kind.PRESET(),
    "seed": Kind.SEED(),
    "mode": "--mode",
    "modes": Kind.MODES(),
    "cases": "--case",
    "probes": "--probe",
    "no_probe": "--no-probe",
    "weights": Kind.WEIGHTS(),
    "inputs_sha256": Kind.INPUTS_HASH(),
    "weights_sha256": Kind.WEIGHTS_HASH(),
    "transplanted": Kind.TRANSPLANTED(),
    "kernels": Kind.KERNELS(),
    "processes": Kind.PROCESSES(),
    "optimizer": Kind.OPTIMIZER(),
    "steps_per_epoch": Kind.STEPS_PER_EPOCH(),
}
# Hashes that each step has of its own: where they differ, the first two stand for all.
_OF_A_STEP = (Kind.WORKBENCH(), Kind.INPUTS_HASH(), Kind.WEIGHTS_HASH())
_OF_THE_HOST = {"python": "Python", "numpy": "NumPy"}
# Options that sidecars speak of already.
_SAID = ("device", "dtype", "autocast", "preset", "seed", "mode", "cases", "probes", "no_probe")


@dataclass(frozen=True)
class Difference:
    """One thing that is otherwise."""

    what: str
    side: str  # torch, paddle or both; empty for what is no side's
    before: str
    after: str
    of: tuple[Name, ...] = ()  # the results that differ in it; none: all of them


def differences(old: Told, new: Told) -> list[Difference]:
    """All that differs, of the results that both have: the frameworks' versions first."""
    common = [name for name in new.found if name in old.found]
    seen: dict[tuple[str, str, str], dict[str, list[Name]]] = {}
    first: dict[str, tuple[str, str]] = {}
    for name in common:
        layers = [*_layers(old.found[name], new.found[name])]
        # Of a training's settings bundles say nothing.
        trained = bool(old.found[name].training and new.found[name].training)
        before = {one[:2]: one[2] for one in layers} | _facts(old.found[name], trained)
        after = {one[:2]: one[3] for one in layers} | _facts(new.found[name], trained)
        for what, side in (*after, *(fact for fact in before if fact not in after)):
            values = before.get((what, side), WITHOUT), after.get((what, side), WITHOUT)
            if values[0] != values[1]:
                values = first.setdefault(what, values) if what in _OF_A_STEP else values
                seen.setdefault((what, *values), {}).setdefault(side, []).append(name)
    found = []
    for (what, before, after), sides in seen.items():
        alike = len(sides) == 2 and len({tuple(names) for names in sides.values()}) == 1
        for side, names in {BOTH: next(iter(sides.values()))}.items() if alike else sides.items():
            some = () if len(names) == len(common) else tuple(names)
            found.append(Difference(what, side, before, after, some))
    if old.commit != new.commit and old.commit and new.commit:
        commits = _short(old.commit), _short(new.commit)
        found.append(Difference(Kind.WORKBENCH_COMMIT(), "", *commits))
    return found


def alike(old: Told, new: Told) -> list[str]:
    """What is the same in all results that both have: versions and sources, such as `torch 2.8`."""
    differing = {one.what for one in differences(old, new)}
    common = [one for name, one in new.found.items() if name in old.found]
    sides = [one.sidecars[side][0] for one in common for side in SIDES]
    told = [fact for side in sides for fact in _versions(side)]
    told += [(file, "") for side in sides for file in side.sources]
    same = [(what, value) for what, value in told if what not in differing and value != WITHOUT]
    words = (
        what if is_of(what, Kind.WORKBENCH) else f"{what} {value}".strip() for what, value in same
    )
    return list(dict.fromkeys(words))


def _facts(found: Found, trained: bool) -> dict[tuple[str, str], str]:
    """(what, side) -> its value in words.

    trained  what a training was set to, too
    """
    facts: dict[tuple[str, str], str] = {}
    sides = {side: told[0] for side, told in found.sidecars.items()}

    def add(side: str, told: Iterable[tuple[str, str]]) -> None:
        facts.update(((what, side), value) for what, value in told if value != WITHOUT)

    for side, told in sides.items():
        add(side, _versions(told))
    for side, told in sides.items():
        add(side, ((file, _short(sha256)) for file, sha256 in told.sources.items()))
    for side, told in sides.items():
        add(side, ((word, _text(getattr(told, name))) for name, word in _OF_A_RUN.items()))
    training = found.training if trained else {}
    options = {n: value for n, value in found.asked.items() if n not in _SAID}
    add("", ((f"--{name.replace('_', '-')}", _text(value)) for name, value in options.items()))
    add("", ((Kind.OF_TRAINING(setting=name), _text(value)) for name, value in training.items()))
    for side, told in sides.items():
        add(side, [(Kind.IMPORTED_FROM(), told.framework_file or WITHOUT)])
        hosts = {n: v for n, v in told.environment.items() if n not in _OF_THE_HOST}
        add(side, hosts.items())
    return facts


def _versions(told: Sidecar) -> list[tuple[str, str]]:
    hosts = {word: told.environment.get(name, WITHOUT) for name, word in _OF_THE_HOST.items()}
    version = {told.framework or Kind.FRAMEWORK(): told.framework_version or WITHOUT, **hosts}
    return [*version.items(), (Kind.WORKBENCH(), _short(told.workbench_sha256 or WITHOUT))]


def _layers(before: Found, after: Found) -> Iterable[tuple[str, str, str, str]]:
    """What, side, before, after: of settings that layers of both are built with otherwise."""
    for side in SIDES:
        found: dict[tuple[str, str, str], dict[str, None]] = {}
        for layer, settings in after.settings[side].items():
            case = max((c for c in after.cases if layer.startswith(c)), key=len, default="")
            former = before.settings[side].get(layer, {})
            for name in (n for n, value in settings.items() if former.get(n, value) != value):
                pair = (setting_text(name, former[name]), setting_text(name, settings[name]))
                found.setdefault((name, *pair), {})[layer.removeprefix(case)] = None
        for (name, *values), layers in found.items():
            first, *more = layers
            told = {"layer": first, "setting": name}
            what = Kind.OF_LAYERS(count=len(more), **told) if more else Kind.OF_LAYER(**told)
            yield what, side, *values


def _text(value: object) -> str:
    if value is False or value in (None, "", [], {}):
        return WITHOUT
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {_text(one)}" for name, one in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_text, value))
    return Kind.YES() if value is True else _short(str(value))


def _short(text: str) -> str:
    """A hash as people compare it: its beginning."""
    is_hash = len(text) in (40, 64) and all(letter in "0123456789abcdef" for letter in text)
    return text[:_SHOWN_OF_A_HASH] if is_hash else text
