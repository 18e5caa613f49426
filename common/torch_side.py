"""What a model's file takes from the workbench: `from common.torch_side import choose, named`.

The instruments themselves are in common/sides; torch_side.py and paddle_side.py are twins.
"""

from common.sides.session import current
from common.sides.torch_side import *  # noqa: F403

__all__ = ["choose", "choose_order", "choose_top_k", "cross_entropy", "current", "draw_normal"]  # noqa: F405
__all__ += ["dropout", "named", "tap", "tensor", "watch"]  # noqa: F405
