"""Published checkpoints: read, compared with transformers itself, converted, refused."""

import json
import shutil
from pathlib import Path

import numpy as np
import paddle
import pytest
import torch
from builders import Checked, python, twincheck
from checkout import ROOT, Checkout
from safetensors.numpy import load_file, save_file
from transformers import ReformerModelWithLMHead

from twincheck.common.logs.reader import read_log
from twincheck.common.models.reformer.case import DEFAULTS, complete, publish, published
from twincheck.common.models.reformer.paddle_model import build
from twincheck.common.pair.pairs import load_pair
from twincheck.common.system.errors import UserError
from twincheck.common.weights.checkpoint import configured, fit, prepare
from twincheck.common.weights.read import find, parts, read

HEADS = {
    "none": "ReformerModel",
    "lm": "ReformerModelWithLMHead",
    "masked_lm": "ReformerForMaskedLM",
    "classification": "ReformerForSequenceClassification",
    "question_answering": "ReformerForQuestionAnswering",
}
TINY = {
    "attn_layers": ["lsh", "local"],
    "num_attention_heads": 2,
    "attention_head_size": 16,  # so that the projections are square: a transpose must be seen
    "hidden_size": 32,
    "feed_forward_size": 48,
    "vocab_size": 60,
    "axial_pos_shape": [6, 8],
    "axial_pos_embds_dim": [8, 24],
    "max_position_embeddings": 48,
    "lsh_attn_chunk_length": 4,
    "local_attn_chunk_length": 8,
    "num_buckets": [2, 4],
    "num_hashes": 2,
    "hidden_act": "gelu",
    "initializer_range": 0.1,
}
ALLOWED = 1e-12  # of a tensor's largest value
TIMEOUT_S = 900
FORMS = ("safe", "bin", "legacy", "shards", "bin_shards")
OF_HEAD = {  # what step 1 reads of each head; step 4 reads its safetensors
    "none": "bin",
    "lm": "legacy",
    "masked_lm": "shards",
    "classification": "bin_shards",
    "question_answering": "safe",
}
MORE = {"lm": {"is_decoder": True}, "classification": {"num_labels": 5}}


def transformers(folder, *tasks):
    """Do tasks of reference_transformers.py; what it answers to each."""
    request = Path(folder) / "request.json"
    request.write_text(json.dumps(tasks))
    script = str(Path(__file__).with_name("reference_transformers.py"))
    python(script, str(request), warm=True, timeout=TIMEOUT_S)
    return json.loads(request.with_suffix(".answer.json").read_text())


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder HEAD/FORM of every head, in every form that transformers writes."""
    folder = tmp_path_factory.mktemp("as published")
    tasks = [
        {"do": "make", "architecture": kind, "config": TINY | MORE.get(head, {})}
        | {"folder": str(folder / head), "forms": FORMS if head == "lm" else [form, "safe"]}
        for (head, kind), form in zip(HEADS.items(), OF_HEAD.values(), strict=True)
    ]
    transformers(folder, *tasks)
    return folder


@pytest.fixture(scope="module")
def whole(made, tmp_path_factory):
    """The lm head's checkpoint with both sides' owners; (pair, checkpoint)."""
    pythons = dict.fromkeys(("torch", "paddle"), *Checkout.interpreter)
    work = tmp_path_factory.mktemp("work")
    asked = (str(made / "lm" / "bin"), "default", False, pythons, work)
    return prepare(load_pair("reformer"), *asked, both=True)


def fitted(path, whole):
    """A checkpoint of the lm head brought to the model, no process started."""
    pair, checkpoint = configured(load_pair("reformer"), str(path), "default", False)
    fit(pair, checkpoint, lambda side: whole[1].owners[side])
    return checkpoint


@pytest.fixture
def copy(made, tmp_path):
    """A function that copies a form of the lm head, to be changed."""
    return lambda form: shutil.copytree(made / "lm" / form, tmp_path / "my copy" / form)


# ---- both twins against transformers ------------------------------------------------------------


CLEAN = {"missing_keys": [], "unexpected_keys": [], "error_msgs": []}


def differences(head, folder, logs, work):
    """Side -> tensor -> difference between a twin and transformers in float64 (see `relative`).

    folder   the checkpoint, as transformers reads it
    logs     step 4's, of a check of the same checkpoint
    """
    sidecar = json.loads((logs / "bp_align_all_torch_fp64.json").read_text())
    with read_log(logs / "bp_align_all_torch_fp64.npy") as log:
        drawn = [log[key] for key in log if key.endswith("self_attention.hash_rotations")]
    arrays = made_inputs(folder, sidecar["preset"], sidecar["seed"])
    answer = of_transformers(head, folder, arrays, drawn, work)
    found = {}
    for side in ("torch", "paddle"):
        with read_log(logs / f"bp_align_all_{side}_fp64.npy") as log:
            found[side] = relative({key: log[key] for key in answer}, answer)
    return found


def of_transformers(head, folder, arrays, rotations, work):
    """Outputs, loss and gradients of transformers' own model of a checkpoint, in float64."""
    np.savez(work / "rotations.npz", **{str(i): values for i, values in enumerate(rotations)})
    np.savez(work / "inputs.npz", **arrays)
    task = {"do": "run", "architecture": HEADS[head], "folder": str(folder)}
    task |= {name: str(work / f"{name}.npz") for name in ("inputs", "rotations", "answer")}
    (told,) = transformers(work, task)
    assert told["loading"] == CLEAN
    with np.load(work / "answer.npz") as answer:
        return {key: answer[key] for key in answer.files}


def relative(ours, theirs):
    """Tensor -> max |ours - theirs| / its scale: its largest value, of a gradient at least 1e-3 of
    the largest gradient (what moves all positions' logits alike has none but rounding)."""
    largest = max(np.abs(values).max() for key, values in theirs.items() if key.startswith("grad/"))
    found = {}
    for key, values in theirs.items():
        assert ours[key].shape == values.shape and np.isfinite(ours[key]).all(), key
        scale = max(np.abs(values).max(), 1e-3 * largest if key.startswith("grad/") else 0.0)
        found[key] = float(np.abs(ours[key] - values).max() / scale)
    return found


def worst(found):
    """(tensor, difference) of the largest on either side."""
    return max((item for side in found.values() for item in side.items()), key=lambda item: item[1])


def made_inputs(folder, preset, seed):
    """The arrays that a check of a checkpoint feeds to both sides."""
    pair, _ = configured(load_pair("reformer"), str(folder), preset, False)
    (case,) = pair.cases(preset)
    return pair.make_inputs(case, seed)


@pytest.mark.slow
@pytest.mark.parametrize("head", HEADS)
def test_both_twins_are_transformers_own_model(made, checkout, head, tmp_path):
    of_step_1, of_step_4 = (str(made / head / form) for form in (OF_HEAD[head], "safe"))
    first = Checked(1, Path("reformer"), tmp_path / "out", ("--weights", of_step_1))
    assert first.status == 0, first.said
    assert f"config.json, head {head}; it replaces the preset's" in first.said
    root = ROOT if head == "lm" else checkout.root
    second = Checked(4, Path("reformer"), tmp_path / "out", ("--weights", of_step_4), root)
    assert second.status == 0, second.said
    logs = second.files.path
    found = differences(head, made / head / "safe", logs, tmp_path)
    key, difference = worst(found)
    assert difference <= ALLOWED, key
    # In every form the same weights.
    sidecars = [first.files.path / "forward_all_paddle.json", logs / "bp_align_all_torch.json"]
    told = [json.loads(path.read_text()) for path in sidecars]
    assert told[0]["weights_sha256"] == told[1]["weights_sha256"]
    assert told[0]["weights"] == of_step_1


# ---- what is read -------------------------------------------------------------------------------


def test_safetensors_come_before_bin(made, copy):
    folder = copy("safe")
    shutil.copy(made / "lm" / "bin" / "pytorch_model.bin", folder)
    files = find(str(folder))
    assert files.path.name == "model.safetensors" and files.passed_over == ("pytorch_model.bin",)
    assert {path.name for path in parts(str(folder))} == {"model.safetensors", "config.json"}
    beside = find(str(folder / "pytorch_model.bin"))
    assert beside.config == folder / "config.json"


def test_either_name_of_the_tied_bias_will_do(whole, copy):
    path = copy("safe") / "model.safetensors"
    state = load_file(path)
    state["lm_head.decoder.bias"] = state.pop("lm_head.bias")
    save_file(state, path)
    checkpoint = fitted(path, whole)
    assert checkpoint.filled == {"lm_head.bias": "lm_head.decoder.bias"}
    assert any("is one tensor with lm_head.decoder.bias" in note for note in checkpoint.notes)
    save_file(state | {"lm_head.bias": state["lm_head.decoder.bias"] + 1}, path)
    with pytest.raises(UserError, match="are one tensor in the model, and differ here"):
        fitted(path, whole)


def test_old_mask_buffers_are_passed_over_and_told(whole, copy):
    path = copy("safe") / "model.safetensors"
    site = "reformer.encoder.layers.0.attention.self_attention"
    old = {f"{site}.self_mask_value_float16": np.float16(-1e3), f"{site}.mask_value_float32": 0}
    save_file(load_file(path) | {key: np.array(value) for key, value in old.items()}, path)
    checkpoint = fitted(path, whole)
    assert set(checkpoint.ignored) == set(old) and not set(old) & set(checkpoint.state)
    assert any("a constant of the attention masks" in note for note in checkpoint.notes)
    save_file(load_file(path) | {"reformer.mask_values": np.zeros(1)}, path)
    with pytest.raises(UserError, match="not in the model: reformer.mask_values$"):
        fitted(path, whole)


def test_missing_and_surplus_are_both_listed(whole, copy):
    path = copy("safe") / "model.safetensors"
    state = load_file(path)
    del state["reformer.encoder.layers.1.attention.self_attention.key.weight"]
    state["lm_head.decoder.weight"] = state["lm_head.decoder.weight"][:, :-1]
    save_file(state | {"classifier.dense.weight": np.zeros(3)}, path)
    with pytest.raises(UserError) as caught:
        fitted(path, whole)
    for words in (
        "model.safetensors",
        "missing: reformer.encoder.layers.1.attention.self_attention.key.weight",
        "not in the model: classifier.dense.weight",
        "lm_head.decoder.weight is [60, 63], the model has [60, 64]",
    ):
        assert words in str(caught.value)


def test_values_that_are_no_numbers_are_told(whole, copy):
    path = copy("safe") / "model.safetensors"
    state = load_file(path)
    state["lm_head.bias"][3] = np.nan
    save_file(state, path)
    said = "weights: NaN or infinite values in lm_head.bias, lm_head.decoder.bias"
    assert said in fitted(path, whole).notes


# ---- configurations -----------------------------------------------------------------------------


def test_architectures_decide_the_head():
    for head, name in HEADS.items():
        more = {"is_decoder": head == "lm"}
        assert published({"architectures": [name]} | more)["head"] == head
        config = complete(DEFAULTS | more | {"head": head})
        assert complete(published(publish(config))) == config
    for wrong, words in (
        ({"architectures": ["BertModel"]}, "allowed: one of ReformerModel"),
        ({"model_type": "bert"}, "model_type is 'bert'"),
        ({"hidden_act": "tanh", "architectures": ["ReformerModel"]}, "hidden_act is 'tanh'"),
    ):
        with pytest.raises(ValueError, match=words):
            published(wrong)


def test_names_that_transformers_no_longer_knows_are_passed_over():
    old = {"num_chunks_after": 1, "num_chunks_before": 0, "attention_probs_dropout_prob": 0.5}
    assert published(old) == published({}) == complete({}) | {"classifier_dropout": None}


def test_our_own_folder(whole, tmp_path):
    config = complete(whole[1].config) | {"num_hashes": 3}
    np.savez(tmp_path / "weights.npz", **whole[1].state)
    (tmp_path / "config.json").write_text(json.dumps(config))
    pair, checkpoint = configured(load_pair("reformer"), str(tmp_path), "default", False)
    assert pair.config("default")["num_hashes"] == 3
    (case,) = pair.cases("default")
    inputs = pair.make_inputs(case, 0)
    assert inputs["input_ids"].shape == (2, 32) and "attention_mask" not in inputs
    fit(pair, checkpoint, lambda side: whole[1].owners[side])
    assert set(checkpoint.state) == set(whole[1].state)
    # A preset of one case, asked for by name, keeps its inputs.
    pair, _ = configured(load_pair("reformer"), str(tmp_path), "crime-and-punishment", False)
    assert pair.cases("crime-and-punishment")[0].inputs == {"batch_size": 1, "length": 1024}


def test_a_pair_without_published_takes_the_presets_configuration_updated(tmp_path):
    np.savez(tmp_path / "weights.npz", a=np.zeros(1))
    (tmp_path / "config.json").write_text('{"num_labels": 9}')
    pair, _ = configured(load_pair("fastformer"), str(tmp_path), "default", False)
    config = load_pair("fastformer").config("default")
    assert pair.config("default") == config | {"num_labels": 9}
    (tmp_path / "config.json").write_text('{"architectures": ["BertModel"]}')
    with pytest.raises(UserError, match="config.json: no configuration of reformer: architectures"):
        configured(load_pair("reformer"), str(tmp_path), "default", False)


# ---- conversion ---------------------------------------------------------------------------------


def convert(weights, out, *more, status=0):
    """Run twincheck converter on a Reformer's checkpoint; return what it says."""
    options = ("--model", "reformer", "--weights", weights, "--out", out)
    return twincheck("converter", *options, *more, status=status)


@pytest.mark.slow
def test_round_trips_through_every_format(made, whole, tmp_path):
    folder = tmp_path / "a folder"
    folder.mkdir()
    shutil.copy(made / "lm" / "safe" / "config.json", folder)
    source = made / "lm" / "shards"
    steps = ("x.pdparams", "x.bin", "of_paddle", "x.npz", "of_torch")
    for name in steps:
        more = ("--to", name.removeprefix("of_")) if name.startswith("of_") else ()
        said = convert(source, folder / name, *more)
        assert f"written: {folder / name}" in said
        assert "read back with the same bits in both directions" in said
        source = folder / name
        state = fitted(source, whole).state
        assert all(np.array_equal(state[key], v) for key, v in whole[1].state.items()), name
    linear = "reformer.encoder.layers.0.attention.output.dense.weight"
    held = read(find(str(folder / "x.pdparams"))).state[linear]
    assert np.array_equal(held, whole[1].state[linear].T) and held.shape == (32, 32)
    assert sorted(path.name for path in folder.iterdir()) == sorted([*steps, "config.json"])
    of_torch, of_paddle = folder / "of_torch", folder / "of_paddle"
    assert {path.name for path in of_torch.iterdir()} == {"config.json", "model.safetensors"}
    assert {path.name for path in of_paddle.iterdir()} == {"config.json", "model_state.pdparams"}
    theirs = json.loads((made / "lm" / "safe" / "config.json").read_text())
    ours = json.loads((of_torch / "config.json").read_text())
    assert {key: ours[key] for key in theirs} == theirs
    loads(folder)


def loads(folder):
    """Load what was written in transformers, torch and Paddle, nothing missing or too much."""
    read_pretrained = ReformerModelWithLMHead.from_pretrained
    model, told = read_pretrained(folder / "of_torch", output_loading_info=True)
    assert not any(told.values()), told
    state = torch.load(folder / "x.bin", weights_only=True)
    model.load_state_dict(state)
    assert state["lm_head.bias"].data_ptr() == state["lm_head.decoder.bias"].data_ptr()
    port = build(published(json.loads((folder / "config.json").read_text())))
    for name in ("x.pdparams", "of_paddle/model_state.pdparams"):
        assert port.set_state_dict(paddle.load(str(folder / name))) == ([], [])


def test_a_conversion_is_all_or_nothing(made, tmp_path):
    source = made / "lm" / "safe"
    for out, more, words in (
        (source / "model.safetensors", (), "that is what is read"),
        (source, ("--to", "torch"), "that is what is read"),
        (tmp_path / "x", (), "or say --to torch or --to paddle"),
        (tmp_path / "x.bin", ("--to", "paddle"), "a .bin file is torch's"),
        (tmp_path, ("--to", "torch"), "this folder holds mine.txt"),
    ):
        (tmp_path / "mine.txt").write_text("mine")
        assert words in convert(source, out, *more, status=2)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_writer_that_does_not_transpose_squares_is_caught_by_what_is_read_back(made, tmp_path):
    checkout = Checkout(tmp_path / "copy")
    old = "paddle = checkpoint.layout.to_paddle(state)"
    more = "\n        paddle |= {k: v for k, v in state.items() if v.shape == (32, 32)}"
    checkout.replace("extras/shared/write.py", old, old + more)
    out, report = tmp_path / "out.pdparams", tmp_path / "report.json"
    options = ("--model", "reformer", "--weights", str(made / "lm" / "safe"), "--out", str(out))
    done = checkout.module("twincheck", "converter", *options, "--json", str(report))
    assert done.returncode == 2 and not list(tmp_path.glob("*out*"))
    rows = json.loads(report.read_text())["rows"]
    bad = {row["torch_key"] for row in rows if not row["read_back"]}
    assert bad and all(row["transposed"] for row in rows if row["torch_key"] in bad)
    assert "came out of the written file with other bits" in done.stdout
