"""Models that live in installed packages, and versions of Paddle whose hooks see less."""

import json
import os
from collections import namedtuple
from pathlib import Path

import pytest
from builders import ended
from checkout import Checkout

from twincheck.common.sides.places import of_framework_file, short_place
from twincheck.common.sides.probes import hook_inputs
from twincheck.common.system.checkout import ROOT
from twincheck.common.system.tree import tree_map
from twincheck.common.verdict.judge import judge_logs

PUBLISHED = ROOT / "examples" / "transformers_paddlenlp_reformer"
PACKAGES = "/env/lib/python3.11/site-packages"


@pytest.mark.parametrize(
    "filename, expected",
    [
        (f"{PACKAGES}/torch/nn/modules/module.py", True),
        (f"{PACKAGES}/paddle/nn/layer/layers.py", True),
        ("/usr/lib/python3/dist-packages/numpy/core.py", True),
        (f"{PACKAGES}/paddlenlp/transformers/bert/modeling.py", False),
        (f"{PACKAGES}/torchvision/models/resnet.py", False),
        ("/home/me/torch/model.py", False),
    ],
)
def test_only_the_frameworks_files_are_left_out_of_places(filename, expected):
    assert of_framework_file(filename) is expected


def test_places_are_short():
    assert short_place(f"{ROOT}/common/models/a/torch_model.py:7", str(ROOT)) == (
        "common/models/a/torch_model.py:7"
    )
    assert short_place(f"{PACKAGES}/paddlenlp/bert/modeling.py:7", "/root") == (
        "paddlenlp/bert/modeling.py:7"
    )
    assert short_place("/home/me/model.py:7", "/root") == "/home/me/model.py:7"


def test_a_named_tuple_has_the_names_of_its_fields():
    Output = namedtuple("Output", ["hidden_states", "buckets"])
    paths = []

    def change(path, value):
        paths.append(path)
        return value + 1

    new = tree_map(Output(1, None), change, lambda value: isinstance(value, int))
    assert paths == [("hidden_states",)]  # as in a dataclass or dict on the other side
    assert new == Output(2, None) and type(new) is Output


class Plain:
    """A module whose hooks take no keywords, as those of Paddle 2.6."""

    def register_forward_pre_hook(self, hook):
        raise AssertionError("not this way: the keywords would be missing")

    def forward(self, x, scale=1):
        """x scaled"""
        return x * scale


@pytest.mark.parametrize("own", [False, True])
def test_hooks_see_keywords_where_the_frameworks_do_not(own):
    module, seen = Plain(), []
    if own:
        vars(module)["forward"] = lambda x, scale=1: -x * scale
    before = module.forward
    handle = hook_inputs(module, lambda m, inputs, keywords: seen.append((inputs, keywords)))
    sign = -1 if own else 1
    assert module.forward(2, scale=5) == sign * 10
    assert seen == [((2,), {"scale": 5})]
    handle.remove()
    handle = hook_inputs(module, lambda m, inputs, keywords: ((inputs[0] + 1,), {"scale": 7}))
    assert module.forward(2, scale=5) == sign * 21
    handle.remove()
    assert module.forward == before


def test_a_wrong_gradient_at_an_output_says_where_to_look(tmp_path):
    import numpy as np

    ref = {"main/grad_of/a.b.query": np.linspace(1.0, 2.0, 8, dtype=np.float32)}
    cand = {key: values * np.float32(1.5) for key, values in ref.items()}
    ref64 = {key: values.astype(np.float64) for key, values in ref.items()}
    cand64 = {key: values.astype(np.float64) for key, values in cand.items()}
    (row,) = judge_logs(ref, cand, ref64, cand64).rows
    assert row.verdict == "DIVERGED" and row.origin
    assert "look in a.b at the code that uses the output" in row.note


def test_the_two_published_reformers(tmp_path):
    """The origins that examples/transformers_paddlenlp_reformer/README.md names, and no others."""
    pythons = {side: os.environ.get(f"PUBLISHED_{side.upper()}") for side in ("torch", "paddle")}
    if not all(pythons.values()):
        pytest.skip(
            "set PUBLISHED_TORCH and PUBLISHED_PADDLE to the Pythons that "
            f"{PUBLISHED.relative_to(ROOT)}/README.md installs"
        )
    checkout = Checkout(tmp_path)
    options = ["--model", str(PUBLISHED), "--no-report"]
    options += [f"--{side}-python={python}" for side, python in pythons.items()]
    done, report = ended(0, checkout.rows(4, *options, "--preset", "one_hash"))
    done, report = ended(1, checkout.rows(4, *options))
    origins = {row["key"] for row in report["rows"] if row["origin"]}
    layers = "grad_of/model.reformer.encoder.layers"
    assert {key.removeprefix("main/") for key in origins if key.startswith("main/")} == {
        f"{layers}.3.attention.self_attention.query_key",
        f"{layers}.1.attention.self_attention.query_key",
        "witness/finite_difference/paddle",
    }
    assert "dropout/model.reformer.embeddings" in origins
    assert "paddlenlp/transformers/reformer/modeling.py:" in done.stdout
    sidecar = next(Path(checkout.root).rglob("bp_align_all_paddle.json"))
    assert json.loads(sidecar.read_text())["environment"]["executable"] == pythons["paddle"]
