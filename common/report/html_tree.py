"""The modules of a result as a tree, for the page: both sides' in one, where each stands.

Modules go by torch's names.  One that a side alone has stands where that side has it.
"""

from collections.abc import Iterable, Mapping, Sequence

from twincheck.common.logs.key import BUFFER, Key, parent_of
from twincheck.common.logs.sidecar import IN_PLACE, OWN, Sidecar, setting_text
from twincheck.common.report.html_rows import visible
from twincheck.common.system.frameworks import SIDES
from twincheck.common.verdict.row import Row

# Kinds of rows that are of a parameter or a buffer: their module is what stands before the name.
_OF_PARAMETERS = ("grad", "weight", "moment1", "moment2", "velocity", BUFFER)
MODEL = ""  # the name of the model itself, whose rows are its outputs, losses and claims


def tree_of(
    rows: Sequence[Row], shown: Sequence[int], result, cars: Mapping[str, Sequence[Sidecar]]
) -> dict[str, object]:
    """The tree as columns for JSON, a module each, and the module of each row that is shown.

    A module's parent stands before it.  `at` is where it was first called, in rows.
    """
    cases = tuple(result.cases)
    keys = [Key.parse(row.key, cases) for row in rows]
    modules = {side: _modules(cars[side], cases) for side in SIDES}
    probed = set().union(*modules.values())
    named = list(_merged(*modules.values())) or _of_parameters(keys)
    known = set(named)
    own = [_module_of(key, known) for key in keys]
    names, parents = _in_order(named)
    number = {name: i for i, name in enumerate(names)}
    outputs: dict[str, Row] = {}
    calls: dict[str, set[str]] = {}
    for key, row, name in zip(keys, rows, own, strict=True):
        if not (key.kind or key.local or key.run or key.choice):
            outputs.setdefault(name, row)
            calls.setdefault(name, set()).add(key.call if key.site == name else "")
    classes = {side: _by_module(result.classes.get(side, {}), cases, known) for side in SIDES}
    settings = {side: _by_module(result.settings.get(side, {}), cases, known) for side in SIDES}
    return {
        "names": [visible(name) for name in names],
        "parents": [number[parent] if parent is not None else -1 for parent in parents],
        "alone": [_alone(name, modules, probed) for name in names],
        "classes": {s: [_class(classes[s].get(name, "")) for name in names] for s in SIDES},
        "paddle_names": _paddle_names(cars["paddle"], names),
        "parameters": {s: [modules[s].get(name) for name in names] for s in SIDES},
        "calls": [len(calls.get(name, ())) for name in names],
        "shapes": [" × ".join(map(str, outputs[n].shape)) if n in outputs else "" for n in names],
        "settings": [_settings(settings, name) for name in names],
        "places": {s: [_place(result, s, name, cases, outputs) for name in names] for s in SIDES},
        "at": _called(names, own, cars, cases, known),
        "of": [number[own[i]] for i in shown],
        "cases": [keys[i].case for i in shown],
    }


def _modules(cars: Sequence[Sidecar], cases: Sequence[str]) -> dict[str, int]:
    """Module -> how many parameters it holds itself or below, of all cases."""
    found: dict[str, int] = {}
    for car in cars:
        for name, count in car.modules.items():
            found.setdefault(_without_case(name, cases), count)
    return found


def _without_case(name: str, cases: Sequence[str]) -> str:
    return name[len(max((case for case in cases if name.startswith(case)), key=len, default="")) :]


def _merged(torch: Iterable[str], paddle: Iterable[str]) -> list[str]:
    """Both orders as one: what Paddle alone has stands behind what stands before it there."""
    found, before = list(torch), ""
    there = set(found)
    for name in paddle:
        if name not in there:
            found.insert(found.index(before) + 1 if before in there else 0, name)
            there.add(name)
        before = name
    return found


def _of_parameters(keys: Iterable[Key]) -> list[str]:
    """The modules that have the parameters of rows, where no sidecar names modules."""
    named = (parent_of(k.site) for k in keys if k.kind in _OF_PARAMETERS and "/" not in k.site)
    return list(dict.fromkeys(filter(None, named)))


def _module_of(key: Key, known: set[str]) -> str:
    """The module that a row is of; the model itself where none is known."""
    name = key.site.partition("/")[0]
    while name and name not in known:
        name = parent_of(name)
    return name


def _in_order(named: Sequence[str]) -> tuple[list[str], list[str | None]]:
    """Modules behind those that hold them, the model first; and what holds each."""
    below: dict[str, list[str]] = {}
    known = set(named)
    for name in named:
        around = parent_of(name)
        while around and around not in known:
            around = parent_of(around)
        if name:
            below.setdefault(around, []).append(name)
    names, parents, left = [], [], [(MODEL, None)]
    while left:
        name, parent = left.pop()
        names.append(name)
        parents.append(parent)
        left += [(each, name) for each in reversed(below.get(name, ()))]
    return names, parents


def _alone(name: str, modules: Mapping[str, Mapping], probed: set[str]) -> str:
    """The side that alone has a module; empty where both have it, or nobody says."""
    sides = [side for side in SIDES if name in modules[side]]
    return sides[0] if name in probed and len(sides) == 1 and all(modules.values()) else ""


def _by_module(found: Mapping[str, object], cases: Sequence[str], known: set[str]) -> dict:
    """What is said of keys, by the module that they are of; of several the first."""
    by: dict[str, object] = {}
    for text, said in found.items():
        key = Key.parse(text, cases)
        name = key.site.partition("/")[0]
        if name in known and said:
            by.setdefault(name, said)
    return by


def _class(said: str) -> str:
    return visible(said.removeprefix(f"{OWN} ").removesuffix(f" {IN_PLACE}"))


def _paddle_names(cars: Sequence[Sidecar], names: Sequence[str]) -> list[str]:
    """Paddle's own name of each module that has parameters, where it is another."""
    found: dict[str, str] = {}
    for layout in (layout for car in cars for layout in car.certificate.values()):
        for row in layout.get("rows", ()):
            of_torch, of_paddle = row.get("torch_key"), row.get("paddle_key")
            if isinstance(of_torch, str) and isinstance(of_paddle, str):
                found.setdefault(parent_of(of_torch), parent_of(of_paddle))
    return [visible(found[n]) if found.get(n, n) != n else "" for n in names]


def _settings(settings: Mapping[str, Mapping], name: str) -> list[tuple[str, str, str]]:
    """What a layer was built with that both sides name: setting, torch's, Paddle's."""
    of_torch, of_paddle = (settings[side].get(name, {}) for side in SIDES)
    return [
        (visible(word), *(setting_text(word, of[word]) for of in (of_torch, of_paddle)))
        for word in of_torch
        if word in of_paddle
    ]


def _place(result, side: str, name: str, cases: Sequence[str], outputs: Mapping[str, Row]) -> str:
    """The line that built a module, else the line that called it; `file:line`."""
    made, places = (getattr(result, of).get(side, {}) for of in ("made", "places"))
    for case in ("", *cases):
        if f"{case}{name}" in made:
            return visible(made[f"{case}{name}"])
    keys = [outputs[name].key] if name in outputs else [f"{case}{name}" for case in ("", *cases)]
    place = next((places[key] for key in keys if places.get(key)), "")
    return visible(place) if ":" in place else ""


def _called(names, own: Sequence[str], cars, cases: Sequence[str], known: set[str]) -> list:
    """Where each module first has a row; of one that has none, before what follows it."""
    first: dict[str, float] = {}
    for i, name in enumerate(own):
        while name not in first:
            first[name] = i
            name = parent_of(name)
    for car in (car for side in SIDES for car in cars[side]):
        following: float | None = None
        for text in reversed(list(car.places)):
            name = _module_of(Key.parse(text, cases), known)
            following = first.get(name, following)
            if name not in first and following is not None:
                first[name] = following - 0.5
    return [first.get(name) for name in names]
