"""Transposed matrices in C order: the same values, and sooner."""

import numpy as np
import pytest

from twincheck.common.system.matrices import contiguous, put


@pytest.mark.parametrize(
    "shape", [(0,), (7,), (3, 5), (200, 300), (1, 20000), (130, 257), (3, 70, 90)]
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.bool_])
def test_the_values_are_the_same_in_any_layout(shape, dtype):
    values = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    for given in (values, values.T, values.T[::-1], values[..., ::2]):
        found = contiguous(given)
        assert found.flags.c_contiguous and found.dtype == dtype and found.shape == given.shape
        assert np.array_equal(found, given)
        target = np.empty(given.shape, dtype)
        put(given, target)
        assert np.array_equal(target, given)


def test_a_value_fills_a_larger_target():
    target = np.zeros((2, 200, 300))
    put(np.ones((300, 200)).T, target)
    assert (target == 1).all()
