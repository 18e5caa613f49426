"""Weights are put into a model of a framework as the framework does it."""

import numpy as np
import torch

from twincheck.common.sides.backend_torch import side as torch_side


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
    torch_side.load_state(model, values)
    loaded = torch_side.state(model)
    assert loaded.keys() == values.keys()
    assert all(np.array_equal(loaded[key], values[key]) for key in values)
