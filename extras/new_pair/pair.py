"""The files of a pair of two named models: both are looked at, matched and written.

With --paddle paconvert the Paddle side is PaConvert's translation of the torch side, in the pair's
folder `translated`.
"""

import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from twincheck.common.check.workers import Processes
from twincheck.common.pair.pairs import own_folder
from twincheck.common.system.errors import UserError
from twincheck.common.system.frameworks import SIDES
from twincheck.extras.new_pair import Kind
from twincheck.extras.new_pair.described import Asked, Described, describe
from twincheck.extras.new_pair.inputs import Input, proposals
from twincheck.extras.new_pair.loader import loader_lines
from twincheck.extras.new_pair.loss import choose_loss
from twincheck.extras.new_pair.outputs import match_outputs
from twincheck.extras.new_pair.own_files import make_links
from twincheck.extras.new_pair.paconvert import Translation, find_paconvert, translate
from twincheck.extras.new_pair.propose import Proposal, of_pair
from twincheck.extras.new_pair.record import read_record, write_pair
from twincheck.extras.new_pair.remarks import remarks, remarks_on_translation
from twincheck.extras.new_pair.spec import Spec
from twincheck.extras.new_pair.thin import TRANSLATED, Plan, case_text, inputs_text, model_text

PACONVERT, COMPAT = "paconvert", "compat"  # in place of a SPEC


@dataclass
class Made:
    """A pair's files, its translation among them, and what is to be said of them."""

    texts: dict[str, str]
    lines: list[str]
    problem: str = ""  # why the translation does not run yet


def make_pair(
    asked: Asked,
    work: Path,
    target: Path,
    update: bool,
    on_progress: Callable[[str], None],
    processes: Processes,
) -> Made:
    """Write a pair's files into `work`, a folder beside `target`, whose name it will have.

    update      the target is there, and what was edited in its translation stays
    processes   of the sides, which go on with the check
    Raises UserError for what cannot be imported, built, run or matched.
    """
    translation, problem = None, ""
    tried = list(proposals(asked.inputs))
    with tempfile.TemporaryDirectory(prefix="new-") as answers:
        drawn = [_drawn(inputs, asked) for inputs in tried]
        specs = {side: spec for side, spec in asked.specs.items() if spec}
        on_progress(Kind.LOOKING_AT(specs=list(map(str, specs.values()))))
        sides = describe(specs, asked, drawn, Path(answers), processes)
        if len(specs) == 1:
            on_progress(Kind.TRANSLATING(spec=str(specs["torch"])))
            translation = _translated(asked, sides["torch"], work, target, update)
            specs["paddle"] = translation.spec
            asked = replace(
                asked, configs=asked.configs | {"paddle": translated_config(asked, translation)}
            )
            try:
                translated = {"paddle": specs["paddle"]}
                sides |= describe(translated, asked, drawn, Path(answers), processes)
            except UserError as error:  # the user mends the translation, and goes on from there
                problem = translation.explained(str(error))
                sides["paddle"] = replace(
                    sides["torch"], side="paddle", spec=specs["paddle"], stand_in=None, bare={}
                )
    inputs = tried[sides["torch"].drawn]
    matched = match_outputs(sides["torch"], sides["paddle"])
    loss = choose_loss(specs["torch"].name, inputs, matched.outputs)
    places = dict.fromkeys(SIDES, "")
    for side in sides if translation is None else ("torch",):
        if sides[side].links:
            places[side] = own_folder(side)
            make_links(sides[side].links, work / places[side], target / places[side])
    if translation:
        places["paddle"] = TRANSLATED
    arguments = asked.arguments
    plan = Plan(arguments[""], arguments, inputs, sides, matched, loss, places)
    proposal = Proposal()
    write_pair(work, _texts(plan, proposal, False), [], asked.chosen)
    if not problem:
        on_progress(Kind.MATCHING_WEIGHTS())
        proposal = of_pair(work, asked.chosen, asked.seed, processes)
    lines = [*remarks(plan, asked.inputs), *proposal.proofs, *proposal.open]
    texts = _texts(plan, proposal, asked.loader)
    if translation:
        lines += remarks_on_translation(translation)
        texts |= {f"{TRANSLATED}/{place}": text for place, text in translation.texts.items()}
    return Made(texts, lines, problem)


def _drawn(inputs: Sequence[Input], asked: Asked) -> dict[str, np.ndarray]:
    """The inputs' values, drawn by the very text that case.py gets."""
    names: dict[str, object] = {"np": np}
    exec(inputs_text(None, inputs), names)
    return names["make_inputs"](asked.arguments[""], asked.seed)


def _texts(plan: Plan, proposal: Proposal, loader: bool) -> dict[str, str]:
    texts = {"case.py": case_text(plan, proposal.rename, proposal.convert)}
    texts |= {f"{side}_model.py": model_text(plan, side) for side in SIDES}
    if loader:
        packages = {side: plan.sides[side].spec.module for side in SIDES}
        attributes = dict.fromkeys(SIDES, "network" if plan.wrapped else "")
        for file, more in loader_lines(packages, attributes).items():
            texts[file] += more
    return texts


# ---- PaConvert ----------------------------------------------------------------------------------


def translated_config(asked: Asked, translation: Translation) -> Spec | None:
    """The translation's class of a configuration, where torch's was named."""
    of_torch = asked.configs.get("torch")
    return of_torch and replace(of_torch, file=None, root=translation.spec.root)


def _translated(
    asked: Asked, torch: Described, work: Path, target: Path, update: bool
) -> Translation:
    """Translate the torch side into the pair's folder; what the user has edited or added stays."""
    former = read_record(target)["texts"] if update else {}
    for path in sorted((target / TRANSLATED).rglob("*.py")) if update else ():
        place = path.relative_to(target)
        if path.read_text(encoding="utf-8") != former.get(place.as_posix()):
            (work / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, work / place)
    python = find_paconvert(asked.paconvert_python)
    spec = torch.spec if torch.spec.file else replace(torch.spec, module=torch.defined_in)
    return translate(spec, work / TRANSLATED, python, torch.path)
