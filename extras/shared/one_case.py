"""What a side runs where it is asked for one model in one precision at a time."""

from twincheck.common.pair.case_hooks import data_preset
from twincheck.common.pair.pairs import Case, Pair
from twincheck.common.pair.request import RunRequest


def data_case(pair: Pair, request: RunRequest) -> Case:
    """The preset that steps 2 and 5 run, once and without the pair's own data."""
    config = pair.config(data_preset(pair, request.preset))
    inputs = (pair.published or {}).get("inputs", {})
    return Case("", config, inputs, weights=request.data_weights)


def asked_precision(request: RunRequest) -> tuple[str]:
    """For a script that runs in one precision at a time: float32 where only that is asked for."""
    return ("float32",) if request.only_float32 else ("float64",)
