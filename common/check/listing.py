"""`--preset help` and its like: what an option takes, of the models that are asked for."""

import argparse
from collections.abc import Sequence

from twincheck.common.check.guard import guarded
from twincheck.common.pair.case_hooks import reads_file
from twincheck.common.pair.option import Option
from twincheck.common.pair.pairs import BOTH, Pair, built_in_models, load_pairs
from twincheck.common.report import terminal as report
from twincheck.common.system.extras import load
from twincheck.common.system.reasons import Kind
from twincheck.common.transplant.table import TRANSPLANTS


def show_values(asked: Sequence[Option], told: argparse.Namespace) -> int:
    """Print what options take; returns the exit status.

    told     what the rest of the command line says
    """

    def show() -> int:
        for one in asked:
            for line in _lines(one, told):
                report.say(line)
        return 0

    return guarded(getattr(told, "debug", False), show)


def _lines(one: Option, told: argparse.Namespace) -> list[str]:
    name = one.name
    if name == "model":
        return [Kind.MODELS_LISTED(models=", ".join(built_in_models()))]
    if name == "transplant":
        return [f"--transplant: {load(TRANSPLANTS, 'listed')()}"]
    if name in ("preset", "case"):
        models = told.model if isinstance(told.model, list) else [told.model or "all"]
        preset = getattr(told, "preset", "default")
        return [_of_model(name, pair, preset, told) for pair in load_pairs(models)]
    return [f"--{name}: {', '.join(one.told['choices'])}"]


def _of_model(name: str, pair: Pair, preset: str, told: argparse.Namespace) -> str:
    if name == "preset":
        values = [
            Kind.PRESET_READS_FILE(preset=str(known)) if reads_file(pair, known) else str(known)
            for known in pair.case.CONFIGS
        ]
        return Kind.PRESETS_LISTED(model=pair.name, presets=", ".join(values))
    weights, mode = getattr(told, "weights", None), getattr(told, "mode", BOTH)
    cases = pair.cases(preset, weights, mode, decode=True)
    names = ", ".join(case.name or "main" for case in cases)
    return Kind.CASES_LISTED(model=pair.name, preset=preset, cases=names)
