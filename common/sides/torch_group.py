"""The way into the processes that share a run: torch_group.py and paddle_group.py are twins."""

from functools import partial

from common.sides import group
from common.sides import torch_side as side

join_group = partial(group.join_group, side)
