"""The modules of a result as a tree, for the page: both sides' in one, where each stands.

Modules go by torch's names.  One that a side alone has stands where that side has it.
"""

from collections.abc import Iterable, Mapping, Sequence

from twincheck.common.logs.key import BUFFER, Key, parent_of
from twincheck.common.logs.sidecar import Sidecar, setting_text
from twincheck.common.report.findings import bare
from twincheck.common.report.html_words import visible
from twincheck.common.system.frameworks import SIDES
from twincheck.common.verdict.row import Row

# Kinds of rows that are of a parameter or a buffer: their module is what stands before the name.
_OF_PARAMETERS = ("grad", "weight", "moment1", "moment2", "velocity", BUFFER)


def tree_of(
    rows: Sequence[Row], shown: Sequence[int], result, cars: Mapping[str, Sequence[Sidecar]]
) -> dict[str, object]:
    """Columns for JSON, an entry for each module, and the module of each row that is shown.

    `at` is where a module was first called, in rows; `parameters` is None on a side without it.
    """
    cases = tuple(result.cases)
    keys = [Key.parse(row.key, cases) for row in rows]
    modules = {side: _modules(cars[side], cases) for side in SIDES}
    # Where no sidecar names modules, those that have the parameters of rows.
    of_rows = (parent_of(k.site) for k in keys if k.kind in _OF_PARAMETERS and "/" not in k.site)
    named = _merged(*modules.values()) or list(dict.fromkeys(of_rows))
    known = set(named)
    own = [_module_of(key, known) for key in keys]
    names = ["", *filter(None, named)]  # first the model itself: its outputs, losses, claims
    number = {name: i for i, name in enumerate(names)}
    outputs: dict[str, Row] = {}
    calls: dict[str, set[str]] = {}
    for key, row, name in zip(keys, rows, own, strict=True):
        if not (key.kind or key.local or key.run or key.choice):
            outputs.setdefault(name, row)
            calls.setdefault(name, set()).add(key.call if key.site == name else "")

    def told(of: str, side: str, absent: object) -> list:
        found = getattr(result, of).get(side, {})
        if of == "places":  # where it is built, where that is known, comes first
            found = result.made[side] | found | result.made[side] if side in result.made else found
        by = _by_module(found, cases, known)
        return [by.get(name, absent) for name in names]

    return {
        "names": [visible(name) for name in names],
        "classes": {s: [visible(bare(named)) for named in told("classes", s, "")] for s in SIDES},
        "paddle_names": _paddle_names(cars["paddle"], names),
        "parameters": {s: [modules[s].get(name) for name in names] for s in SIDES},
        "calls": [len(calls.get(name, ())) for name in names],
        "shapes": [" × ".join(map(str, outputs[n].shape)) if n in outputs else "" for n in names],
        "settings": {
            s: [
                {visible(n): setting_text(n, v) for n, v in of.items()}
                for of in told("settings", s, {})
            ]
            for s in SIDES
        },
        "places": {s: list(map(visible, told("places", s, ""))) for s in SIDES},
        "at": _called(names, own, cars, cases, known),
        "of": [number[own[i]] for i in shown],
        "cases": [keys[i].case for i in shown],
    }


def _modules(cars: Sequence[Sidecar], cases: Sequence[str]) -> dict[str, int]:
    """Module -> how many parameters it holds itself or below, of all cases."""
    found: dict[str, int] = {}
    for name, count in (named for car in cars for named in car.modules.items()):
        found.setdefault(Key.parse(name, cases).site, count)
    return found


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


def _module_of(key: Key, known: set[str]) -> str:
    """The module that a row is of; the model itself where none is known."""
    for name in key.site.split("/"):  # of `token_22/encoder.0` and of `encoder.0/1`
        while name and name not in known:
            name = parent_of(name)
        if name:
            return name
    return ""


def _by_module(found: Mapping[str, object], cases: Sequence[str], known: set[str]) -> dict:
    """Map each known module to the first thing that is said of one of its keys."""
    by: dict[str, object] = {}
    for text, said in found.items():
        site = Key.parse(text, cases).site.partition("/")[0]
        if site in known and said:
            by.setdefault(site, said)
    return by


def _paddle_names(cars: Sequence[Sidecar], names: Sequence[str]) -> list[str]:
    """Paddle's own name of each module that has parameters, where it is another."""
    found: dict[str, str] = {}
    for layout in (layout for car in cars for layout in car.certificate.values()):
        for row in layout["rows"]:
            found.setdefault(parent_of(row["torch_key"]), parent_of(row["paddle_key"]))
    return [visible(found[n]) if found.get(n, n) != n else "" for n in names]


def _called(names, own: Sequence[str], cars, cases: Sequence[str], known: set[str]) -> list:
    """Return where each module first has a row; of one that has none, before what follows it."""
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
