"""LLaMA and Phi-3 as published: right as they are, and faults planted in them are found.

Only where environment variables name the two Pythons that the example's README makes.
"""

import json
import os
import shutil

import pytest
from checkout import Checkout

from common.system.checkout import ROOT

EXAMPLE = ROOT / "examples" / "transformers_paddleformers_llama"
PYTHONS = {side: os.environ.get(f"LLAMA_{side.upper()}") for side in ("torch", "paddle")}
pytestmark = pytest.mark.skipif(
    not all(PYTHONS.values()),
    reason="set LLAMA_TORCH and LLAMA_PADDLE to the Pythons that "
    f"{EXAMPLE.relative_to(ROOT)}/README.md installs",
)
SETTINGS = 'settings = getattr(transformers, f"{model}Config")(**config)'
IMPORT = "from common.paddle_side import cross_entropy\n"
NEXT_TOKEN_SEEN = '''
from paddleformers.transformers.llama import modeling

import paddle

prepared = modeling.create_causal_mask_and_row_indices


def off_by_one(**given):
    """Each token has the mask of the next."""
    mask, rows = prepared(**given)
    return paddle.concat([mask[:, :, 1:], mask[:, :, -1:]], axis=2), rows


modeling.create_causal_mask_and_row_indices = off_by_one
'''
# name: what is replaced in paddle_model.py, by what, the first row that is off, what its line is in
FAULTS = {
    "RMSNorm epsilon 1e-5 for 1e-6": (
        SETTINGS,
        SETTINGS.replace("**config", '**config | {"rms_norm_eps": 1e-5}'),
        ("decoder.model.layers.0.input_layernorm",),
        "paddleformers/",
    ),
    "rotary base 10,000 for 10,500": (
        SETTINGS,
        SETTINGS.replace("**config", '**config | {"rope_theta": 10000.0}'),
        ("decoder.model.rotary_emb", "decoder.model.rotary_emb/1"),
        "paddleformers/transformers/llama/modeling.py",
    ),
    "mask off by one": (
        IMPORT,
        IMPORT + NEXT_TOKEN_SEEN,
        (
            "decoder.model.layers.0:in/attention_mask",
            "decoder.model.layers.0.self_attn:in/attention_mask",
            "decoder.model.layers.0.self_attn.o_proj:in/0",
        ),
        "paddleformers/transformers/llama/modeling.py",
    ),
}


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    return Checkout(tmp_path_factory.mktemp("llama"))


def judged(checkout, step, folder, *more):
    """The finished check, its report, and what its Paddle sidecar says of lines."""
    options = ["--model", str(folder), "--no-report", *more]
    options += [f"--{side}-python={python}" for side, python in PYTHONS.items()]
    return checkout.rows(step, *options)


@pytest.mark.parametrize("step", [1, 3, 4])
@pytest.mark.parametrize("preset", ["default", "tied", "phi3"])
def test_published_models_agree(checkout, preset, step):
    done, report = judged(checkout, step, EXAMPLE, "--preset", preset)
    assert done.returncode == 0, done.stdout + done.stderr
    assert report["rows"]


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_named(checkout, tmp_path, name):
    old, new, origins, file = FAULTS[name]
    folder = shutil.copytree(EXAMPLE, tmp_path / "llama")
    path = folder / "paddle_model.py"
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))
    done, report = judged(checkout, 1, folder, "--case", "main")
    assert done.returncode == 1, done.stdout + done.stderr
    assert report["first_diverged"] in origins
    sidecar = next(checkout.root.rglob("llama/forward_all_paddle.json"))
    assert file in json.loads(sidecar.read_text())["places"][report["first_diverged"]]


LOADER = """

load = "from_pretrained"
"""
# What PaddleFormers' table of a loader says, what is planted, and the words that name it.  A weight
# that is taken for two loses its own place.
LOADER_FAULTS = {
    "o_proj not transposed": (
        "o_proj.weight^T",
        "o_proj.weight",
        "o_proj.weight as torch has it, not transposed",
    ),
    "k for v": (
        "v_proj.weight^T",
        "k_proj.weight^T",
        "k_proj.weight of the loaded model: all 512 elements are left at their initial values",
    ),
    "gate for up": (
        "mlp.up_proj.weight^T",
        "mlp.gate_proj.weight^T",
        "gate_proj.weight of the loaded model: all 1,536 elements are left at their initial values",
    ),
    "half": (
        "model.norm.weight -> model.norm.weight",
        "model.norm.weight -> model.norm.weight, dtype='float16'",
        "are rounded to float16 on the way",
    ),
}
PLANTED = """

from paddleformers.transformers import LlamaForCausalLM

table = LlamaForCausalLM._gen_aoa_config.__func__


@classmethod
def wrong(cls, config):
    statements = table(cls, config)["aoa_statements"]
    changed = [text.replace({old!r}, {new!r}, 1) for text in statements]
    assert changed != statements
    return {{"aoa_statements": changed}}


LlamaForCausalLM._gen_aoa_config = wrong
"""


def loaded_pair(folder, planted=""):
    """The example with its libraries' own loaders as the carrier."""
    shutil.copytree(EXAMPLE, folder)
    for name, text in (("case.py", LOADER), ("paddle_model.py", planted)):
        path = folder / name
        path.write_text(path.read_text() + text)
    return folder


@pytest.mark.parametrize("preset", ["default", "tied", "phi3"])
def test_their_own_loaders_carry_the_weights(checkout, tmp_path, preset):
    folder = loaded_pair(tmp_path / "llama")
    done, report = judged(checkout, 1, folder, "--preset", preset)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "every marked element where it belongs" in done.stdout
    assert any(row["key"].startswith("stirred/") for row in report["rows"])


@pytest.mark.parametrize("name", LOADER_FAULTS)
def test_a_fault_planted_in_their_loader_is_named(checkout, tmp_path, name):
    old, new, words = LOADER_FAULTS[name]
    folder = loaded_pair(tmp_path / "llama", PLANTED.format(old=old, new=new))
    done, _ = judged(checkout, 1, folder)
    assert done.returncode == 2, done.stdout + done.stderr
    assert words in done.stderr
