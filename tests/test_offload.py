"""--offload: the same values as with all weights in memory, and few weights in memory.

In this process a model is run both ways on both sides; the commands run one small decoder.
"""

import importlib
import json
import math
import sys
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from builders import copied, ended, write_pair
from checkout import ROOT, Checkout
from safetensors.numpy import save_file

from tools.draw_weights import write_drawn
from tools.twins import translate
from twincheck.common.check.command_line import check_main
from twincheck.common.pair.pairs import Case, load_pair
from twincheck.common.pair.request import RunRequest
from twincheck.common.sides.job import Job
from twincheck.common.sides.run import Run
from twincheck.common.sides.session import Selection, Session, using
from twincheck.common.sides.shared_weights import make_weights, map_weights
from twincheck.common.sides.worker import _asks_for_gradients
from twincheck.common.system.errors import UserError
from twincheck.common.system.frameworks import SIDES
from twincheck.common.system.hashes import arrays_sha256
from twincheck.common.weights import checkpoint as checkpoints
from twincheck.common.weights import states
from twincheck.common.weights.layers import Owner
from twincheck.common.weights.mapped import Mapped, read_mapped, safetensors_places
from twincheck.common.weights.read import find, read

CASE = """
import numpy as np
CONFIGS = {"default": {}}
def make_inputs(config, seed):
    rng = np.random.default_rng(seed)
    return {"x": rng.normal(size=(2, 3, 8)), "labels": rng.integers(0, 8, (2, 3))}
"""
TORCH = """
import torch
from torch import nn
def value(*shape):
    return nn.Parameter(torch.ones(shape) * 0.5)
def turned(weight):
    return weight.T
"""
PADDLE = """
import paddle
from paddle import nn
def value(*shape):
    return paddle.create_parameter(shape, "float32" if paddle.get_default_dtype() == "float32" else
                                   "float64", default_initializer=nn.initializer.Constant(0.5))
def turned(weight):
    return weight
"""
# What both sides share, in torch's words.
MODEL = """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(8, 8)
        self.gain = value(8)
    def forward(self, given, scale=None):
        x = given["x"]
        return {"x": x + self.inner(x) * self.gain * scale, "twice": x * 2.0, "same": x}

class Model(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.kind = kind
        if kind == "root":
            self.shift = value(8)
        if kind == "list":
            self.shifts = nn.ParameterList([value(8)])
        if kind == "norm":
            self.norm = nn.LayerNorm(8)
        if kind == "gru":
            self.rnn = nn.GRU(8, 8)
        if kind == "shared":
            self.again = Block()
        self.blocks = nn.ModuleList([Block() for _ in range(3)])
        self.head = nn.Linear(8, 8)
    def forward(self, x):
        if self.kind == "root":
            x = x + self.shift
        if self.kind == "list":
            x = x + self.shifts[0]
        if self.kind == "gru":
            x = self.rnn(x)[0]
        for block in self.blocks:
            made = block({"x": x}, scale=x.mean())
            x = made["x"] + made["twice"] - made["same"]
            if self.kind == "shared":
                x = self.again({"x": x}, scale=x.mean())["x"]
        if self.kind == "norm":
            x = self.norm(x)
        x = self.head(x)
        if self.kind == "tied":  # read, and its module does not run
            x = x + torch.matmul(x, turned(self.blocks[0].inner.weight))
        return {"logits": x}

def build(config):
    return Model(config["kind"])

def loss(outputs, inputs):
    return (outputs["logits"] * outputs["logits"]).mean()
"""
KEPT = ("grad/blocks.1.", "grad/inputs/")
KINDS = ("plain", "norm", "root", "list", "gru", "shared", "tied")


@cache
def of(side: str):
    return importlib.import_module(f"twincheck.common.sides.backend_{side}").side


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The pair."""
    base = tmp_path_factory.mktemp("offload") / "pair"
    return write_pair(base, CASE, TORCH + MODEL, PADDLE + translate(MODEL))


def a_run(folder, tmp_path, kind: str, side: str, dtype: str, offload: bool, probes=()):
    """A Run of one side, its logged values by key, and its session."""
    pair, case = load_pair(str(folder)), Case("", {"kind": kind})
    request = RunRequest(str(folder), probes=probes)
    work = tmp_path / "work"
    of("torch").set_up("float32", "cpu", 0)
    jobs = {
        name: Job(of(name), "", None, request, pair, [case], "", work, "")
        for name in ("torch", side)
    }
    work.mkdir(exist_ok=True)
    make_weights(jobs["torch"])
    stored = work / "weights" / "main.npz"
    rng = np.random.default_rng(1)
    noisy = {k: v + 0.3 * rng.normal(size=v.shape) for k, v in states.load_state(stored).items()}
    states.save_state(stored, {k: values.astype(np.float32) for k, values in noisy.items()})
    job = jobs[side]
    if offload:
        more = {"offload": True, "published": str(tmp_path), "weights": "x"}
        job = replace(job, request=replace(request, **more))
        owners = states.load_owners(work / "weights" / "main.json")
        state = states.load_state(stored)
        save_file({k: np.ascontiguousarray(v) for k, v in state.items()}, tmp_path / "w")
        Mapped(safetensors_places(tmp_path / "w")[0]).write(tmp_path / "pair.mapped.json")
        states.save_owners(tmp_path / "pair.owners.json", owners)
        map_weights(job)
    of(side).set_up(dtype, "cpu", 0)
    logged = {}
    session = Session(0, record=lambda key, values, **_: logged.setdefault(key, values.copy()))
    session.selection = Selection(probes)
    return Run(job, case, dtype, session), logged, session


def with_and_without(function, *told, **more):
    """Return what a function makes of a run with all weights in memory, and of one offloading."""
    return [function(*told, offload=offload, **more) for offload in (False, True)]


def forward(folder, tmp_path, kind, side, dtype, offload):
    """Every value that step 1 logs, and the offload's parts with how much each has in memory."""
    run, logged, session = a_run(folder, tmp_path, kind, side, dtype, offload)
    step = importlib.import_module(f"twincheck.step1_forward.{side}.forward")
    most = []
    with using(session):
        build = run.build

        def built():
            model = build()
            if run.offload:
                note_presence(run, most)
            return model

        run.build = built
        step.forward(run)
    of(side).set_up("float32", "cpu", 0)
    return logged, run, most


def note_presence(run, most):
    """Append to `most`, whenever a weight comes in, how many values are in memory."""
    bring = run.offload._bring

    def brought(weights):
        bring(weights)
        most.append(in_memory(run))

    run.offload._bring = brought


def in_memory(run) -> int:
    """Count the values of parameters that have memory of their own now, as the framework has it."""
    values = [weight.value for weight in run.offload._weights.values()]
    if run.side.NAME == "torch":
        return sum(value.untyped_storage().nbytes() // value.element_size() for value in values)
    return sum(math.prod(value.shape) for value in values if value._is_initialized())


@pytest.mark.slow
@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_forward_is_the_same_to_the_bit_and_leaves_nothing(folder, tmp_path, kind, side):
    for dtype in ("float64", "float32"):
        asked = (folder, tmp_path, kind, side, dtype)
        (whole, _, _), (logged, run, most) = with_and_without(forward, *asked)
        assert list(whole) == list(logged) and len(whole) > 20
        assert all(whole[key].tobytes() == logged[key].tobytes() for key in whole)
        assert run.notes["read_back"] == [] and run.offload is not None
        weights = [weight.value for weight in run.offload._weights.values()]
        assert len(run.offload.absent) == len(weights)
        blank = len(weights) if side == "torch" else 0  # a value that stands for all
        assert in_memory(run) == blank
        # A block of 80 values at a time, beside the root's own 8; or the GRU.
        largest = {"gru": 432, "root": 88, "list": 88}.get(kind, 80)
        assert largest <= max(most) <= largest + blank
        assert sum(math.prod(value.shape) for value in weights) > 2 * max(most) or kind == "gru"


def gradients(folder, tmp_path, kind, side, dtype, offload, probes):
    """The rows of step 4's gradients."""
    run, logged, session = a_run(folder, tmp_path, kind, side, dtype, offload, probes)
    step = importlib.import_module("twincheck.step4_backward.backward")
    most = []
    with using(session):
        if offload:
            learn = run.learn_probed
            run.learn_probed = lambda model: (learn(model), note_presence(run, most))
        step.gradients(run)
    of(side).set_up("float32", "cpu", 0)
    return logged, run, most


@pytest.mark.slow
@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("kind", KINDS)
def test_gradients_go_back_through_weights_that_come_again(folder, tmp_path, kind, side):
    """From the loss past the blocks behind the probed one, and on to the input."""
    asked = (folder, tmp_path, kind, side, "float64")
    (whole, _, _), (logged, run, most) = with_and_without(gradients, *asked, probes=("blocks.1",))
    others = {k for k in whole if k.startswith("grad/") and not k.startswith(KEPT)}
    assert [key for key in whole if key not in others] == list(logged) and others
    assert sum(key.startswith("grad/blocks.1.") for key in logged) == 3
    assert "grad_of/blocks.1.inner" in logged and "grad/inputs/x" in logged
    for key, values in logged.items():
        assert np.abs(values - whole[key]).max() <= 1e-15 * max(1.0, np.abs(whole[key]).max()), key
    exact = [key for key in logged if "grad" not in key]
    assert all(whole[key].tobytes() == logged[key].tobytes() for key in exact)


@pytest.mark.parametrize("side", SIDES)
def test_a_gradient_that_a_model_goes_on_with_is_refused(folder, tmp_path, side):
    """It would have no gradient itself, on either side, and both would agree."""
    run, _, session = a_run(folder, tmp_path, "plain", side, "float64", True)
    with using(session):
        model = run.build()
        x = run.side.watch(run.tensors()["x"])
        total = model(x)["logits"].sum()
        gradient = importlib.import_module("torch").autograd.grad if side == "torch" else None
        gradient = gradient or importlib.import_module("paddle").grad
        with pytest.raises((RuntimeError, OSError), match="asks for gradients by itself") as raised:
            gradient([total], [x], create_graph=True)
        assert _asks_for_gradients(raised.value)
    of(side).set_up("float32", "cpu", 0)


@pytest.mark.parametrize("side", SIDES)
def test_a_probe_without_weights_is_refused(folder, tmp_path, side):
    with pytest.raises(UserError, match="--offload --probe nothing: no weights are in what it"):
        gradients(folder, tmp_path, "plain", side, "float32", True, ("nothing",))


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


# ---- a decoder, by the commands ------------------------------------------------------------------

DECODER = ROOT / "faults" / "users" / "pairs" / "llama_like"


@pytest.fixture(scope="module")
def decoder(tmp_path_factory):
    """A checkout, and the shards of drawn weights that its decoder takes; (checkout, folder)."""
    folder = tmp_path_factory.mktemp("decoder")
    checkout = Checkout(folder, ("faults/users/pairs/llama_like", "tools"))
    drawn = checkout.module(
        *("tools.draw_weights", str(folder / "drawn"), "--model", str(DECODER)),
        *("--shard-bytes", "8000"),
    )
    assert drawn.returncode == 0, drawn.stderr
    assert "3 files" in drawn.stdout and len(list((folder / "drawn").iterdir())) == 4
    return checkout, folder


def check(decoder, step, *more, pair=DECODER):
    """A check of the decoder, or of a changed copy: what it said, its report, its logs."""
    checkout, folder = decoder
    out = folder / f"out {len(list(folder.iterdir()))}"
    done, report = checkout.rows(
        *(step, "--model", str(pair), "--weights", str(folder / "drawn"), "--out", str(out)),
        *("--no-report", *more),
    )
    return done, report, out / f"step{step}_{'forward' if step == 1 else 'backward'}" / pair.name


@pytest.mark.slow
def test_a_checks_logs_are_the_same_files(decoder):
    found = [check(decoder, 1, *more) for more in ((), ("--offload",))]
    for one in found:
        ended(0, one)
    logs = [sorted(path.name for path in folder.glob("*.npy")) for _, _, folder in found]
    assert logs[0] == logs[1] and len(logs[0]) == 6
    for name in logs[0]:
        same = [(folder / name).read_bytes() for _, _, folder in found]
        assert same[0] == same[1], name
    sidecars = [json.loads((f / "forward_all_torch.json").read_text()) for _, _, f in found]
    assert sidecars[0]["weights_sha256"] == sidecars[1]["weights_sha256"]
    assert not (found[1][2] / "weights" / "main.npz").exists()


@pytest.fixture
def wrong(tmp_path):
    """A copy of the pair whose second layer has another epsilon in Paddle."""
    new = "inner, 10 * eps if i else eps)\n             for i in range(layers)"
    return copied(DECODER, tmp_path, ("inner, eps) for _ in range(layers)", new))


@pytest.mark.slow
def test_an_epsilon_is_named_at_its_line_with_all_weights_and_without(decoder, wrong):
    found = [check(decoder, 1, *more, pair=wrong) for more in ((), ("--offload",))]
    rows = []
    for one in found:
        _, report, folder = ended(1, one)
        rows.append([(row["key"], row["verdict"]) for row in report["rows"]])
        assert report["first_diverged"] == "layers.1.input_layernorm"
        places = json.loads((folder / "forward_all_paddle.json").read_text())["places"]
        line = int(places["layers.1.input_layernorm"].rpartition(":")[2])
        text = (wrong / "paddle_model.py").read_text().splitlines()[line - 1]
        assert text.strip() == "def forward(self, hidden_states):"
    assert rows[0] == rows[1]


@pytest.mark.slow
def test_a_check_of_one_blocks_gradients(decoder, wrong):
    """And a fault in a block behind it is seen in what comes back."""
    probe = ("--offload", "--probe", "layers.0")
    done, report, _ = ended(0, check(decoder, 4, *probe))
    keys = {row["key"] for row in report["rows"]}
    gradients = {key for key in keys if key.startswith("grad/")}
    assert len(gradients) == 9 and all("layers.0." in key for key in gradients)
    assert "grad_of/layers.0.mlp.down_proj" in keys and not any("witness" in key for key in keys)
    done, report, _ = ended(1, check(decoder, 4, *probe, pair=wrong))


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
