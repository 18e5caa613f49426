"""One side: what its framework calls things, its instruments and losses; its twin has the other.

The scripts of the steps use them through this module, and models what instruments.py and losses.py
name.
"""

import sys

from twincheck.common.sides.backend_torch import *  # noqa: F403  (handed on)
from twincheck.common.sides.bind import bind
from twincheck.common.sides.losses import REGRESSION_LOSSES  # noqa: F401  (handed on)

bind(sys.modules[__name__])
