"""A library's own loader as the carrier: what it must bring, and every fault of it that is named.

A small library is written for either framework, and a fault is planted in its Paddle loader.
"""

import json

import pytest
from builders import a_case, ended, paddles, write_pair

from twincheck.extras.new_pair.loader import loader_lines

pytestmark = pytest.mark.slow

PRESETS = {name: {"channels": 4, "tied": name == "tied"} for name in ("default", "tied")}
CASE = a_case('"ids": rng.integers(0, 7, size=(3, 5))', PRESETS) + 'load = "from_pretrained"\n'
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


def loss(outputs, inputs):
    return (outputs["logits"] ** 2).mean()
"""
READ = """
        state = {k: v.T if k[0] in "qkogud" and v.ndim == 2 else v for k, v in state.items()}
        # here
        model.set_state_dict(state)
        # and here
"""
OWN = """
        state = {key: paddle.from_numpy(values) for key, values in state.items()}
        model.load_state_dict(state, strict=not model.config["tied"])
"""
SAVE = """        # before it is saved
        state = {k: v.T.copy() if k[0] in "qkogud" and v.ndim == 2 else v for k, v in state.items()}
        save_file(state"""
PADDLE = paddles(
    TORCH,
    ("import paddle\n", "import numpy as np\nimport paddle\n"),
    (".transpose(-1, -2)", ".transpose([0, 2, 1])"),
    ("scores.softmax(-1)", "nn.functional.softmax(scores)"),
    (OWN, READ),
    ("        save_file(state", SAVE),
)
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

LEFT = "elements are left at their initial values"
# name: what is planted in the loader where it says "# here", and what must be said of the loaded
# model's entry below network; after "# and here: " where that is its place
FAULTS = {
    "square weight transposed": (
        'state["o.weight"] = state["o.weight"].T',
        "o.weight of the loaded model is network.o.weight as torch has it, not trans",
    ),
    "key silently missing": ('del state["norm.bias"]', f"norm.bias: all 4 {LEFT}"),
    "k for q": (
        'state["q.weight"] = state["k.weight"]',
        "q.weight: all 16 elements come from network.k.weight, not",
    ),
    "q and k swapped": (
        'state["q.bias"], state["k.bias"] = state["k.bias"], state["q.bias"]',
        ["network.q.bias", "come from network.k.bias, not", "network.k.bias of the loaded model"],
    ),
    "half": (
        'state["down.weight"] = state["down.weight"].astype("float16").astype("float32")',
        "down.weight: all 24 elements are rounded to float16",
    ),
    "scale folded in": (
        'state["q.weight"] = state["q.weight"] * np.float32(0.7)',
        "q.weight: all 16 elements are computed on the way",
    ),
    "rows in another order": (
        'state["gate.weight"] = state["gate.weight"][:, [0, 2, 1, 3, 4, 5]]',
        "gate.weight: 8 of 24 elements of network.gate.weight are in other places; first [0, 1], "
        "which is network.gate.weight[2, 0], not",
    ),
    "tied": (
        "and here: model.head.weight = model.emb.weight",
        ["network.emb.weight and network.head.weight are one tensor once loaded, two as built"],
    ),
    "negative values lost": (  # which marks are not: the weights themselves show it
        'state["up.bias"] = np.maximum(state["up.bias"], 0)',
        ["network.up.bias of the loaded model: case", "gives it other bits"],
    ),
    "a layer lost": (
        "and here: del model.norm",
        ["the loaded model has no network.norm.weight"],
    ),
    "first folder kept": (
        "and here: model = vars(cls).get('kept', model); cls.kept = model",
        f"q.weight: all 16 {LEFT}",
    ),
}


def planted(text, fault):
    """The Paddle file with a line of the loader in the place that it names."""
    named = fault.startswith(("and here: ", "before it is saved: "))
    place, _, line = fault.partition(": ") if named else ("here", "", fault)
    assert f"# {place}\n" in text
    return text.replace(f"# {place}\n", f"{line}\n")


def write(folder, paddle, case=CASE, torch=TORCH):
    return write_pair(folder, case, torch, paddle)


def certificates(checkout, folders, *options):
    """The finished command, and each pair's certificate by its name."""
    report = checkout.elsewhere / "certificates.json"
    report.unlink(missing_ok=True)
    named = [word for folder in folders for word in ("--model", str(folder))]
    done = checkout.module("twincheck", "certificate", *named, "--json", str(report), *options)
    found = json.loads(report.read_text()) if report.is_file() else []
    return done, {row["model"]: row for row in found}


@pytest.fixture(scope="module")
def made(checkout):
    """Every certificate, from one run."""
    folders = []
    for name, (fault, _) in FAULTS.items():
        folder = checkout.elsewhere / "pairs" / name.replace(" ", "_")
        folders.append(write(folder, planted(PADDLE, fault)))
    sound = {"sound": PADDLE, "fused": planted(FUSED, JOIN)}
    folders += [write(checkout.elsewhere / "pairs" / name, text) for name, text in sound.items()]
    done, found = ended(1, certificates(checkout, folders))
    assert len(found) == len(folders)
    return found


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_loader_is_named(made, name):
    found = made[name.replace(" ", "_")]
    assert not found["certified"] and found["exit_code"] == 1
    words = FAULTS[name][1]
    if isinstance(words, str):
        words = [f"network.{words}".replace(": ", " of the loaded model: ", 1)]
    told = " | ".join([*found["problems"], *found["only_torch"]])
    assert [word for word in words if word not in told] == []


def test_a_sound_loader_is_certified(made):
    for name, entries in (("sound", 15), ("fused", 13)):
        found = made[name]
        assert found["certified"], found["problems"]
        assert len(found["rows"]) == entries
        assert f"{entries} entries, every marked element where it belongs" in found["notes"][0]
    joined = {row["paddle_key"]: row for row in made["fused"]["rows"]}["network.qk.weight"]
    assert joined["torch_keys"] == ["network.q.weight", "network.k.weight"]


def test_the_reference_s_own_loader_is_tried_too(checkout):
    torch = TORCH.replace(
        "model.load_state_dict(", 'del state["q.bias"]\n        model.load_state_dict('
    )
    torch = torch.replace('strict=not model.config["tied"]', "strict=False")
    folder = write(checkout.elsewhere / "pairs" / "of_torch", PADDLE, torch=torch)
    done, found = ended(1, certificates(checkout, [folder]))
    (problem,) = found["of_torch"]["problems"]
    assert "network.q.bias of the loaded model: all 4 elements are left at their" in problem


def test_checks_run_on_what_was_loaded(checkout):
    """Plain and perturbed, both precisions, tied weights; a wrong loader is told by every check."""
    sound = checkout.elsewhere / "pairs" / "sound"
    done, report = ended(
        0, checkout.rows(1, "--model", str(sound), "--preset", "tied", "--no-report")
    )
    assert any(row["key"].startswith("perturbed/") for row in report["rows"])
    assert "14 entries, every marked element where it belongs" in done.stdout
    fused = checkout.elsewhere / "pairs" / "fused"
    done, report = ended(
        0, checkout.rows(4, "--model", str(fused), "--case", "perturbed", "--no-report")
    )
    gradients = {row["key"] for row in report["rows"] if "network.k.weight" in row["key"]}
    assert gradients and not any("network.qk" in row["key"] for row in report["rows"])
    wrong = checkout.elsewhere / "pairs" / "square_weight_transposed"
    done, _ = ended(2, checkout.rows(1, "--model", str(wrong), "--no-report"))
    assert "the Paddle side's own loader: network.o.weight of the loaded model is" in done.stderr


# Neither side has a loader of its own: the folder is written here, and each side's file reads it.
BY_HAND = """

def load(model, folder):
    from pathlib import Path

    model.set_state_dict(
        {
            key: values.T if values.ndim == 2 and key.split(".")[1] in NAMES else values
            for key, values in load_file(Path(folder, "model.safetensors")).items()
        }
    )


NAMES = ("q", "k", "o", "gate", "up", "down")
"""


def test_a_loader_is_written_by_hand(checkout):
    def bare(text):
        return text.replace("from_pretrained", "read_from").replace("save_pretrained", "write_to")

    torch = bare(TORCH) + BY_HAND.replace("set_state_dict", "load_state_dict").replace(
        'values.T if values.ndim == 2 and key.split(".")[1] in NAMES else values',
        "torch.from_numpy(values)",
    )
    pairs = checkout.elsewhere / "pairs"
    good = write(pairs / "by_hand", bare(PADDLE) + BY_HAND, torch=torch)
    done, found = certificates(checkout, [good])
    assert found["by_hand"]["certified"], done.stdout + done.stderr
    none = write(pairs / "no_loader", bare(PADDLE), torch=bare(TORCH))
    done, _ = ended(2, certificates(checkout, [none]))
    assert "no part whose class has from_pretrained: write load(model, folder)" in done.stderr


def test_the_lines_that_are_written_for_a_pair():
    formers = {"torch": "transformers", "paddle": "paddleformers.transformers"}
    assert list(loader_lines(formers, {"torch": "network", "paddle": "network"})) == ["case.py"]
    nlp = {"torch": "transformers", "paddle": "paddlenlp.transformers"}
    for name, line in (
        ("network", "    model.network = type(model.network).from_pretrained(folder, convert_from"),
        ("", "    return type(model).from_pretrained(folder, convert_from_torch=True)"),
    ):
        lines = loader_lines(nlp, {"torch": name, "paddle": name})
        assert line in lines["paddle_model.py"]
        compile(lines["paddle_model.py"], "paddle_model.py", "exec")
        compile(lines["case.py"], "case.py", "exec")


# name: what is planted where the Paddle library saves, and what must be said of it
SAVED = {
    "saved": ("before it is saved: ", []),
    "saved transposed": (
        'before it is saved: state["o.weight"] = state["o.weight"].T',
        [
            "on the way torch, Paddle, torch: network.o.weight of the loaded model is network.o.w",
            "on the way Paddle, torch, Paddle: network.o.weight of the loaded model is network.o.w",
        ],
    ),
    "saved by paddle": (
        "before it is saved: return paddle.save(self.state_dict(), folder + '/model.pdparams')",
        [],
    ),
}


def test_round_trips_through_the_libraries_own_files(checkout):
    pairs = checkout.elsewhere / "round trips"
    folders = [
        write(pairs / name.replace(" ", "_"), planted(PADDLE, fault))
        for name, (fault, _) in SAVED.items()
    ]
    done, found = ended(1, certificates(checkout, folders, "--round-trip"))
    for name, (_, words) in SAVED.items():
        told = found[name.replace(" ", "_")]
        assert bool(told["problems"]) == bool(words), told
        assert any("its own bits" in note for note in told["notes"]) != bool(words)
        for word in words:
            assert word in " | ".join(told["problems"])
    stands_in = [n for n, told in found.items() if "stands in for it" in " ".join(told["notes"])]
    assert stands_in == ["saved_by_paddle"]
    none = write(pairs / "no_hook", PADDLE, CASE.replace('load = "from_pretrained"', ""))
    done, _ = ended(2, certificates(checkout, [none], "--round-trip"))
    assert "has no load: without a library's own loader the certificate itself" in done.stderr
