"""Where what is wrong starts in a red result: one entry for each cause, the most important first.

The terminal, the page and --json say what stands here.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from twincheck.common.logs.key import BUFFER, Key, in_any_layer, parent_of
from twincheck.common.logs.sidecar import IN_PLACE, OWN
from twincheck.common.report.initial import sentence as of_start
from twincheck.common.report.recipe import recipe
from twincheck.common.report.sentences import that_differs, what_differs, what_is_wrong
from twincheck.common.system.frameworks import SIDES
from twincheck.common.system.reasons import Kind, is_of
from twincheck.common.verdict.row import FAILING, Row

NO_LINE = Kind.NO_LINE_KNOWN()

START = "initial values"  # the cause of such findings
NAMED = 5  # of the further places of a cause


@dataclass(frozen=True)
class Finding:
    """One cause: the first row that shows it, and what to look at."""

    row: Row
    sentence: str  # what is wrong
    headline: str  # and where it starts: the first line of a red result
    layer: str  # what goes wrong by how it is built; empty where that is not it
    differing: tuple  # (setting, torch's, Paddle's) of how it is built
    places: dict[str, str]  # side -> file:line; none of a claim, which no line computed
    cause: tuple  # what all findings of one cause have in common
    further: tuple[str, ...] = ()  # keys of the other rows that show the same
    elsewhere: tuple[str, ...] = ()  # file:line of the port's that build further such layers
    recipe: tuple[str, ...] = ()  # lines that give these layers torch's initial values

    @property
    def is_start(self) -> bool:
        """Return whether it is of layers that begin with other values than torch's."""
        return self.cause[0] == START

    @property
    def built(self) -> str:
        """Return a sentence on where further such layers are built; empty for none."""
        lines = [*self.elsewhere[:NAMED], *(["…"] if self.elsewhere[NAMED:] else [])]
        return Kind.BUILT_ELSEWHERE(lines=lines) if lines else ""

    @property
    def again(self) -> str:
        """In how many further places it comes back; empty for none."""
        names = [*self.further[:NAMED], *(["…"] if self.further[NAMED:] else [])]
        return Kind.AND_IN_MORE_PLACES(count=len(self.further), keys=names) if names else ""


def findings_of(result) -> list[Finding]:
    """The causes of a red result, that of its first row that fails first; none of another."""
    first = result.first_diverged
    failing = set(FAILING) - {"CARRIED", *result.allow}
    others = [row for row in result.rows if row.origin and row.verdict in failing]
    # A witness that fails needs no other side to say so: it comes early.
    others.sort(key=lambda row: row.measure != "claim")
    rows = [first, *(row for row in others if row is not first)] if first else ()
    return _by_cause(result, rows)


def beside(result) -> list[Finding]:
    """Initial values that are not torch's, where they decide nothing: one entry for each cause."""
    return _by_cause(result, result.initial)


def _by_cause(result, rows: Iterable[Row]) -> list[Finding]:
    causes: dict[tuple, list[Finding]] = {}
    for row in rows:
        finding = _finding(result, row)
        causes.setdefault(finding.cause, []).append(finding)
    return [replace(one, further=tuple(o.row.key for o in more)) for one, *more in causes.values()]


def _finding(result, row: Row) -> Finding:
    """A row's own, by itself."""
    for number, start in enumerate(result.starts):
        if any(row.key == one.key for one in start.rows):
            said = of_start(start)
            lines = [place for place in dict.fromkeys(start.places.values()) if place] or [NO_LINE]
            places = {"torch": start.torch_place or NO_LINE, "paddle": lines[0]}
            return Finding(
                row,
                said,
                Kind.STARTS_AT(sentence=said, key=row.key),
                layer="",
                differing=(),
                places=places,
                cause=(START, number),
                elsewhere=tuple(lines[1:]),
                recipe=tuple(recipe(start)),
            )
    class_name = class_of(result, "torch", row.key)
    layer, differing = what_differs(row, result.cases, result.settings)
    sentence = what_is_wrong(row, class_name, result.cases)
    if differing:
        said, *others = (that_differs(*one) for one in differing)
        for other in others:
            said = Kind.AND_ITS(one=said, other=other)
        named = class_of(result, "torch", layer) or class_name or layer
        sentence = Kind.LAYER_DIFFERS(layer=named, settings=said)
    key, places = Key.parse(row.key, result.cases), {}
    at = _computed_by(key)
    kind = result.classes.get("paddle", {}).get(at, "")
    at = at if kind.startswith(OWN) else row.key
    # Where a layer is built that goes wrong by how it is built; else the line of the row.
    handed = _handed_on(result, layer, differing)
    for side in SIDES if row.measure != "claim" else ():
        known = result.idle.get(side, {}) | result.places.get(side, {})
        made = handed.get(side) or result.made.get(side, {}).get(layer)
        idle = key.prefix + key.site.partition("#")[0]  # a dropout that draws nothing
        is_rate = key.local == "p" or key.site.endswith(":p")
        places[side] = made or place_of(known, idle if is_rate and at not in known else at)
    if (line := result.lines.get(row.key)) and not differing:
        places |= line.places
        if is_of(sentence, Kind.GIVEN_OTHER_VALUES):
            at = line.places["paddle"].replace("\\", "/").rpartition("/")[2]
            sentence = Kind.GIVEN_WHAT_BEGINS_AT(module=sentence.fields["module"], place=at)
    # Of one cause are the same lines, in any case, call, layer and step.
    site = differing or (key.kind, in_any_layer(f"{key.site}:{key.local}"), key.choice)
    cause = (row.verdict, site, *places.values()) if places else (row.key,)
    if kind.startswith(OWN) and NO_LINE != places.get("paddle", NO_LINE):
        cause = (row.verdict, kind, places["paddle"])
    where = row.key if key.case or not places else f"main/{row.key}"
    headline = Kind.STARTS_AT(sentence=sentence, key=where)
    return Finding(row, sentence, headline, layer, differing, places, cause)


def _handed_on(result, layer: str, differing: tuple) -> dict[str, str]:
    """Side -> the line where what a setting was given parts: one side's hands it on.

    Empty where that is the line that builds the layer.
    """
    chains = [result.handed.get(side, {}).get(layer, []) for side in SIDES]
    for level in reversed(range(min(map(len, chains)) - 1)):
        torch, paddle = (chain[level]["given"] for chain in chains)
        parts = {(torch[n], paddle[n]) for n in torch if n in paddle}
        if not parts.isdisjoint(each[1:] for each in differing):
            return {side: c[level + 1]["line"] for side, c in zip(SIDES, chains, strict=True)}
    return {}


def _computed_by(key: Key) -> str:
    """The output of the module whose own code makes a value, or hands a gradient back; else ""."""
    if key.kind == "grad":
        return key.prefix + parent_of(key.site)
    return str(replace(key, kind="", local="")) if key.is_input == (key.kind == "grad_of") else ""


def class_of(result, side: str, key: str) -> str:
    """The class of a row's module as a side names it; empty where no module is known."""
    return bare(result.classes.get(side, {}).get(key, ""))


def bare(named: str) -> str:
    """A class as sidecars name it, without what they say of it."""
    return named.removeprefix(f"{OWN} ").removesuffix(f" {IN_PLACE}")


def place_of(places: Mapping[str, str], key: str) -> str:
    """The line that computed a row; for a parameter's row, a line that uses its module."""
    if places.get(key):
        return places[key]
    parts = Key.parse(key)
    module = parent_of(parts.site)
    if parts.kind in ("grad", BUFFER) and f"{parts.prefix}{module}" in places:
        return Kind.WHERE_USED(line=places[f"{parts.prefix}{module}"], module=module)
    return NO_LINE
