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


def _or_null(fits: Check) -> Check:
    return lambda value: value is None or fits(value)


def _text(value: object) -> bool:
    return isinstance(value, str)


_yes_or_no = _is(bool)
_whole = _is(int, of=lambda value: 0 <= value < 2**63)
_length = _is(int, of=lambda value: 0 < value < 2**63)
# Any size: not negative, and nothing that a sum of many would not hold.
_seconds = _is(int, float, of=lambda value: 0 <= value < 1e12)
_part = _is(int, float, of=lambda value: 0 < value <= 1)
_index = _is(int, of=lambda value: abs(value) < 2**63)  # a larger one may not fit into a float


def _shape(value: object) -> bool:
    """That of a tensor with values; no more than a machine can address."""
    lengths = isinstance(value, list) and all(map(_length, value))
    return lengths and math.prod(value) < 2**48


# Any float but infinity, for which JSON has no word; null stands for what is not finite.
_number_or_null = _or_null(lambda value: _index(value) or _is(float, of=math.isfinite)(value))


def _list_of(item: Check) -> Check:
    return lambda value: isinstance(value, list) and all(map(item, value))


def _dict_of(item: Check) -> Check:
    return lambda value: isinstance(value, dict) and all(map(item, value.values()))


def _record(needed: dict[str, Check], further: dict[str, Check] | None = None) -> Check:
    """Of a dict that has all of `needed`, perhaps some of `further`, and nothing else."""
    checks = needed | (further or {})

    def fits(value: object) -> bool:
        if not isinstance(value, dict) or not needed.keys() <= value.keys() <= checks.keys():
            return False
        return all(checks[name](item) for name, item in value.items())

    return fits


_texts = _list_of(_text)

# What common/transplant/patch.py counts of one operator.
_TALLY = _record(
    dict.fromkeys(("calls", "differed", "gradients", "gradients_differed"), _whole)
    | {"largest": _seconds, "where": _text, "untaken": _dict_of(_whole)}
)

# What step 4's twins find of one case: one SGD step, and a finite difference of the loss.
_WITNESS = _record(
    {
        "sgd_worst": _text,
        **dict.fromkeys(("sgd_off", "largest_gradient", "gradient_norm"), _number_or_null),
        **dict.fromkeys(("largest_weight", "directional"), _number_or_null),
    },
    {
        "half": _yes_or_no,
        "finite_difference": _number_or_null,
        "finite_step": _is(float, of=lambda value: 0 < value < 1),
        "loss_noise": _number_or_null,
    },
)

# How much noise the stirred weights of a case have, and the factor on step 4's learning rates.
_NOISE = _record({"level": _part, "because": _text})
_FACTOR = _record({"factor": _part, "because": _text})

# Which of a large model's set-ups take given gradients, and how many values its parameters have.
_GIVEN = _record({"values": _whole, "setups": _texts})

# What common/weights/layout.py says of one entry of a state dict, and of all of a case.
_LAYOUT_ROW = _record(
    dict.fromkeys(("torch_key", "paddle_key", "kind", "change", "probe", "variance"), _text)
    | dict.fromkeys(("transposed", "parameter", "parameter_in_torch_alone"), _yes_or_no)
    | dict.fromkeys(("torch_keys", "also_in_torch", "also_in_paddle"), _texts)
    | {"padding": lambda value: _list_of(_or_null(_index))(value) and len(value) == 2}
)


# common/logs/draws.py says what these are.
_DRAW = _record(dict.fromkeys(("kind", "site", "place"), _text) | {"shape": _list_of(_whole)})
_PASSES = _record({"passes": _whole, "draws": _list_of(_DRAW)})

_LAYOUT = _record(
    {
        "rows": _list_of(_LAYOUT_ROW),
        "only_torch": _texts,
        "only_paddle": _texts,
        "without_partner": _dict_of(_text),
        "problems": _texts,
    }
)

# Which full log the guide's pair was selected from (common/logs/guide_pair.py).
_SELECTION = _record({"log": _text, "sha256": _text, "keys": _dict_of(_text)})

TEXT = Kind(_text, "text")
WHOLE = Kind(_whole, "a whole number")
SECONDS = Kind(_seconds, "a number of seconds", float)
YES_OR_NO = Kind(_yes_or_no, "true or false")
TEXTS = Kind(_texts, "a list of texts", list)
NAMED_TEXTS = Kind(_dict_of(_text), "texts by name", dict)
NAMED_TEXTS_OR_NULLS = Kind(_dict_of(_or_null(_text)), "texts or nulls by name", dict)
NAMED_FLAGS = Kind(_dict_of(_yes_or_no), "true or false by name", dict)
NAMED_COUNTS = Kind(_dict_of(_whole), "whole numbers by name", dict)
COUNTS_BY_PLACE = Kind(_dict_of(_dict_of(_whole)), "whole numbers by name, by name", dict)
NAMED_SHAPES = Kind(_dict_of(_shape), "shapes by name", dict)
NAMED_LENGTHS = Kind(_dict_of(_or_null(_length)), "lengths from 1 by name", dict)
NAMED_LISTS = Kind(_dict_of(_texts), "lists of texts by name", dict)
NAMED_SERIES = Kind(_dict_of(_dict_of(_list_of(_number_or_null))), "lists by name, by name", dict)
NAMED_RATES = Kind(_dict_of(_dict_of(_number_or_null)), "numbers by name, by name", dict)
NAMED_SIZES = Kind(_dict_of(_dict_of(_seconds)), "sizes by name, by name", dict)
LEDGER = Kind(_dict_of(_dict_of(_text)), "texts by name, by name", dict)
TALLIES = Kind(_dict_of(_TALLY), "an operator's counts by name", dict)
WITNESSES = Kind(_dict_of(_WITNESS), "what step 4's twins find, by case", dict)
PASSES = Kind(_dict_of(_list_of(_PASSES)), "lists of draws by case", dict)
NOISES = Kind(_dict_of(_NOISE), "levels from 0 to 1 by case", dict)
GIVEN = Kind(_dict_of(_GIVEN), "set-ups on given gradients by case", dict)
FACTORS = Kind(_dict_of(_dict_of(_FACTOR)), "factors from 0 to 1 by case, by set-up", dict)
SELECTION = Kind(_SELECTION, "a full log, its hash, and its keys by name", dict)
LAYOUTS = Kind(_dict_of(_LAYOUT), "where each weight goes, by case", dict)
