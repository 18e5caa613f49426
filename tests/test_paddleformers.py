"""LLaMA and Phi-3 as published: right as they are, and faults planted in them are found.

Only where environment variables name the two Pythons that the example's README makes.
"""

import json
import os
import shutil

import pytest
from builders import ended

from twincheck.common.system.checkout import ROOT

EXAMPLE = ROOT / "examples" / "transformers_paddleformers_llama"
PYTHONS = {side: os.environ.get(f"LLAMA_{side.upper()}") for side in ("torch", "paddle")}
pytestmark = pytest.mark.skipif(
    not all(PYTHONS.values()),
    reason="set LLAMA_TORCH and LLAMA_PADDLE to the Pythons that "
    f"{EXAMPLE.relative_to(ROOT)}/README.md installs",
)
SETTINGS = 'settings = getattr(transformers, f"{model}Config")(**config)'
IMPORT = "from twincheck.paddle_side import cross_entropy\n"
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


def judged(checkout, step, folder, *more):
    """The finished check, its report, and what its Paddle sidecar says of lines."""
    options = ["--model", str(folder), "--no-report", *more]
    options += [f"--{side}-python={python}" for side, python in PYTHONS.items()]
    return checkout.rows(step, *options)


@pytest.mark.parametrize("step", [1, 3, 4])
@pytest.mark.parametrize("preset", ["default", "tied", "phi3"])
def test_published_models_agree(checkout, preset, step):
    done, report = ended(0, judged(checkout, step, EXAMPLE, "--preset", preset))
    assert report["rows"]


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_named(checkout, tmp_path, name):
    old, new, origins, file = FAULTS[name]
    folder = shutil.copytree(EXAMPLE, tmp_path / "llama")
    path = folder / "paddle_model.py"
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))
    done, report = ended(1, judged(checkout, 1, folder, "--case", "main"))
    assert report["first_diverged"] in origins
    sidecar = next(checkout.root.rglob("llama/forward_all_paddle.json"))
    assert file in json.loads(sidecar.read_text())["places"][report["first_diverged"]]


# In half precision: name, what is planted, where it is found, and words of its cause.
HALF = {
    "norm in bfloat16": (
        "from paddleformers.nn.norm import RMSNorm\n\n\n"
        "def forward(self, x):\n"
        "    mean = x.pow(2).mean(-1, keepdim=True)\n"
        "    return x * paddle.rsqrt(mean + self.variance_epsilon) * self.weight\n\n\n"
        "RMSNorm.forward = forward\n",
        "layers.0.input_layernorm",
        "rsqrt is on bfloat16 in Paddle, on float32 in torch",
    ),
    "softmax not upcast": (
        "from paddleformers.nn.attention import eager_attention\n\n\n"
        "class Functional:\n"
        "    dropout = staticmethod(paddle.nn.functional.dropout)\n\n"
        "    @staticmethod\n"
        "    def softmax(x, axis, dtype):\n"
        "        powers = (x - x.max(axis, keepdim=True)).exp()\n"
        "        return powers / powers.sum(axis, keepdim=True)\n\n\n"
        "class Layers:\n"
        "    functional = Functional\n\n\n"
        "eager_attention.nn = Layers\n",
        "self_attn",
        "softmax is on float32 in torch; Paddle has exp",
    ),
    "rotary positions rounded": (
        "from paddleformers.transformers.llama import modeling\n\n"
        "own = modeling.LlamaRotaryEmbedding.forward\n\n\n"
        "def forward(self, x, position_ids):\n"
        "    return own(self, x, position_ids.astype(x.dtype))\n\n\n"
        "modeling.LlamaRotaryEmbedding.forward = forward\n",
        "self_attn",  # the table itself has another shape there
        "",
    ),
    "residual in bfloat16, in float16": (
        "from paddleformers.transformers.llama import modeling\n\n\n"
        "def add(x, y):\n"
        "    return (x.astype('bfloat16') + y.astype('bfloat16')).astype(x.dtype)\n\n\n"
        "def forward(self, hidden_states, position_ids=None, **given):\n"
        "    x = self.input_layernorm(hidden_states)\n"
        "    x = add(hidden_states, self.self_attn(hidden_states=x, **given)[0])\n"
        "    return add(x, self.mlp(self.post_attention_layernorm(x)))\n\n\n"
        "modeling.LlamaDecoderLayer.forward = forward\n",
        "layers.0.post_attention_layernorm:in/0",
        "add is on bfloat16 in Paddle, on float16 in torch",
    ),
}


LOADER = """

load = "from_pretrained"
"""


@pytest.mark.parametrize("preset", ["default", "phi3"])
@pytest.mark.parametrize("step", [1, 3, 4])
def test_published_models_agree_in_bfloat16(checkout, preset, step):
    done, report = judged(checkout, step, EXAMPLE, "--preset", preset, "--dtype", "bfloat16")
    assert done.returncode == 0, done.stdout + done.stderr
    assert report["rows"]


@pytest.mark.parametrize("name", HALF)
def test_a_narrower_type_is_named_with_its_cause(checkout, tmp_path, name):
    planted, module, cause = HALF[name]
    folder = shutil.copytree(EXAMPLE, tmp_path / "llama")
    path = folder / "paddle_model.py"
    path.write_text(f"import paddle\n\n{planted}\n{path.read_text()}")
    if "positions" in name:  # bfloat16 has every whole number up to 256
        case = folder / "case.py"
        text = case.read_text()
        assert text.count("np.arange(12) < np.array([12,") == 1
        case.write_text(
            text.replace("np.arange(12) < np.array([12,", "np.arange(300) < np.array([300,")
        )
    dtype = "float16" if "in float16" in name else "bfloat16"
    done, report = ended(1, judged(checkout, 1, folder, "--dtype", dtype))
    first = next(row for row in report["rows"] if row["key"] == report["first_diverged"])
    assert first["verdict"] == "PRECISION" and module in first["key"] and cause in first["note"]


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
    done, report = ended(0, judged(checkout, 1, folder, "--preset", preset))
    assert "every marked element where it belongs" in done.stdout
    assert any(row["key"].startswith("perturbed/") for row in report["rows"])


@pytest.mark.parametrize("name", LOADER_FAULTS)
def test_a_fault_planted_in_their_loader_is_named(checkout, tmp_path, name):
    old, new, words = LOADER_FAULTS[name]
    folder = loaded_pair(tmp_path / "llama", PLANTED.format(old=old, new=new))
    done, _ = ended(2, judged(checkout, 1, folder))
    # Memory that its loader asks for and does not fill holds what was there: the same in both
    # passes that the certificate makes, or not.
    told = done.stderr.replace("computed on the way, or left at", "left at")
    assert words in told
