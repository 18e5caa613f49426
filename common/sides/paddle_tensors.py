"""Tensors of this side and arrays: torch_tensors.py and paddle_tensors.py are twins."""

import sys

from common.sides import batch_norm, probes, tensors, weights
from common.sides.backend_paddle import *  # noqa: F403  (handed on)
from common.sides.bind import bind

bind(sys.modules[__name__], tensors, probes, batch_norm, weights)
