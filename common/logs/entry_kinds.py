"""The kinds of value that a sidecar's entries may hold: one check and one name for each.

A check sees plain JSON that anybody may have written.  It must accept only what every reader can
use as it is, since nothing looks at the value again.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from twincheck.common.system.reasons import Kind, Reason

Check = Callable[[object], bool]


@dataclass(frozen=True)
class EntryKind:
    """What an entry's value must be."""

    fits: Check
    name: Reason  # as a refusal spells it: "its seed is 'x', not a whole number"
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
    dict.fromkeys(("calls", "differed", "gradients", "gradients_differed", "order"), whole)
    | {
        "largest": _seconds,
        "ulps": _seconds,
        "where": text,
        "place": text,
        "untaken": dict_of(whole),
    }
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
TALLIES = EntryKind(dict_of(_TALLY), Kind.ENTRY_TALLIES(), dict)
WITNESSES = EntryKind(dict_of(_WITNESS), Kind.ENTRY_WITNESSES(), dict)
NOISES = EntryKind(dict_of(_NOISE), Kind.ENTRY_NOISES(), dict)
GIVEN = EntryKind(dict_of(_GIVEN), Kind.ENTRY_GIVEN(), dict)
FACTORS = EntryKind(dict_of(dict_of(_FACTOR)), Kind.ENTRY_FACTORS(), dict)
LAYOUTS = EntryKind(dict_of(_LAYOUT), Kind.ENTRY_LAYOUTS(), dict)
VARIANCES = EntryKind(dict_of(_VARIANCE), Kind.ENTRY_VARIANCES(), dict)
HANDED = EntryKind(dict_of(list_of(_HANDED)), Kind.ENTRY_HANDED(), dict)
NAMED_TEXTS = EntryKind(dict_of(text), Kind.ENTRY_TEXTS(), dict)
OWNERS = EntryKind(
    dict_of(dict_of(lambda value: _texts(value) and len(value) > 2)),
    Kind.ENTRY_LISTS_BY_NAME(),
    dict,
)
OF_TYPE = {
    str | None: EntryKind(text, Kind.ENTRY_TEXT()),
    int | None: EntryKind(whole, Kind.ENTRY_WHOLE()),
    bool | None: EntryKind(yes_or_no, Kind.ENTRY_YES_OR_NO()),
    float: EntryKind(_seconds, Kind.ENTRY_SECONDS(), float),
    list[str]: EntryKind(_texts, Kind.ENTRY_LIST_OF_TEXTS(), list),
    dict[str, str]: NAMED_TEXTS,
    dict[str, str | None]: EntryKind(dict_of(or_null(text)), Kind.ENTRY_TEXTS_OR_NULLS(), dict),
    dict[str, bool]: EntryKind(dict_of(yes_or_no), Kind.ENTRY_YES_OR_NOS(), dict),
    dict[str, int]: EntryKind(dict_of(whole), Kind.ENTRY_WHOLES(), dict),
    dict[str, int | None]: EntryKind(dict_of(or_null(length)), Kind.ENTRY_LENGTHS(), dict),
    dict[str, list[int]]: EntryKind(dict_of(_shape), Kind.ENTRY_SHAPES(), dict),
    dict[str, list[str]]: EntryKind(dict_of(_texts), Kind.ENTRY_LISTS_OF_TEXTS(), dict),
    dict[str, list[dict]]: EntryKind(dict_of(list_of(_PASSES)), Kind.ENTRY_DRAWS(), dict),
    dict[str, dict[str, int]]: EntryKind(
        dict_of(dict_of(whole)), Kind.ENTRY_WHOLES_BY_NAME(), dict
    ),
    dict[str, dict[str, float]]: EntryKind(
        dict_of(dict_of(_seconds)), Kind.ENTRY_SIZES_BY_NAME(), dict
    ),
    dict[str, dict[str, dict[str, float]]]: EntryKind(
        dict_of(dict_of(dict_of(_seconds))), Kind.ENTRY_SIZES_BY_NAME(), dict
    ),
    dict[str, dict[str, str]]: EntryKind(dict_of(dict_of(text)), Kind.ENTRY_TEXTS_BY_NAME(), dict),
    dict[str, dict[str, list]]: EntryKind(
        dict_of(dict_of(list_of(number_or_null))), Kind.ENTRY_LISTS_BY_NAME(), dict
    ),
    dict[str, object]: EntryKind(_SELECTION, Kind.ENTRY_SELECTION(), dict),
}
