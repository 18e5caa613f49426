"""RENAME and `convert` of a pair, proposed, each with its proof.

    of_pair(folder, torch_python, paddle_python, seed)   builds both sides and asks them
    propose(torch, paddle)                               of two structures

NumPy only.  What is proposed is judged by common.certificate as any other.
"""

import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from common.pair.pairs import load_pair
from common.pair.request import RunRequest
from common.pair.twin_process import TwinProcess
from common.setup.align import align
from common.setup.rename import shortest
from common.setup.structure import Structure, Unit, read_structure
from common.system.errors import UserError
from common.system.frameworks import SIDES
from common.system.interpreters import interpreter
from common.weights.layers import torch_locals
from common.weights.layout import Layout, LayoutError


@dataclass
class Proposal:
    """What case.py is to say of the weights.

    rename    RENAME: Paddle's names -> torch's, the shortest
    convert   the source of a function `convert(torch_state)`; empty where none is needed
    proofs    a sentence for each name or weight, why it is so
    open      sentences on what is not decided, with what to write
    """

    rename: dict[str, str] = field(default_factory=dict)
    convert: str = ""
    proofs: list[str] = field(default_factory=list)
    open: list[str] = field(default_factory=list)


def propose(torch: Structure, paddle: Structure) -> Proposal:
    """RENAME and `convert` for two models."""
    pairs = align(torch, paddle)
    names: dict[str, str] = {}
    for name, other in pairs.items():
        names |= names_of(paddle.units[name], torch.units[other])
    proposal = Proposal(shortest(names))
    for name, other in pairs.items():
        how = "by its name" if name == other else "by the order of calls"
        how = how if paddle.units[name].calls else "by the order in which they are built"
        proposal.proofs.append(f"{name} is {other}: {how} and its shapes")
    try:
        Layout(torch.owners, paddle.owners, proposal.rename)
    except LayoutError as error:
        proposal.open.append(str(error))
    return proposal


def names_of(paddle: Unit, torch: Unit) -> dict[str, str]:
    """The names that RENAME has to map for one unit: its own, and its weights' if they differ."""
    names = {paddle.name: torch.name} if paddle.name and torch.name else {}
    taken = set()
    for local, owner in paddle.entries.items():
        partner = next((n for n in torch_locals(owner) if n in torch.entries), None)
        if partner is not None:
            taken.add(partner)
            if not names:
                names[paddle.key(local)] = torch.key(partner)
    left = [n for n in torch.entries if n not in taken]
    for local, owner in paddle.entries.items():
        if any(n in torch.entries for n in torch_locals(owner)):
            continue
        same = [n for n in left if sorted(torch.entries[n].shape) == sorted(owner.shape)]
        if same:
            left.remove(same[0])
            names[paddle.key(local)] = torch.key(same[0])
    return names


def of_pair(
    folder: Path, torch_python: str | None = None, paddle_python: str | None = None, seed: int = 0
) -> Proposal:
    """The same for a pair's folder, whose case.py has no RENAME yet.

    Raises UserError where a side cannot be built.
    """
    pair = load_pair(str(folder))
    pythons = {"torch": torch_python, "paddle": paddle_python}
    request = RunRequest(model=pair.model, seed=seed, structure=True)
    with tempfile.TemporaryDirectory(prefix="propose-") as work:
        structures = {}
        for side in SIDES:
            python = interpreter(side, pythons[side])
            with TwinProcess(python, f"step1_forward.{side}.forward") as process:
                process.ask(request, Path(work) / f"request_{side}.json")
                failure = process.failure()
            if failure is not None:
                raise UserError(failure.sentence)
            structures[side] = read_structure(Path(work), side)
        return propose(*structures.values())
