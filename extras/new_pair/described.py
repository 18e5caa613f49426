"""A side's process says what a named class is: how it is called, and what it returns.

extras/new_pair/library.py answers, in a fork of the process of each side, both at once.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from twincheck.common.check.workers import Processes
from twincheck.common.pair.request import FIRST
from twincheck.common.system.errors import UserError
from twincheck.common.system.json_file import load_json, write_json
from twincheck.common.system.reasons import read_value
from twincheck.extras.new_pair import Kind
from twincheck.extras.new_pair.inputs import LABELS, Input
from twincheck.extras.new_pair.spec import Spec

LIBRARY = "twincheck.extras.new_pair.library"


@dataclass(frozen=True)
class Asked:
    """The request of a command line: both models, what they are built with, and the inputs."""

    specs: Mapping[str, Spec | None]  # None: PaConvert's translation of the other
    configs: Mapping[str, Spec | None]
    arguments: Mapping[str, dict]  # "": both sides' -> what they are built with; a side -> its own
    inputs: Sequence[Input]
    chosen: Mapping[str, str | None]  # side -> the Python that was named for it
    pythons: Mapping[str, str]  # side -> the one that runs it
    seed: int = 0
    loader: bool = False
    paconvert_python: str | None = None


@dataclass(frozen=True)
class Outputs:
    """The outputs of a model: their kind, and each tensor's path and shape."""

    kind: str  # tensor, sequence, named or nothing
    attributes: bool  # of a named one: its values are attributes, not items
    leaves: list[tuple[tuple, tuple[int, ...], bool]]  # path, shape, whether it is of floats


@dataclass(frozen=True)
class Described:
    """A class as its side's process found it; each field has a sentence."""

    side: str
    spec: Spec
    # Module and name of the class of its configuration, None where it takes keywords.
    config: tuple[str, str] | None
    # What was set since it runs on a CPU.
    set_for_cpu: dict
    # What it is built with, its own defaults included: plain values alone.
    settings: dict
    # Words on entries that its configuration does not know.
    unknown: list[str]
    # The module that must be put in the place of one that cannot be imported.
    stand_in: str | None
    # Package -> what its __init__.py needs and is not there: it is imported without that file.
    bare: dict[str, str]
    # Name -> the user's file or folder that its imports or its constructor need by that name.
    links: dict[str, str]
    # Input -> the parameter of forward that takes it.
    call: dict[str, str]
    # All parameters of forward.
    takes: list[str]
    # Further keywords of the call, such as return_dict=True.
    call_options: dict
    outputs: Outputs
    # Which of the inputs that were to be tried it runs on: the number.
    drawn: int = 0
    # The module that defines it, which may be deeper in its package.
    defined_in: str = ""
    # Where its Python looked for modules.
    path: list[str] = field(default_factory=list)


def describe(
    specs: Mapping[str, Spec],
    asked: Asked,
    arrays: Sequence[Mapping[str, np.ndarray]],
    work: Path,
    processes: Processes,
) -> dict[str, Described]:
    """Side -> what its process says of its class; raises UserError with what is wrong.

    arrays   the inputs' values, and others to try where it does not run on these
    work     a folder for the requests and answers
    processes   of the sides, which go on with the check
    """
    for number, values in enumerate(arrays):
        np.savez(work / f"inputs_{number:03}.npz", **values)
    running = {}
    for side, spec in specs.items():
        path = work / f"{side}.json"
        write_json(path, request_for(side, spec, asked, work))
        process = processes.of(side, side, asked.pythons[side], FIRST.format(side))
        process.module = LIBRARY
        process.hand_over(path)
        running[path] = process, spec, work / f"{side}_answer.json"
    for path, (process, spec, answer) in running.items():
        failure = process.failure(path)
        if failure or not answer.is_file():
            why = failure.reason if failure else Kind.ANSWER_MISSING()
            raise UserError(Kind.OF_SPEC(spec=str(spec), why=why))
    return {side: _described(side, spec, work) for side, spec in specs.items()}


def request_for(side: str, spec: Spec, asked: Asked, work: Path) -> dict:
    """Return the request to a side's process; it finds the inputs in `work`, and answers there."""
    config = asked.configs.get(side)
    roots = [str(one.root) for one in (spec, config) if one and one.root]
    other = "paddle_name" if side == "paddle" else "name"
    taken = [one for one in asked.inputs if one.kind != LABELS]
    return {
        "side": side,
        "spec": f"--{side} {spec}",
        "module": spec.module,
        "name": spec.name,
        "config_spec": f"--{side}-config {config}",
        "config_module": config and config.module,
        "config_name": config and config.name,
        "file": spec.file and str(spec.file),
        "path": list(dict.fromkeys(roots)),
        "cwd": os.getcwd(),
        "compat": spec.compat,
        "shared": repr(asked.arguments[""]),  # JSON knows no tuples
        "own": repr(asked.arguments.get(side, {})),
        "names": {one.name: getattr(one, other) or one.name for one in taken},
        "inputs": sorted(map(str, work.glob("inputs_*.npz"))),
        "seed": asked.seed,
        "answer": str(work / f"{side}_answer.json"),
    }


def _described(side: str, spec: Spec, work: Path) -> Described:
    answer = load_json(work / f"{side}_answer.json")
    if "error" in answer:
        raise UserError(read_value(answer["error"]))
    unknown = read_value(answer.pop("unknown"))
    outputs = answer.pop("outputs")
    leaves = [(tuple(path), tuple(shape), floats) for path, shape, floats in outputs["leaves"]]
    config, module = answer.pop("config"), answer.pop("module")
    root = spec.file and spec.file.parents[module.count(".")]
    return Described(
        side,
        replace(spec, module=module, root=root),
        config=tuple(config) if config else None,
        outputs=Outputs(outputs["kind"], outputs["attributes"], leaves),
        unknown=unknown,
        **answer,
    )
