"""The kinds of value that a sidecar's entries may hold: one check and one name for each.

A check sees plain JSON that anybody may have written.  It must accept only what every reader can
use as it is, since nothing looks at the value again.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

Check = Callable[[object], bool]


@dataclass(frozen=True)
class Kind:
    """What an entry's value must be."""

    fits: Check
    name: str  # as a refusal spells it: "its seed is 'x', not a whole number"
    absent: Callable[[], object] = lambda: None  # makes what an entry reads as that is not there


def _is(*kinds: type, of: Check = lambda value: True) -> Check:
    """Of a value of exactly these types of JSON's, of which more may be asked."""
    return lambda value: type(value) in kinds and of(value)


def or_null(fits: Check) -> Check:
    return lambda value: value is None or fits(value)


def text(value: object) -> bool:
    return isinstance(value, str)


yes_or_no = _is(bool)
whole = _is(int, of=lambda value: 0 <= value < 2**63)
length = _is(int, of=lambda value: 0 < value < 2**63)
# Any size: not negative, and nothing that a sum of many would not hold.
_seconds = _is(int, float, of=lambda value: 0 <= value < 1e12)
_part = _is(int, float, of=lambda value: 0 < value <= 1)
_index = _is(int, of=lambda value: abs(value) < 2**63)  # a larger one may not fit into a float


def _shape(value: object) -> bool:
    """That of a tensor with values; no more than a machine can address."""
    lengths = isinstance(value, list) and all(map(length, value))
    return lengths and math.prod(value) < 2**48


# Any float but infinity, for which JSON has no word; null stands for what is not finite.
number_or_null = or_null(lambda value: _index(value) or _is(float, of=math.isfinite)(value))


def list_of(item: Check) -> Check:
    return lambda value: isinstance(value, list) and all(map(item, value))


def dict_of(item: Check) -> Check:
    return lambda value: isinstance(value, dict) and all(map(item, value.values()))


def record(needed: dict[str, Check], further: dict[str, Check] | None = None) -> Check:
    """Of a dict that has all of `needed`, perhaps some of `further`, and nothing else."""
    checks = needed | (further or {})

    def fits(value: object) -> bool:
        if not isinstance(value, dict) or not needed.keys() <= value.keys() <= checks.keys():
            return False
        return all(checks[name](item) for name, item in value.items())

    return fits


_texts = list_of(text)

# What extras/bits/patch.py counts of one operator.
_TALLY = record(
    dict.fromkeys(("calls", "differed", "gradients", "gradients_differed"), whole)
    | {"largest": _seconds, "where": text, "untaken": dict_of(whole)}
)

# What step 4's workers find of one case: one SGD step, and a finite difference of the loss.
_WITNESS = record(
    dict.fromkeys(("sgd_off", "largest_gradient", "gradient_norm"), number_or_null)
    | dict.fromkeys(("largest_weight", "directional"), number_or_null)
    | {"sgd_worst": text},
    dict.fromkeys(("finite_difference", "loss_noise"), number_or_null)
    | {"half": yes_or_no, "finite_step": _is(float, of=lambda value: 0 < value < 1)},
)

# How much noise the perturbed weights of a case have, and the factor on step 4's learning rates.
_NOISE = record({"level": _part, "because": text})
_FACTOR = record({"factor": _part, "because": text})

# Which of a large model's set-ups take given gradients, and how many values its parameters have.
_GIVEN = record({"values": whole, "setups": _texts})

# What common/weights/layout.py says of one entry of a state dict, and of all of a case.
_LAYOUT_ROW = record(
    dict.fromkeys(("torch_key", "paddle_key", "kind", "change", "probe", "variance"), text)
    | dict.fromkeys(("transposed", "parameter", "parameter_in_torch_alone"), yes_or_no)
    | dict.fromkeys(("torch_keys", "also_in_torch", "also_in_paddle"), _texts)
    | {"padding": lambda value: list_of(or_null(_index))(value) and len(value) == 2}
)


# common/logs/draws.py says what these are.
_DRAW = record(dict.fromkeys(("kind", "site", "place"), text) | {"shape": list_of(whole)})
_PASSES = record({"passes": whole, "draws": list_of(_DRAW)})

_LAYOUT = record(
    dict.fromkeys(("only_torch", "only_paddle", "problems"), _texts)
    | {"rows": list_of(_LAYOUT_ROW), "without_partner": dict_of(text)}
)

# Which full log the guide's pair was selected from (common/logs/guide_pair.py).
_SELECTION = record({"log": text, "sha256": text, "keys": dict_of(text)})

# A line that led to where a layer is built, and the numbers that its function was given.
_HANDED = record({"line": text, "given": dict_of(number_or_null)})

# How many values a running variance is of, what the model holds, and what was compared.
_VARIANCE = record(dict.fromkeys(("n", "held", "compared"), _seconds))

# Of what the type of a sidecar's field does not say.
TALLIES = Kind(dict_of(_TALLY), "an operator's counts by name", dict)
WITNESSES = Kind(dict_of(_WITNESS), "what step 4's workers find, by case", dict)
NOISES = Kind(dict_of(_NOISE), "levels from 0 to 1 by case", dict)
GIVEN = Kind(dict_of(_GIVEN), "set-ups on given gradients by case", dict)
FACTORS = Kind(dict_of(dict_of(_FACTOR)), "factors from 0 to 1 by case, by set-up", dict)
LAYOUTS = Kind(dict_of(_LAYOUT), "where each weight goes, by case", dict)
VARIANCES = Kind(dict_of(_VARIANCE), "converted variances by key", dict)
HANDED = Kind(dict_of(list_of(_HANDED)), "lines and the numbers that were given there", dict)
NAMED_TEXTS = Kind(dict_of(text), "texts by name", dict)
OWNERS = Kind(
    dict_of(dict_of(lambda value: _texts(value) and len(value) > 2)),
    "lists by name, by name",
    dict,
)
OF_TYPE = {
    str | None: Kind(text, "text"),
    int | None: Kind(whole, "a whole number"),
    bool | None: Kind(yes_or_no, "true or false"),
    float: Kind(_seconds, "a number of seconds", float),
    list[str]: Kind(_texts, "a list of texts", list),
    dict[str, str]: NAMED_TEXTS,
    dict[str, str | None]: Kind(dict_of(or_null(text)), "texts or nulls by name", dict),
    dict[str, bool]: Kind(dict_of(yes_or_no), "true or false by name", dict),
    dict[str, int]: Kind(dict_of(whole), "whole numbers by name", dict),
    dict[str, int | None]: Kind(dict_of(or_null(length)), "lengths from 1 by name", dict),
    dict[str, list[int]]: Kind(dict_of(_shape), "shapes by name", dict),
    dict[str, list[str]]: Kind(dict_of(_texts), "lists of texts by name", dict),
    dict[str, list[dict]]: Kind(dict_of(list_of(_PASSES)), "lists of draws by case", dict),
    dict[str, dict[str, int]]: Kind(
        dict_of(dict_of(whole)), "whole numbers by name, by name", dict
    ),
    dict[str, dict[str, float]]: Kind(dict_of(dict_of(_seconds)), "sizes by name, by name", dict),
    dict[str, dict[str, dict[str, float]]]: Kind(
        dict_of(dict_of(dict_of(_seconds))), "sizes by name, by name", dict
    ),
    dict[str, dict[str, str]]: Kind(dict_of(dict_of(text)), "texts by name, by name", dict),
    dict[str, dict[str, list]]: Kind(
        dict_of(dict_of(list_of(number_or_null))), "lists by name, by name", dict
    ),
    dict[str, object]: Kind(_SELECTION, "a full log, its hash, and its keys by name", dict),
}
