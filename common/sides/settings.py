"""The numbers that the framework's own layers were built with, under one name for both sides.

A check names the one that differs where a layer computes something else from the same input.
"""

import math

from twincheck.common.logs.sidecar import IN_WORDS
from twincheck.common.system.reasons import Kind

# What a sentence calls a setting -> where torch's layers keep it, and where Paddle's do.
_KEPT = {
    "epsilon": ("eps", "_epsilon"),
    "momentum": ("momentum", "_momentum"),
    "rate": ("p", "p"),
    Kind.SETTING_NUMBER_OF_GROUPS(): ("num_groups", "_num_groups"),
    "groups": ("groups", "_groups"),
    Kind.SETTING_NEGATIVE_SLOPE(): ("negative_slope", "_negative_slope"),
    "alpha": ("alpha", "_alpha"),
    "beta": ("beta", "_beta"),
    "threshold": ("threshold", "_threshold"),
    Kind.SETTING_TANH_FORM(): ("approximate", "_approximate"),
    Kind.SETTING_PADDING_MODE(): ("padding_mode", "_padding_mode"),
}
_SPELT = {"none": "off", "tanh": "on", False: "off", True: "on"}


def settings_of(module: object, side: str) -> dict[str, float]:
    """The settings that a layer of one side's framework has; plain numbers from 0 alone."""
    own = vars(module)
    found = {}
    for name, places in _KEPT.items():
        value = own.get(places[side == "paddle"])
        if isinstance(value, str | bool):
            told, known = _SPELT.get(value, value), IN_WORDS.get(name, ())
            value = known.index(told) if told in known else None
        if type(value) not in (int, float) or not (math.isfinite(value) and 0 <= value < 1e12):
            continue
        if name == "momentum" and side == "paddle":
            value = 1.0 - value  # of the running statistics: torch's is the new batch's part
        found[name] = float(value)
    return found
