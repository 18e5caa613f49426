"""The kinds of value that a sidecar's entries hold, beside those of common/system/json_kinds.py."""

import math
from typing import Annotated

from twincheck.common.system.json_kinds import (
    Check,
    dict_of,
    index,
    is_of,
    length,
    list_of,
    number_or_null,
    or_null,
    record,
    size,
    text,
    whole,
    yes_or_no,
)

_part = is_of(int, float, of=lambda value: 0 < value <= 1)


def _shape(value: object) -> bool:
    """Return whether this is the shape of a tensor with values, which a machine can address."""
    lengths = isinstance(value, list) and all(map(length, value))
    return lengths and math.prod(value) < 2**48


_texts = list_of(text)


def _dict(needed: dict[str, Check], further: dict[str, Check] | None = None) -> object:
    return Annotated[dict, record(needed, further)]


# What extras/bits/patch.py counts of one operator.
Tally = _dict(
    dict.fromkeys(("calls", "differed", "gradients", "gradients_differed"), whole)
    | {"largest": size, "where": text, "untaken": dict_of(whole)}
)

# What step 4's workers find of one case: one SGD step, and a finite difference of the loss.
Witness = _dict(
    dict.fromkeys(("sgd_off", "largest_gradient", "gradient_norm"), number_or_null)
    | dict.fromkeys(("largest_weight", "directional"), number_or_null)
    | {"sgd_worst": text},
    dict.fromkeys(("finite_difference", "loss_noise"), number_or_null)
    | {"half": yes_or_no, "finite_step": is_of(float, of=lambda value: 0 < value < 1)},
)

# How much noise the perturbed weights of a case have, and which of its state is one number still;
# and the factor on step 4's learning rates.
Noise = _dict({"level": _part, "because": text}, {"constant": _texts})
Edges = _dict({"padding": list_of(index), "taken": _texts, "parts": _texts, "why": text})
Factor = _dict({"factor": _part, "because": text})

# Which of a large model's set-ups take given gradients, and how many values its parameters have.
Given = _dict({"values": whole, "setups": _texts})

# What common/weights/layout.py says of one entry of a state dict, and of all of a case.
_LAYOUT_ROW = record(
    dict.fromkeys(("torch_key", "paddle_key", "kind", "change", "probe", "variance"), text)
    | dict.fromkeys(("transposed", "parameter", "parameter_in_torch_alone"), yes_or_no)
    | dict.fromkeys(("torch_keys", "also_in_torch", "also_in_paddle"), _texts)
    | {"padding": lambda value: list_of(or_null(index))(value) and len(value) == 2}
)

# common/logs/draws.py says what these are.
_DRAW = record(dict.fromkeys(("kind", "site", "place"), text) | {"shape": list_of(whole)})
Passes = _dict({"passes": whole, "draws": list_of(_DRAW)})

Layout = _dict(
    dict.fromkeys(("only_torch", "only_paddle", "problems"), _texts)
    | {"rows": list_of(_LAYOUT_ROW), "without_partner": dict_of(text)}
)

# Which full log the guide's pair was selected from (common/logs/guide_pair.py).
Selection = _dict({"log": text, "sha256": text, "keys": dict_of(text)})

# A line that led to where a layer is built, and the numbers that its function was given.
Handed = _dict({"line": text, "given": dict_of(number_or_null)})

# How many values a running variance is of, what the model holds, and what was compared.
Variance = _dict(dict.fromkeys(("n", "held", "compared"), size))

Shape = Annotated[list, _shape]
Length = Annotated[int, length]
Number = Annotated[float, number_or_null]
# The class of a parameter's layer, its name in there, the line, and the names of what it holds.
Owner = Annotated[list, lambda value: _texts(value) and len(value) > 2]
