"""What both sides give for what will be published: the weights in Paddle's layout, inputs, outputs.

The two sides run step 1 once, in float32, with no probe: torch's makes the weights, Paddle's the
outputs that the exported repository must give again.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from twincheck.common.logs.key import Key
from twincheck.common.logs.reader import read_log
from twincheck.common.logs.result_folder import ResultFolder
from twincheck.common.logs.sidecar import read_sidecar
from twincheck.common.pair.pairs import (
    PERTURBED,
    TRAINED_LIKE,
    Case,
    Pair,
    chosen_cases,
    is_checkpoint,
)
from twincheck.common.pair.request import RunRequest
from twincheck.common.system.errors import UserError
from twincheck.common.system.frameworks import SETTINGS
from twincheck.common.system.run_kind import RunKind
from twincheck.common.weights.checkpoint import FOLDER, Checkpoint, describe, prepare, run_side
from twincheck.common.weights.layout import Layout
from twincheck.common.weights.states import load_owners, load_state
from twincheck.extras.publish import Kind
from twincheck.extras.shared.write import write

STEM = "forward_all"


@dataclass
class Published:
    """One case of a pair as it is to be published."""

    pair: Pair
    case: Case
    preset: str
    seed: int
    weights: Path  # model_state.pdparams
    origin: str  # of the weights, in words
    inputs: dict[str, np.ndarray] = field(default_factory=dict)
    outputs: dict[str, np.ndarray] = field(default_factory=dict)  # of the Paddle model, float32
    versions: dict[str, str] = field(default_factory=dict)  # of the Paddle side's Python
    draws: bool = False  # the model draws random numbers in eval mode
    own_draws: bool = False  # by Paddle's own functions, which the worker gives the tape's numbers


def run_both(
    pair: Pair, options, pythons: Mapping[str, str], work: Path, on_progress: Callable[[str], None]
) -> Published:
    """Run both sides of one case and collect what is published of it.

    Raises UserError, in a side's own words where it cannot run the model.
    """
    preset, weights, seed = options.preset, options.weights, options.seed
    from_file = is_checkpoint(weights)
    if from_file:
        on_progress(Kind.READING_WEIGHTS())
        pair, checkpoint = prepare(pair, weights, preset, False, pythons, work, both=True)
        file = checkpoint.files.path
    case = _case(pair, preset, options.case, weights)
    if from_file:
        origin = Kind.ORIGIN_FILE(file=file.name, folder=file.parent.name)
    elif weights == TRAINED_LIKE:
        origin = Kind.ORIGIN_TRAINED_LIKE(seed=seed)
    elif PERTURBED in (weights, case.weights):
        origin = Kind.ORIGIN_PERTURBED(seed=seed)
    else:
        origin = Kind.ORIGIN_INITIAL(seed=seed)
    folder = work / pair.name
    request = RunRequest(
        pair.model,
        preset,
        seed=seed,
        weights=weights,
        published=str(work / FOLDER) if from_file else None,
        cases=(case.name or "main",),
        no_probe=True,
        only_float32=True,
        keep="all",
    )
    for side in ("torch", "paddle"):
        on_progress(Kind.RUNNING_SIDE(side=side))
        run_side(side, pythons[side], request, folder / f"request_{side}.json", on_progress)
    on_progress(Kind.WRITING_WEIGHTS())
    path = work / "model_state.pdparams"
    write(path, _in_both_layouts(pair, preset, case, folder, pythons, work), pythons, work)
    inputs = pair.inputs(case, preset, seed)
    told = origin, inputs
    return Published(pair, case, preset, seed, path, *told, **_logged(folder, case))


def _case(pair: Pair, preset: str, name: str | None, weights: str | None) -> Case:
    """The case that --case names, else the first; UserError for one in train mode."""
    cases = pair.cases(preset, weights)
    case = chosen_cases(cases, [name] if name else [])[0]
    if case.train:
        others = [c.name or "main" for c in cases if not c.train]
        raise UserError(Kind.CASE_TRAINS(case=str(name), others=others))
    return case


def _in_both_layouts(pair, preset, case: Case, folder: Path, pythons, work: Path) -> Checkpoint:
    """The weights that the case started from, and how they go to Paddle."""
    stored = ResultFolder(folder).weights(case.name)
    owners = {
        "torch": load_owners(stored.with_suffix(".json")),
        "paddle": describe(
            "paddle", pair, pythons["paddle"], preset, work, cases=(case.name or "main",)
        ),
    }
    hooks = getattr(pair.case, "RENAME", {}), getattr(pair.case, "convert", None)
    layout = Layout(owners["torch"], owners["paddle"], *hooks)
    return Checkpoint(None, state=load_state(stored), owners=owners, layout=layout)


def _logged(folder: Path, case: Case) -> dict[str, object]:
    """Read the Paddle model's log: outputs, with its own discrete choices, and versions."""
    files = ResultFolder(folder)
    alone = files.log(STEM, "paddle", RunKind.UNFORCED)
    path = alone if alone.is_file() else files.log(STEM, "paddle", RunKind.PLAIN)
    sidecar = read_sidecar(path)
    prefix = f"{case.name}/" if case.name else ""
    with read_log(path) as log:
        keys = [Key.parse(key, [prefix] if prefix else []) for key in log]
        plain = [key for key in keys if not (key.kind or key.choice or key.local)]
        wanted = [str(key) for key in plain if str(key) not in sidecar.choices]
        outputs = {key[len(prefix) :]: np.array(log[key]) for key in wanted}
    settings = {name: sidecar.environment.get(name) for name in SETTINGS}
    versions = {
        "paddlepaddle": sidecar.framework_version,
        "numpy": sidecar.environment["numpy"],
        "python": sidecar.environment["python"],
        "variables": " ".join(f"`{name}={value}`" for name, value in settings.items() if value),
    }
    own = bool(sidecar.draws or sidecar.untaped_draws)
    draws = own or bool(sidecar.choices)
    return {"outputs": outputs, "versions": versions, "draws": draws, "own_draws": own}
