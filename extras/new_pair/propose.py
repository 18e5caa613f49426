"""RENAME and `convert` of a pair, proposed, each with its proof.

    of_pair(folder, chosen, seed)   builds both sides and asks them
    propose(torch, paddle)          of two structures

No framework is imported.  What is proposed is judged by twincheck certificate as any other.
"""

import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from twincheck.common.check.workers import Processes
from twincheck.common.pair.pairs import load_pair
from twincheck.common.pair.request import FIRST, RunRequest
from twincheck.common.pair.task import SEE, TRY, Inspect
from twincheck.common.system.errors import UserError
from twincheck.common.system.frameworks import SIDES
from twincheck.common.system.interpreters import interpreter
from twincheck.common.weights.layers import COMPAT, torch_locals
from twincheck.common.weights.layout import Layout
from twincheck.extras.new_pair import Kind
from twincheck.extras.new_pair.align import align, similarity, words
from twincheck.extras.new_pair.assignment import Assignment, Match, Models
from twincheck.extras.new_pair.proofs import open_questions, proofs
from twincheck.extras.new_pair.rename import shortest
from twincheck.extras.new_pair.search import Found, Search
from twincheck.extras.new_pair.source import convert_source
from twincheck.extras.new_pair.structure import (
    MULTIHEAD,
    Structure,
    Unit,
    halved,
    in_halves,
    read_structure,
)
from twincheck.extras.new_pair.trials import CLOSE, Trials, Tried, distance

# Names of whole layers, which no weight needs, are worth so many more lines.
_LONGER = 1.25


@dataclass
class Proposal:
    """A proposal of what case.py is to say of the weights.

    rename    RENAME: Paddle's names -> torch's, the shortest
    convert   the source of a function `convert(torch_state)`; empty where none is needed
    proofs    a sentence for each name or weight, why it is so
    open      sentences on what is not decided, with what to write
    """

    rename: dict[str, str] = field(default_factory=dict)
    convert: str = ""
    proofs: list[str] = field(default_factory=list)
    open: list[str] = field(default_factory=list)


def propose(torch: Structure, paddle: Structure, trials: Trials | None = None) -> Proposal:
    """RENAME and `convert` for two models.

    trials   tries assignments in the Paddle side's process; None: names, shapes and order decide
    """
    models = trials.models if trials else Models(torch, paddle)
    pairs, fused, stacks = align(torch, paddle)
    matches = {name: models.match(name, other) for name, other in pairs.items()}
    assignment = Assignment(matches, tuple(fused), tuple(stacks))
    found = Found(assignment, Tried())
    if trials is not None:
        found = Search(trials, models).settle(assignment)
        # Such as a batch norm with an activation in it: its own result is what goes on in Paddle.
        own = frozenset(e.unit for e in found.tried.failing if e.what == "out" and e.unit)
        again = trials.run(found.assignment, own) if own else found.tried
        if own and {event.unit for event in again.failing} <= own and not again.error:
            found = replace(found, tried=again, more=own)
    names: dict[str, str] = {}
    for name, match in found.assignment.matches.items():
        names |= names_of(paddle.units[name], torch.units[match.torch], match)
    rename = shortest(names)
    longer = shortest(names | modules_of_equal_value(models, found))
    if len(longer) <= _LONGER * len(rename) + 1:
        rename = longer
    convert = convert_source(models.to_convert(found.assignment))
    told = _not_carried(models, rename, convert)
    errors = {"torch": torch.error, "Paddle": paddle.error}
    failed = [Kind.PASS_FAILED(side=s, error=error) for s, error in errors.items() if error]
    if found.tried.error:
        failed.append(Kind.PASS_WITH_WEIGHTS_FAILED(error=found.tried.error))
    questions = [*failed, *open_questions(found, models, told), *filter(None, [told])]
    return Proposal(rename, convert, list(proofs(found, models)), questions)


def _not_carried(models: Models, rename: Mapping[str, str], convert: str) -> str:
    """Return what is left over, or tied on one side alone, by the proposal; else an empty text."""
    made: dict = {"np": np}
    exec(convert, made)  # what was written just now
    try:
        Layout(models.torch.owners, models.paddle.owners, rename, made.get("convert"))
    except UserError as error:
        return str(error)
    return ""


def modules_of_equal_value(models: Models, found: Found) -> dict[str, str]:
    """Modules around units, such as whole layers, that hold the same units and give the same.

    The check then compares what they give; no weight needs their names.
    """
    torch, paddle, tried = models.torch, models.paddle, found.tried.calls
    if tried is None:
        return {}
    partners = {name: {match.torch} for name, match in found.assignment.matches.items()}
    partners |= {name: set(each.torch) for each in found.assignment.fused for name in each.paddle}
    around: dict[frozenset, list[str]] = {}
    for name in torch.modules:
        around.setdefault(torch.units_in(name), []).append(name)
    names = {}
    for name in paddle.modules:
        inside = paddle.units_in(name)
        calls = tried.calls_of(name)
        if not name or name in paddle.units or not inside or not calls or not calls[0].gave:
            continue
        wanted = frozenset().union(*(partners.get(unit, {None}) for unit in inside))
        value = tried.values[f"{calls[0].number}/out/0"]
        fit = []
        for other in around.get(wanted, ()):
            for call in torch.calls_of(other)[:1] if other else ():
                same = call.gave[:1] == calls[0].gave[:1]
                if same and distance(value, torch.values[f"{call.number}/out/0"], True) <= CLOSE:
                    fit.append(other)
        if fit:
            likeness = {o: (o == name, similarity(words(name), words(o))) for o in fit}
            names[name] = max(fit, key=likeness.get)
    return names


def names_of(paddle: Unit, torch: Unit, match: Match) -> dict[str, str]:
    """The names that RENAME maps for one unit: its own, and its weights' where they differ."""
    names = {paddle.name: torch.name} if paddle.name and torch.name else {}
    for mine, its in match.locals.items():
        known = next((n for n in torch_locals(paddle.entries[mine]) if n in torch.entries), None)
        if not halved(mine, its) and (known != its or not names):
            names[paddle.key(mine)] = torch.key(its)
    return names


def of_pair(
    folder: Path,
    chosen: Mapping[str, str | None],
    seed: int = 0,
    processes: Processes | None = None,
) -> Proposal:
    """Propose RENAME and `convert` for a pair's folder, whose case.py has no RENAME yet.

    chosen      side -> the Python that was named for it
    processes   of the sides, which go on with the check; by default new ones, which end here
    Raises UserError where a side cannot be built.
    """
    pair = load_pair(str(folder))
    see = RunRequest(model=pair.model, seed=seed, task=Inspect(SEE))
    with ExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="propose-")))
        processes = processes or stack.enter_context(Processes())
        asked = {}
        for side in SIDES:
            python = interpreter(side, chosen[side])
            asked[side] = processes.of(side, side, python, FIRST.format(side))
            asked[side].ask(see, work / f"request_{side}.json")
        for process in asked.values():
            process.finish()
        torch, paddle = (read_structure(work, side) for side in SIDES)
        # paddle.compat's keeps torch's one weight.
        kept = any(owner.kind == COMPAT + MULTIHEAD for owner in paddle.owners.values())
        torch = replace(in_halves(torch, paddle), splits=not kept)
        paddle = in_halves(paddle, torch)
        if torch.error or paddle.error:
            return propose(torch, paddle)
        request = replace(see, task=Inspect(TRY))
        return propose(torch, paddle, Trials(asked["paddle"], request, work, Models(torch, paddle)))
