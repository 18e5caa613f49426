"""The kinds of value that JSON's entries may hold: a check of plain JSON for each type.

Anybody may have written it.  A check must accept only what every reader can use as it is, since
nothing looks at the value again.
"""

import math
from collections.abc import Callable
from types import UnionType
from typing import Annotated, Union, get_args, get_origin

Check = Callable[[object], bool]


def is_of(*kinds: type, of: Check = lambda value: True) -> Check:
    """Make a check of a value of exactly these types of JSON's, of which more may be asked."""
    return lambda value: type(value) in kinds and of(value)


def or_null(fits: Check) -> Check:
    return lambda value: value is None or fits(value)


def text(value: object) -> bool:
    return isinstance(value, str)


yes_or_no = is_of(bool)
whole = is_of(int, of=lambda value: 0 <= value < 2**63)
length = is_of(int, of=lambda value: 0 < value < 2**63)
# Any size: not negative, and nothing that a sum of many would not hold.
size = is_of(int, float, of=lambda value: 0 <= value < 1e12)
index = is_of(int, of=lambda value: abs(value) < 2**63)  # a larger one may not fit into a float


# Any float but infinity, for which JSON has no word; null stands for what is not finite.
number_or_null = or_null(lambda value: index(value) or is_of(float, of=math.isfinite)(value))


def list_of(item: Check) -> Check:
    return lambda value: isinstance(value, list) and all(map(item, value))


def dict_of(item: Check) -> Check:
    return lambda value: isinstance(value, dict) and all(map(item, value.values()))


def record(needed: dict[str, Check], further: dict[str, Check] | None = None) -> Check:
    """Make a check of a dict that has all of `needed`, maybe some of `further`, and no more."""
    checks = needed | (further or {})

    def fits(value: object) -> bool:
        if not isinstance(value, dict) or not needed.keys() <= value.keys() <= checks.keys():
            return False
        return all(checks[name](item) for name, item in value.items())

    return fits


_PLAIN = {str: text, bool: yes_or_no, int: whole, float: size, type(None): is_of(type(None))}


def check_of(of: object) -> Check:
    """Return the check of a type: a union, a list, a dict of names, or what is Annotated with one.

    An int is a whole number from 0, a float a size.
    """
    origin, parts = get_origin(of), get_args(of)
    if origin is Annotated:
        return parts[1]
    if origin in (Union, UnionType):
        checks = list(map(check_of, parts))
        return lambda value: any(fits(value) for fits in checks)
    if origin is dict:
        return dict_of(check_of(parts[1]))
    return list_of(check_of(parts[0])) if origin in (list, tuple) else _PLAIN[of]
