"""Published checkpoints: read, compared with transformers itself, converted, refused."""

import json
import shutil

import numpy as np
import paddle
import pytest
import torch
from builders import ended
from checkout import ROOT, Checkout
from published import ALLOWED, HEADS, TINY, check, command, differences, transformers, worst
from safetensors.numpy import load_file, save_file
from transformers import ReformerModelWithLMHead

from twincheck.common.models.reformer.case import DEFAULTS, complete, publish, published
from twincheck.common.models.reformer.paddle_model import build
from twincheck.common.pair.pairs import load_pair
from twincheck.common.system.errors import UserError
from twincheck.common.weights.checkpoint import configured, fit, prepare
from twincheck.common.weights.read import find, parts, read

FORMS = ("safe", "bin", "legacy", "shards", "bin_shards")
OF_HEAD = {  # what step 1 reads of each head; step 4 reads its safetensors
    "none": "bin",
    "lm": "legacy",
    "masked_lm": "shards",
    "classification": "bin_shards",
    "question_answering": "safe",
}
MORE = {"lm": {"is_decoder": True}, "classification": {"num_labels": 5}}


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


@pytest.mark.slow
@pytest.mark.parametrize("head", HEADS)
def test_both_twins_are_transformers_own_model(made, checkout, head, tmp_path):
    done, first = ended(0, check(1, made / head / OF_HEAD[head], tmp_path / "out"))
    assert f"config.json, head {head}; it replaces the preset's" in done.stdout
    root = ROOT if head == "lm" else checkout.root
    done, logs = ended(0, check(4, made / head / "safe", tmp_path / "out", root=root))
    found = differences(head, made / head / "safe", logs, tmp_path)
    key, difference = worst(found)
    assert difference <= ALLOWED, key
    # In every form the same weights.
    sidecars = [first / "forward_all_paddle.json", logs / "bp_align_all_torch.json"]
    told = [json.loads(path.read_text()) for path in sidecars]
    assert told[0]["weights_sha256"] == told[1]["weights_sha256"]
    assert told[0]["weights"] == str(made / head / OF_HEAD[head])


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


def convert(weights, out, *more):
    """Run twincheck converter on a Reformer's checkpoint."""
    options = ("--model", "reformer", "--weights", weights, "--out", out)
    return command("-m", "twincheck", "converter", *options, *more)


@pytest.mark.slow
def test_round_trips_through_every_format(made, whole, tmp_path):
    folder = tmp_path / "a folder"
    folder.mkdir()
    shutil.copy(made / "lm" / "safe" / "config.json", folder)
    source = made / "lm" / "shards"
    steps = ("x.pdparams", "x.bin", "of_paddle", "x.npz", "of_torch")
    for name in steps:
        more = ("--to", name.removeprefix("of_")) if name.startswith("of_") else ()
        done = ended(0, convert(source, folder / name, *more))
        assert f"written: {folder / name}" in done.stdout
        assert "read back with the same bits in both directions" in done.stdout
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
        done = convert(source, out, *more)
        assert done.returncode == 2 and words in done.stderr, done.stderr
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
