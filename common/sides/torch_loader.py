"""The framework's own DataLoader: torch_loader.py and paddle_loader.py are twins."""

from functools import partial

import torch.utils.data as data

from common.sides import torch_side as side
from common.sides.loader import Documents, Samples, batches_by

__all__ = ["Documents", "Samples", "batches"]

batches = partial(batches_by, side, data)
