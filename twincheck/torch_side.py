"""What a model's file takes from the workbench: `from twincheck.torch_side import choose, named`.

The instruments themselves are in common/sides; torch_side.py and paddle_side.py are twins.
"""

from functools import partial

from twincheck.common.sides import batch_norm, instruments, losses
from twincheck.common.sides.backend_torch import side
from twincheck.common.sides.losses import REGRESSION_LOSSES  # noqa: F401
from twincheck.common.sides.session import current  # noqa: F401

choose = partial(instruments.choose, side)
choose_order = partial(instruments.choose_order, side)
choose_top_k = partial(instruments.choose_top_k, side)
draw_integers = partial(instruments.draw_integers, side)
draw_normal = partial(instruments.draw_normal, side)
dropout = partial(instruments.dropout, side)
named = partial(instruments.named, side)
tap = partial(instruments.tap, side)
cross_entropy = partial(losses.cross_entropy, side)
regression_loss = partial(losses.regression_loss, side)
keep_unbiased_statistics = partial(batch_norm.keep_unbiased_statistics, side)
array, tensor, watch = side.array, side.tensor, side.watch
