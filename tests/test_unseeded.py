"""A model that is another one in every run, whatever the seed: said by the line that draws."""

import random
import time
import uuid
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from twincheck.common.check.draws import unseeded_notes
from twincheck.common.logs.sidecar import Sidecar
from twincheck.common.sides.backend_torch import side
from twincheck.common.sides.building import find_unseeded, noting_draws
from twincheck.common.sides.places import noting_makers
from twincheck.common.system.processes import environment


class Net(nn.Module):
    def __init__(self, draw):
        super().__init__()
        self.first = nn.Parameter(torch.full([3], float(draw())))


DECIDED = {
    "Python's generator": random.random,
    "Python's generator, seeded": lambda: random.Random(3).random(),
    "NumPy's generator": np.random.random,
    "NumPy's, seeded": lambda: np.random.default_rng(3).random(),
    "torch's": lambda: torch.rand(()),
    "a name": lambda: len(str(uuid.uuid4())),
}
UNDECIDED = {
    "Python's generator without a seed": lambda: random.Random().random(),
    "Python's generator, seeded by the system": lambda: random.SystemRandom().random(),
    "NumPy's generator without a seed": lambda: np.random.default_rng().random(),
    "a name that is a number": lambda: uuid.uuid4().int % 1000,
}


def found_in(draw):
    """What is found of a model that draws so."""
    run = SimpleNamespace(side=side, request=SimpleNamespace(seed=5), case=None, unseeded_draws=[])
    run.job = SimpleNamespace(values=lambda case: 3)

    def construct():
        with noting_makers(nn.Module), noting_draws(run.unseeded_draws):
            return Net(draw)

    run.construct = construct
    return find_unseeded(run)


@pytest.mark.parametrize("source", DECIDED)
def test_what_a_seed_decides_is_the_same_in_two_builds(source):
    assert found_in(DECIDED[source]) == {}


@pytest.mark.parametrize("source", UNDECIDED)
def test_a_draw_that_no_seed_decides_is_named_by_its_line(source):
    found = found_in(UNDECIDED[source])
    line = UNDECIDED[source].__code__.co_firstlineno
    assert found["place"].endswith(f"test_unseeded.py:{line}") and "value" not in found
    [said] = unseeded_notes("torch", [Sidecar(unseeded={"main": found})])
    assert f"test_unseeded.py:{line} that no seed decides" in said


def test_what_differs_for_another_reason_is_named_by_its_value():
    found = found_in(lambda: time.perf_counter_ns() % 100_003)
    assert found["value"] == "first" and "test_unseeded.py" in found["place"]
    [said] = unseeded_notes("torch", [Sidecar(unseeded={"main": found})])
    assert said.startswith("the torch model's first (")


def test_a_seed_is_every_generators_and_a_set_of_names_has_one_order(monkeypatch):
    drawn = []
    for _ in range(2):
        side.set_up("float32", "cpu", 7)
        drawn.append((random.random(), np.random.random(), float(torch.rand(()))))
        with side.seeded(8):
            random.random(), np.random.random()
        drawn[-1] += (random.random(), np.random.random())
    assert drawn[0] == drawn[1]
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    assert environment()["PYTHONHASHSEED"] == "0"
