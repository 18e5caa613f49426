"""--offload: the same values as with all weights in memory, and few weights in memory."""

import importlib
import json
import sys

import numpy as np
import pytest
from builders import arrays_of, copied, ended, write_pair
from checkout import ROOT, Checkout
from safetensors.numpy import save_file

from tools.draw_weights import write_drawn
from tools.twins import translate
from twincheck.common.check.command_line import check_main
from twincheck.common.pair.pairs import load_pair
from twincheck.common.system.errors import UserError
from twincheck.common.system.frameworks import SIDES
from twincheck.common.system.hashes import arrays_sha256
from twincheck.common.weights import checkpoint as checkpoints
from twincheck.common.weights.layers import Owner
from twincheck.common.weights.mapped import read_mapped
from twincheck.common.weights.read import find, read

CASE = """
import numpy as np
CONFIGS = {"default": {"asks": False}, "asks": {"asks": True}}
def make_inputs(config, seed):
    rng = np.random.default_rng(seed)
    return {"x": rng.normal(size=(2, 3, 8)), "labels": rng.integers(0, 8, (2, 3))}
"""
TORCH = """
import torch
from torch import nn
def value(*shape):
    return nn.Parameter(torch.ones(shape) * 0.5)
def recurrent(*sizes):
    return nn.GRU(*sizes, batch_first=True)
def turned(weight):
    return weight.T
def held(weight):
    return weight.untyped_storage().nbytes() // weight.element_size()
def slope(module, x):
    x = x.detach().requires_grad_()
    return torch.autograd.grad(module(x).sum(), x, create_graph=True)[0]
"""
PADDLE = """
import paddle
from paddle import nn
def value(*shape):
    return paddle.create_parameter(shape, "float32" if paddle.get_default_dtype() == "float32" else
                                   "float64", default_initializer=nn.initializer.Constant(0.5))
recurrent = nn.GRU
def turned(weight):
    return weight
def held(weight):
    return int(weight.size) if weight._is_initialized() else 0
def slope(module, x):
    x = x.detach()
    x.stop_gradient = False
    return paddle.grad(module(x).sum(), x, create_graph=True)[0]
"""
# What both sides share, in torch's words: weights of a root, of a list, of a layer of several, of a
# module that is called again and of one that does not run where they are read.
MODEL = """
ROOT = []

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(8, 8)
        self.gain = value(8)
    def forward(self, given, scale=None):
        with open(f"{__file__}.held", "a") as file:
            file.write(f"{sum(held(weight) for weight in ROOT[0].parameters())} ")
        x = given["x"]
        return {"x": x + self.inner(x) * self.gain * scale, "twice": x * 2.0, "same": x}

class Model(nn.Module):
    def __init__(self, asks):
        super().__init__()
        self.asks = asks
        self.shift = value(8)
        self.shifts = nn.ParameterList([value(8)])
        self.norm = nn.LayerNorm(8)
        self.rnn = recurrent(8, 8)
        self.again = Block()
        self.blocks = nn.ModuleList([Block() for _ in range(3)])
        self.head = nn.Linear(8, 8)
    def forward(self, x):
        ROOT[:] = [self]
        if self.asks:
            x = x + slope(self.head, x)
        x = self.rnn(x + self.shift + self.shifts[0])[0]
        for block in self.blocks:
            made = block({"x": x}, scale=x.mean())
            x = made["x"] + made["twice"] - made["same"]
            x = self.again({"x": x}, scale=x.mean())["x"]
        x = self.head(self.norm(x))
        return {"logits": x + torch.matmul(x, turned(self.blocks[0].inner.weight))}

def build(config):
    return Model(config["asks"])

def loss(outputs, inputs):
    return (outputs["logits"] * outputs["logits"]).mean()
"""
PROBE = ("--probe", "blocks.1")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A checkout, its pair, and the shards of drawn weights that the pair takes."""
    folder = tmp_path_factory.mktemp("offload")
    checkout = Checkout(folder, ("tools",))
    checkout.pair = write_pair(folder / "pair", CASE, TORCH + MODEL, PADDLE + translate(MODEL))
    words = (str(folder / "drawn"), "--model", str(checkout.pair), "--shard-bytes", "2000")
    drawn = ended(0, checkout.module("tools.draw_weights", *words))
    assert "2 files" in drawn.stdout and len(list((folder / "drawn").iterdir())) == 3
    return checkout


def check(checkout, step, *more, pair=None):
    """A check of the pair, or of a changed copy: what it said, its report, its logs."""
    pair, folder = pair or checkout.pair, checkout.pair.parent
    out = folder / f"out {len(list(folder.iterdir()))}"
    done, report = checkout.rows(
        *(step, "--model", str(pair), "--weights", str(folder / "drawn"), "--out", str(out)),
        *("--no-report", *more),
    )
    return done, report, out / f"step{step}_{'forward' if step == 1 else 'backward'}" / pair.name


def most_held(pair, side):
    """Return how many values of weights were in memory at once where blocks ran, and forget it."""
    file = pair / f"{side}_model.py.held"
    most = max(map(int, file.read_text().split()))
    file.unlink()
    return most


@pytest.mark.slow
def test_a_checks_logs_are_the_same_files_and_few_weights_are_in_memory(made):
    found, most = [], []
    for more in ((), ("--offload",)):
        found.append(ended(0, check(made, 1, "--case", "main", *more)))
        most.append([most_held(made.pair, side) for side in SIDES])
    logs = [sorted(path.name for path in folder.glob("*.npy")) for _, _, folder in found]
    assert logs[0] == logs[1] and len(logs[0]) == 6
    for name in logs[0]:
        same = [(folder / name).read_bytes() for _, _, folder in found]
        assert same[0] == same[1], name
    sidecars = [json.loads((f / "forward_all_torch.json").read_text()) for _, _, f in found]
    assert sidecars[0]["weights_sha256"] == sidecars[1]["weights_sha256"]
    assert not (found[1][2] / "weights" / "main.npz").exists()
    assert all(few < whole / 4 for whole, few in zip(*most, strict=True)), most


@pytest.mark.slow
def test_gradients_go_back_through_weights_that_come_again(made):
    """From the loss past the blocks behind the probed one, and on to the input."""
    runs = [ended(0, check(made, 4, "--case", "main", *PROBE, *o)) for o in ((), ("--offload",))]
    for side in SIDES:
        whole, logged = (arrays_of(f / f"bp_align_all_{side}_fp64.npy") for _, _, f in runs)
        gradients = {key for key in logged if key.startswith("grad/")}
        assert "grad/inputs/x" in gradients and "grad_of/blocks.1.inner" in logged
        assert sum(key.startswith("grad/blocks.1.") for key in gradients) == len(gradients) - 1 == 3
        for key, values in logged.items():
            size = max(1.0, np.abs(whole[key]).max())
            assert np.abs(values - whole[key]).max() <= 1e-15 * size, key


@pytest.mark.slow
def test_a_wrong_layer_is_found_with_all_weights_and_without(made, tmp_path):
    pair = copied(made.pair, tmp_path, ("LayerNorm(8)", "LayerNorm(8, epsilon=1e-3)"))
    rows = []
    for more in ((), ("--offload",)):
        _, report, _ = ended(1, check(made, 1, "--case", "main", *more, pair=pair))
        assert report["first_diverged"] == "norm"
        rows.append([(row["key"], row["verdict"]) for row in report["rows"]])
    assert rows[0] == rows[1]
    ended(1, check(made, 4, "--case", "main", "--offload", *PROBE, pair=pair))  # seen behind it


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--preset", "asks", *PROBE), "asks for gradients by itself"),
        (("--probe", "nothing"), "--offload --probe nothing: no weights are in what it"),
    ],
)
def test_what_would_have_no_gradient_is_refused(made, words, said):
    """On either side, so that both would agree."""
    done, _, _ = ended(2, check(made, 4, "--case", "main", "--offload", *words))
    assert said in done.stderr


# ---- files ---------------------------------------------------------------------------------------


def test_what_is_mapped_is_what_is_read(tmp_path):
    """Every dtype that a file may hold, an empty array and a scalar among them; the same hash."""
    rng = np.random.default_rng(0)
    arrays = {
        "w": rng.normal(size=(3, 5)).astype(np.float32),
        "d": rng.normal(size=(2, 1, 4)),
        "half": rng.normal(size=7).astype(np.float16),
        "ids": np.arange(6),
        "mask": np.array([True, False]),
        "empty": np.zeros((0, 4), np.float32),
        "scalar": np.array(2.5, np.float32),
    }
    save_file(arrays, tmp_path / "w.safetensors")
    as_bfloat16(tmp_path / "wide.safetensors")
    for name in ("w", "wide"):
        files = find(str(tmp_path / f"{name}.safetensors"))
        whole, mapped = read(files), read(files, mapped=True)
        assert set(whole.state) == set(mapped.state) and whole.widened == mapped.widened
        for key, values in whole.state.items():
            found = mapped.state[key]
            assert (found.dtype, found.shape) == (values.dtype, values.shape)
            assert found.tobytes() == values.tobytes()
        assert mapped.state.sha256() == arrays_sha256(whole.state)
        mapped.state.write(tmp_path / "m.json")
        assert read_mapped(tmp_path / "m.json").places == mapped.state.places
    (tmp_path / "wide.safetensors").write_bytes(b"")
    with pytest.raises(UserError, match="it was there and holds no b any more"):
        read_mapped(tmp_path / "m.json")


def as_bfloat16(path) -> None:
    """A file of one array of bfloat16, which NumPy lacks."""
    header = json.dumps({"b": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}}).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + b"\x80\x3f\x00\xc0")


@pytest.mark.parametrize(
    "entry, said",
    [
        ({"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}, "w does not lie within it"),
        ({"dtype": "F32", "shape": [-2], "data_offsets": [0, 8]}, "says nothing proper of w"),
        ({"dtype": "F4", "shape": [2], "data_offsets": [0, 8]}, "w of the dtype F4"),
    ],
)
def test_a_header_is_believed_only_where_it_fits(tmp_path, entry, said):
    header = json.dumps({"w": entry}).encode()
    path = tmp_path / "w.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(8))
    with pytest.raises(UserError, match=said):
        read(find(str(path)), mapped=True)


# ---- refused -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "step, words, said",
    [
        (1, [], "--offload maps a file of weights: give it as --weights"),
        (1, ["--weights", "x", "--reuse", "torch"], "--offload and --reuse exclude each other"),
        (1, ["--weights", "x", "--dtype", "bfloat16"], "--offload and --dtype bfloat16 exclude"),
        (4, ["--weights", "x"], "--offload: say with --probe of which block the gradients"),
        (1, ["--compare-only"], "leave out --offload"),
    ],
)
def test_what_cannot_go_with_it_is_refused(step, words, said, capsys, monkeypatch):
    title = {1: "forward", 4: "backward"}[step]
    module = importlib.import_module(f"twincheck.step{step}_{title}.step")
    monkeypatch.setattr("sys.modules", sys.modules | {"__main__": module})
    assert check_main(module.STEP, ["--model", str(DECODER), "--offload", *words]) == 2
    assert said in capsys.readouterr().err


DECODER = ROOT / "faults" / "users" / "pairs" / "llama_like"
OWNERS = {"a": Owner("", "a", (2, 3), True, "a"), "b": Owner("", "b", (4,), True, "b")}


def fitted(option):
    """Do with a checkpoint as the check's process, but for the process that it starts."""
    found = checkpoints.Checkpoint(find(str(option)))
    checkpoints.fit(load_pair(str(DECODER)), found, lambda side: OWNERS, mapped=True)
    return found


def test_what_is_drawn_is_in_shards_and_any_other_model_is_refused(tmp_path):
    owners = OWNERS | {"e": Owner("Embedding", "weight", (3, 2), True, "e", padding=1)}
    owners |= {"tied": owners["e"]._replace(local="x")}
    assert write_drawn(tmp_path, owners, 0, 40) == 2
    state = read(find(str(tmp_path))).state
    assert set(state) == {"a", "b", "e"} and not state["e"][1].any() and state["e"][0].all()
    again = tmp_path / "again"
    again.mkdir()
    assert write_drawn(again, owners, 0, 1000) == 1
    whole = read(find(str(again))).state
    assert all(whole[key].tobytes() == values.tobytes() for key, values in state.items())
    with pytest.raises(UserError, match="n is a buffer: its value is the model's"):
        write_drawn(tmp_path, OWNERS | {"n": Owner("", "n", (), False, "n")}, 0, 40)


def test_files_that_do_not_fit_are_refused_in_a_sentence(tmp_path):
    def refused(name, said):
        with pytest.raises(UserError, match=said):
            fitted(tmp_path / name)

    write_drawn(tmp_path, OWNERS, 0, 16)  # two shards and their index
    index = tmp_path / "model.safetensors.index.json"
    assert set(fitted(index).state) == {"a", "b"}
    save_file({"a": np.zeros((3, 2), np.float32)}, tmp_path / "few.safetensors")
    refused("few.safetensors", r"missing: b; a is \[3, 2\], the model has \[2, 3\]")
    np.savez(tmp_path / "w.npz", a=np.zeros((2, 3)), b=np.zeros(4))
    refused("w.npz", "--offload maps safetensors alone, and w.npz is none: write it as such")
    both = {"a": np.zeros((3, 2), np.float32), "b": np.zeros(4, np.float32)}
    save_file(both, tmp_path / "pd.safetensors", metadata={"format": "pd"})
    refused("pd.safetensors", "has Paddle's layout, and --offload maps torch's")
    whole = (tmp_path / "model-00002-of-00002.safetensors").read_bytes()
    (tmp_path / "model-00002-of-00002.safetensors").write_bytes(whole[:-1])
    refused(index.name, "b does not lie within it")
    (tmp_path / "model-00002-of-00002.safetensors").unlink()
    refused(index.name, "names the shard model-00002-of-00002.safetensors, which is not there")
