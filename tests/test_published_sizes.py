"""The published Reformers: their configurations, and the smaller one with weights drawn at random.

Their config.json are not part of this repository: the tests look for ../shared/data beside it.
"""

import sys

import numpy as np
import pytest
from checkout import ROOT
from published import (
    ALLOWED,
    check,
    made_inputs,
    of_transformers,
    relative,
    transformers,
    twin_alone,
    worst,
)

from twincheck.common.models.reformer.case import CONFIGS, bucket_factors, complete, published
from twincheck.common.pair.pairs import load_pair
from twincheck.common.pair.tape import Tape
from twincheck.common.weights.checkpoint import prepare

pytestmark = pytest.mark.slow

DATA = ROOT.parent / "shared" / "data"
SIZE = (77, 2_748_224)  # entries and parameters
TOKENS = 1024


def config_file(name):
    """The published config.json; the test is skipped where it is not there."""
    path = DATA / f"reformer_{name}" / "config.json"
    if not path.is_file():
        pytest.skip(f"no {path.relative_to(ROOT.parent)} beside the checkout")
    return path


def saved(name, work):
    """The folder that transformers saves a model of that size in."""
    task = {"do": "make", "architecture": "ReformerModelWithLMHead", "forms": ["safe"]}
    task |= {"config_file": str(config_file(name)), "folder": str(work / name)}
    (told,) = transformers(work, task)
    assert (told["entries"], told["parameters"]) == SIZE
    return work / name / "safe"


def compared(folder, work):
    """Side -> tensor -> relative difference of logits and every gradient, at 1024 tokens."""
    asked = (str(folder), "default", False, {"torch": sys.executable}, work)
    pair, checkpoint = prepare(load_pair("reformer"), *asked)
    config = complete(checkpoint.config)
    heads, size = config["num_attention_heads"], config["attention_head_size"]
    width = sum(bucket_factors(config, TOKENS)) // 2
    layers = config["attn_layers"].count("lsh")
    shape = (layers, heads, size, config["num_hashes"], width)
    rotations = Tape(0).normal("rotations", 0, shape).astype(np.float64)
    arrays = made_inputs(folder, batch_size=1, length=TOKENS)
    theirs = of_transformers("lm", folder, arrays, rotations, work)
    found = {}
    for side in ("torch", "paddle"):
        given = arrays | {"rotations": rotations}
        ours = twin_alone(side, checkpoint.config, checkpoint.state, given)
        found[side] = relative(ours, theirs)
        assert len(found[side]) == len(checkpoint.state) - 1 + 2, "the bias has two names"
        told = sorted(found[side].items(), key=lambda item: -item[1])[:3]
        print(side, ", ".join(f"{key} {value:.1e}" for key, value in told))
    return found


@pytest.mark.parametrize("name, preset", [("enwik8", "enwik8"), *[("crime_and_punishment",) * 2]])
def test_the_presets_are_the_published_configurations(name, preset):
    import json

    config = published(json.loads(config_file(name).read_text()))
    assert complete(config) == complete(CONFIGS[preset.replace("_", "-")])


def test_crime_and_punishment_is_the_same_model(tmp_path):
    folder = saved("crime_and_punishment", tmp_path)
    done, _ = check(1, folder, tmp_path / "out")
    assert done.returncode == 0, done.stdout + done.stderr
    assert worst(compared(folder, tmp_path))[1] <= ALLOWED
