"""Half precision on arrays: values as bfloat16 or float16 has them, in a dtype that NumPy knows.

NumPy only.
"""

import numpy as np

HALF = ("bfloat16", "float16")
# The spacing of each precision at 1.
EPSILONS = {"float32": 2.0**-23, "bfloat16": 2.0**-7, "float16": 2.0**-10}
SMALLEST = {"bfloat16": 2.0**-133, "float16": 2.0**-24}  # above 0


def rounded(values: np.ndarray, dtype: str) -> np.ndarray:
    """An array's floats rounded to the nearest that a precision has, ties to even; the same dtype.

    dtype  bfloat16, float16, or a wider one, which changes nothing
    Integers and booleans stay.  Beyond the largest float16 is infinity, as in the frameworks.
    """
    values = np.asarray(values)
    if dtype not in HALF or values.dtype.kind != "f":
        return values
    with np.errstate(over="ignore"):
        if dtype == "float16":
            return values.astype(np.float16).astype(values.dtype)
        # bfloat16 is the upper half of a float32.
        bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
        up = bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    exact = np.where(np.isfinite(values), up & np.uint32(0xFFFF0000), bits)
    return exact.astype(np.uint32).view(np.float32).reshape(values.shape).astype(values.dtype)


def overflowing(half: np.ndarray | None, values: np.ndarray | None) -> np.ndarray | None:
    """The values with infinity where half precision had none so large, as a mask's may be."""
    if half is None or values is None or values.dtype.kind != "f" or half.shape != values.shape:
        return values
    over = np.isinf(half) & (np.abs(values) > 65504.0)
    return np.where(over, half.astype(values.dtype), values) if over.any() else values
