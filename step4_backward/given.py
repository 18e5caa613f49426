"""The gradients that the optimizers of a large model are given, in place of a pass for each step.

NumPy only, shared by both sides.  What an optimizer makes of gradients does not depend on where
they come from: decay, clipping, warm-up, moments and their corrections show on any, and on the same
ones for both sides without a model's noise.  So the torch side leaves those that it had at the
initial weights in a file, and each step takes them times one of SCALES.

They are made of one size first (`normalised`), so that what these steps show does not depend on the
size of a model's loss: their global norm is in [1/16, 1/8), below and above `clip_norm` (0.1) by
turns, and the usual element of a million is near 1e-4, where an epsilon of 1e-8 shows.
"""

import math
from collections.abc import Mapping

import numpy as np

# Of each step's gradients.  Powers of two: the product is exact, in float32 as in float64, and so
# both precisions are given the same.  The sizes go up and down and four of the signs change, so
# that the moments are told apart from the last gradient, from each other's decay and from the
# largest so far.  Times 4 and 8 the global norm is above `clip_norm`, times 1/4 and 1/2 below it.
# No step of Adam is near 0, nor are the sums of its steps: a bias that starts at 0 is not brought
# back to it, where float32's noise alone would be left.
SCALES = (4.0, 0.5, 2.0, -2.0, 8.0, -0.25, 4.0, -4.0, 0.5, 8.0)


def normalised(gradients: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The gradients times the power of two that brings their global norm into [1/16, 1/8).

    Rounded to float32, once: both precisions of both sides go on with the same.  Gradients that are
    all 0, or not finite, stay as they are.
    """
    flat = (np.asarray(values, np.float64).reshape(-1) for values in gradients.values())
    norm = math.sqrt(sum(float(np.dot(values, values)) for values in flat))
    exponent = -3 - math.frexp(norm)[1] if 0.0 < norm < math.inf else 0
    return {
        name: np.ldexp(values, exponent).astype(np.float32) for name, values in gradients.items()
    }
