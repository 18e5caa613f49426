"""A library's own loader as the carrier: what it must bring, and every fault of it that is named.

A small library is written for either framework, and a fault is planted in its Paddle loader.
"""

import json

import pytest
from checkout import Checkout

CASE = """
import numpy as np

CONFIGS = {"default": {"channels": 4, "tied": False}, "tied": {"channels": 4, "tied": True}}
load = "from_pretrained"


def make_inputs(config, seed):
    return {"ids": np.random.default_rng(seed).integers(0, 7, size=(3, 5))}
"""
TORCH = """
import json
from pathlib import Path

import torch
from safetensors.numpy import load_file, save_file
from torch import nn

class Tiny(nn.Module):
    def __init__(self, channels, tied):
        super().__init__()
        self.config = {"channels": channels, "tied": tied}
        self.emb = nn.Embedding(7, channels)
        self.q = nn.Linear(channels, channels)
        self.k = nn.Linear(channels, channels)
        self.o = nn.Linear(channels, channels, bias=False)
        self.gate = nn.Linear(channels, 6)
        self.up = nn.Linear(channels, 6)
        self.down = nn.Linear(6, channels)
        self.norm = nn.LayerNorm(channels)
        self.head = nn.Embedding(7, channels)
        if tied:
            self.head.weight = self.emb.weight

    def forward(self, ids):
        x = self.emb(ids)
        scores = self.q(x) @ self.k(x).transpose(-1, -2)
        x = self.o(scores.softmax(-1) @ x)
        x = self.norm(x + self.down(self.gate(x).tanh() * self.up(x)))
        return {"logits": x @ self.head.weight.T}

    def save_pretrained(self, folder):
        state = {k: v.detach().numpy().copy() for k, v in self.state_dict().items()}
        if self.config["tied"]:
            del state["head.weight"]
        save_file(state, Path(folder, "model.safetensors"))
        Path(folder, "config.json").write_text(json.dumps(self.config))

    @classmethod
    def from_pretrained(cls, folder):
        model = cls(**json.loads(Path(folder, "config.json").read_text()))
        state = load_file(Path(folder, "model.safetensors"))
        state = {key: torch.from_numpy(values) for key, values in state.items()}
        model.load_state_dict(state, strict=not model.config["tied"])
        return model


class Wrapped(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.network = Tiny(**config)

    def forward(self, ids):
        return self.network(ids)


def build(config):
    return Wrapped(config)
"""
READ = """
        state = {k: v.T if k[0] in "qkogud" and v.ndim == 2 else v for k, v in state.items()}
        # here
        model.set_state_dict(state)
        # and here
"""
PADDLE = (
    TORCH.replace("import torch\n", "import numpy as np\nimport paddle\n")
    .replace("from torch", "from paddle")
    .replace("nn.Module", "nn.Layer")
    .replace("bias=False", "bias_attr=False")
    .replace(".transpose(-1, -2)", ".transpose([0, 2, 1])")
    .replace("scores.softmax(-1)", "nn.functional.softmax(scores)")
    .replace(
        """
        state = {key: torch.from_numpy(values) for key, values in state.items()}
        model.load_state_dict(state, strict=not model.config["tied"])
""",
        READ,
    )
)
assert READ in PADDLE
# q and k in one layer, which the loader joins.
FUSED = (
    PADDLE.replace("self.q = nn.Linear(channels, channels)", "self.qk = nn.Linear(channels, 8)")
    .replace("        self.k = nn.Linear(channels, channels)\n", "")
    .replace(
        "        scores = self.q(x) @ self.k(x)",
        "        q, k = self.qk(x).split(2, -1)\n        scores = q @ k",
    )
)
JOIN = """for n in ("weight", "bias"):
            state[f"qk.{n}"] = np.concatenate([state.pop(f"q.{n}"), state.pop(f"k.{n}")], -1)"""

# name: what is planted in the loader, after "# " where it stands, and what must be said of it
FAULTS = {
    "square weight transposed": (
        'here: state["o.weight"] = state["o.weight"].T',
        ["network.o.weight of the loaded model is network.o.weight as torch has it, not trans"],
    ),
    "key silently missing": (
        'here: del state["norm.bias"]',
        ["network.norm.bias of the loaded model: all 4 elements are left at their initial values"],
    ),
    "random weight left": (
        'here: del state["up.weight"]',
        ["network.up.weight of the loaded model: all 24 elements are left at their initial values"],
    ),
    "k for q": (
        'here: state["q.weight"] = state["k.weight"]',
        ["network.q.weight of the loaded model: all 16 elements come from network.k.weight, not"],
    ),
    "q and k swapped": (
        'here: state["q.bias"], state["k.bias"] = state["k.bias"], state["q.bias"]',
        ["network.q.bias", "come from network.k.bias, not", "network.k.bias of the loaded model"],
    ),
    "gate for up": (
        'here: state["up.weight"] = state["gate.weight"]',
        ["network.up.weight of the loaded model: all 24 elements come from network.gate.weight"],
    ),
    "half": (
        'here: state["down.weight"] = state["down.weight"].astype("float16").astype("float32")',
        ["network.down.weight of the loaded model: all 24 elements are rounded to float16"],
    ),
    "bfloat16": (
        'here: state["emb.weight"] = (state["emb.weight"].view("i4") & -65536).view("f4")',
        ["network.emb.weight of the loaded model", "are rounded to bfloat16 on the way"],
    ),
    "bias dropped": (
        'here: state["q.bias"] = np.zeros(4, "float32")',
        ["network.q.bias of the loaded model: all 4 elements are left at their initial values"],
    ),
    "scale folded in": (
        'here: state["q.weight"] = state["q.weight"] * np.float32(0.7)',
        ["network.q.weight of the loaded model: all 16 elements are computed on the way"],
    ),
    "one added": (
        'here: state["norm.weight"] = state["norm.weight"] + 1',
        ["network.norm.weight of the loaded model", "are computed on the way"],
    ),
    "rows in another order": (
        'here: state["gate.weight"] = state["gate.weight"][:, [0, 2, 1, 3, 4, 5]]',
        [
            "network.gate.weight of the loaded model: 8 of 24 elements of network.gate.weight are "
            "in other places; first [0, 1], which is network.gate.weight[2, 0], not"
        ],
    ),
    "one row lost": (
        'here: state["emb.weight"][0] = 0',
        ["network.emb.weight of the loaded model: 4 of 28 elements are left at their initial"],
    ),
    "tied": (
        "and here: model.head.weight = model.emb.weight",
        ["network.emb.weight and network.head.weight are one tensor once loaded, two as built"],
    ),
    "negative values lost": (  # which marks are not: the weights themselves show it
        'here: state["up.bias"] = np.maximum(state["up.bias"], 0)',
        ["network.up.bias of the loaded model: case", "gives it other bits"],
    ),
    "another size": (
        'and here: model.head = nn.Embedding(9, 4)',
        ["network.head.weight of the loaded model is [9, 4], and [7, 4] where build makes it"],
    ),
    "a layer lost": (
        "and here: del model.norm",
        ["the loaded model has no network.norm.weight"],
    ),
    "first folder kept": (
        "and here: model = vars(cls).get('kept', model); cls.kept = model",
        ["network.q.weight of the loaded model: all 16 elements are left at their initial values"],
    ),
}  # fmt: skip
FUSED_FAULTS = {
    "k before q": (
        f"here: {JOIN.replace('[state', '[*[state').replace('], -1)', '][::-1]], -1)')}",
        ["(DIVERGED)"],
    ),
    "q twice": (
        f"here: {JOIN.replace('pop', 'get').replace('k.{n}', 'q.{n}', 2).replace('qq.', 'qk.')}",
        ["network.k.bias | network.k.weight"],
    ),
}  # fmt: skip


def planted(text, fault):
    """The Paddle file with a line of the loader in the place that it names."""
    place, _, line = fault.partition(": ")
    assert f"# {place}\n" in text
    return text.replace(f"# {place}\n", f"{line}\n")


def write(folder, paddle, case=CASE, torch=TORCH):
    folder.mkdir(parents=True)
    (folder / "case.py").write_text(case)
    (folder / "torch_model.py").write_text(torch)
    (folder / "paddle_model.py").write_text(paddle)
    return folder


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    return Checkout(tmp_path_factory.mktemp("loaders"))


def certificates(checkout, folders, *options):
    """The finished command, and each pair's certificate by its name."""
    report = checkout.elsewhere / "certificates.json"
    report.unlink(missing_ok=True)
    start = (
        f"import sys; sys.path.insert(0, {str(checkout.root)!r}); import common.certificate as c"
    )
    named = [word for folder in folders for word in ("--model", str(folder))]
    done = checkout.python(
        "-c", f"{start}; sys.exit(c.main(sys.argv[1:]))", *named, "--json", str(report), *options
    )
    found = json.loads(report.read_text()) if report.is_file() else []
    return done, {row["model"]: row for row in found}


@pytest.fixture(scope="module")
def made(checkout):
    """Every certificate, from one run."""
    folders = []
    for text, faults in ((PADDLE, FAULTS), (FUSED, FUSED_FAULTS)):
        for name, (fault, _) in faults.items():
            folder = checkout.elsewhere / "pairs" / name.replace(" ", "_")
            folders.append(write(folder, planted(text, fault)))
    sound = {"sound": PADDLE, "fused": planted(FUSED, f"here: {JOIN}")}
    folders += [write(checkout.elsewhere / "pairs" / name, text) for name, text in sound.items()]
    done, found = certificates(checkout, folders)
    assert done.returncode == 1, done.stdout + done.stderr
    assert len(found) == len(folders)
    return found


@pytest.mark.parametrize("name", [*FAULTS, *FUSED_FAULTS])
def test_a_planted_loader_is_named(made, name):
    found = made[name.replace(" ", "_")]
    assert not found["certified"] and found["exit_code"] == 1
    words = (FAULTS | FUSED_FAULTS)[name][1]
    told = " | ".join([*found["problems"], *found["only_torch"]])
    for word in words:
        assert word in told


def test_a_sound_loader_is_certified(made):
    for name, entries in (("sound", 15), ("fused", 13)):
        found = made[name]
        assert found["certified"], found["problems"]
        assert len(found["rows"]) == entries
        assert f"{entries} entries, every marked element where it belongs" in found["notes"][0]
    joined = {row["paddle_key"]: row for row in made["fused"]["rows"]}["network.qk.weight"]
    assert joined["torch_keys"] == ["network.q.weight", "network.k.weight"]
