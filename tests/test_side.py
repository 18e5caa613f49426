"""A side has all that is asked of a framework, and puts weights in as the framework does."""

import numpy as np
import pytest
import torch

from twincheck.common.sides import backend_paddle, backend_torch
from twincheck.common.sides.side import Side


@pytest.mark.parametrize("side", [backend_torch.side, backend_paddle.side])
def test_a_side_has_every_name_and_no_other(side):
    assert [name for name in Side.__annotations__ if not hasattr(side, name)] == []
    own = {name for name in vars(type(side)) if not name.startswith("_")}
    assert own <= {*Side.__annotations__, *vars(Side)}


class Versioned(torch.nn.Module):
    """Reads its file as a new one or as an old one, by the version; as torchvision's MNASNet."""

    _version = 2

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3))
        self.norm = torch.nn.BatchNorm1d(3)

    def _load_from_state_dict(self, state, prefix, local_metadata, *more):
        if local_metadata.get("version") != 2:
            raise ValueError("version should be set")
        super()._load_from_state_dict(state, prefix, local_metadata, *more)


def test_a_module_that_reads_its_version_is_loaded_with_it():
    model = torch.nn.Sequential(Versioned(), torch.nn.Linear(3, 2))
    values = {key: v.numpy() + 1 for key, v in model.state_dict().items()}
    backend_torch.side.load_state(model, values)
    loaded = backend_torch.side.state(model)
    assert loaded.keys() == values.keys()
    assert all(np.array_equal(loaded[key], values[key]) for key in values)
