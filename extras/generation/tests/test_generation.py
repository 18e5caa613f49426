"""Generation of users' pairs: each side against itself, with faults planted, and whole checks."""

import json
import re
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
from checkout import ROOT, Checkout, change

from twincheck.common.pair.pairs import load_pair
from twincheck.common.system.errors import UserError
from twincheck.extras.generation import prompts
from twincheck.extras.generation.generation import CACHE, PADDED, PADDED_CACHE
from twincheck.extras.generation.judge_generation import varied

PAIR = "faults/pairs/decoder"
PROMPTS = ("5 9 2 33 7 1 30", "8 3 3 21 4", "6 11")
# What is planted, in which ways it must show, and what the sentence on the first of them must say.
FAULTS = {
    "the cache's positions are off by one": (
        "torch.arange(past, total)",
        "(torch.arange(past, total) - int(past > 0))",
        (CACHE,),
        "without them the positions behind it are wrong",
    ),
    "the mask over the cache is off by one": (
        "places[past:].unsqueeze(1)",
        "(places[past:] - int(past > 0)).unsqueeze(1)",
        (CACHE, PADDED_CACHE),
        "token 1.: its float64 logits are .* first token that was computed from the cache: not its",
    ),
    "the positions begin anew with the cache": (
        "torch.arange(past, total)",
        "torch.arange(new)",
        (CACHE,),
        "without them the positions begin anew behind it",
    ),
    "the positions begin anew, and the cache forgets": (
        "        past = total - new\n",
        "        past = total - new\n"
        "        held = past_key_values and [[p[:, :, -8:] for p in c] for c in past_key_values]\n"
        "        past_key_values = held\n"
        "        if position_ids is None:\n"
        "            position_ids = torch.arange(new).unsqueeze(0).expand([batch, new])\n",
        (CACHE, PADDED_CACHE),
        "begin anew behind it; with them given it differs too, from position 10 on",
    ),
    "the cache forgets its oldest": (
        "caches.append(cache)",
        "caches.append(tuple(part[:, :, -9:] for part in cache))",
        (CACHE, PADDED_CACHE),
        "position 11 .* a cache that holds 9 tokens and then drops",
    ),
    "the mask does not hide the padding": (
        "seen = seen.unsqueeze(0) & (attention_mask > 0).unsqueeze(1)",
        "seen = seen.unsqueeze(0)",
        (PADDED, PADDED_CACHE),
        "prompt 1, token 0.* the mask does not hide the padding",
    ),
    "positions are counted with the padding": (
        "self.embedding(input_ids % self.words)",
        "self.embedding(input_ids % self.words)"
        " + torch.sin(places[past:].unsqueeze(-1) / torch.arange(1, 17))",
        (PADDED, PADDED_CACHE),
        "how much padding there is must matter",
    ),
    "rotary positions are counted with the padding once there is a cache": (
        "        if position_ids is None:",
        "        if position_ids is None or past:",
        (PADDED_CACHE,),
        "neither the cache nor the padding is off by itself: with a cache, positions are counted",
    ),
}


GREEDY = 'outputs["logits"][:, -1].argmax(-1)'
HOOK = """

def next_logits(model, inputs, cache):
    outputs = model(
        inputs["input_ids"], inputs["attention_mask"], inputs["position_ids"], cache, True
    )
    return outputs["logits"], outputs["past_key_values"]


def loss("""
# Other models of the reference's side: what is replaced, and by what.
MODELS = {fault: planted[:2] for fault, planted in FAULTS.items()} | {
    "sound": ("", ""),
    "not greedy": (GREEDY, 'outputs["logits"][:, -1].topk(2)[1][:, 1]'),
    "fails": (GREEDY, 'outputs["none"]'),
    "a hook": ("\n\ndef loss(", HOOK),
    "no cache": ("past_key_values", "state"),
}


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    return Checkout(tmp_path_factory.mktemp("pairs"), pairs=(PAIR,))


def generate(checkout, *arguments, model=PAIR):
    """The check in a copy: the finished process, its report, and generation.json."""
    report, out = checkout.elsewhere / "report.json", checkout.elsewhere / "out"
    told = out / "step5_train" / "decoder" / "generation.json"
    for path in (report, told):
        path.unlink(missing_ok=True)
    models = [model] if isinstance(model, str) else model
    given = [word for one in models for word in ("--model", str(checkout.path(one)))]
    given += ["--out", str(out), "--no-report"]
    done = checkout.module("twincheck", "check-generate", *given, *arguments, "--json", str(report))
    read = [json.loads(path.read_text()) if path.is_file() else {} for path in (report, told)]
    return done, *read


@pytest.fixture(scope="module")
def ran(checkout):
    """Return one check of all models, and name -> way -> row of torch against itself."""
    folders = {}
    for number, (name, (old, new)) in enumerate(MODELS.items()):
        folder = shutil.copytree(
            checkout.path(PAIR), checkout.elsewhere / "made" / f"model_{number}"
        )
        path = folder / "torch_model.py"
        path.write_text(path.read_text().replace(old, new)) if old else None
        folders[name] = folder
    words = [word for prompt in PROMPTS for word in ("--prompt", prompt)]
    words += ["--cache", "both", "--library", "--pad", "--tokens", "6"]
    done, report, _ = generate(checkout, *words, model=list(folders.values()))
    told = report["generation"]
    rows = {
        name: {row["way"]: row for row in told[folder.name]["itself"] if row["side"] == "torch"}
        for name, folder in folders.items()
        if folder.name in told
    }
    return done, rows


@pytest.mark.slow
def test_a_correct_model_agrees_with_itself(ran):
    for name in ("sound", "a hook"):
        rows = ran[1][name]
        assert list(rows) == ["cache", "padded", "padded with cache", "library", "padded library"]
        assert {row["verdict"] for row in rows.values()} <= {"ROUNDING", "IDENTICAL"}, rows
        assert rows["cache"]["gap"] > 0.0  # it was computed in another way


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_planted_is_named(ran, fault):
    _, _, ways, words = FAULTS[fault]
    rows = ran[1][fault]
    off = [way for way in (CACHE, PADDED, PADDED_CACHE) if rows[way]["verdict"] == "DIVERGED"]
    assert off == list(ways)
    assert re.search(words, rows[off[0]]["said"]), rows[off[0]]["said"]


@pytest.mark.slow
def test_a_library_that_is_not_greedy_one_that_fails_and_a_model_without_a_cache(ran):
    done, rows = ran
    greedy, failed = rows["not greedy"], rows["fails"]
    assert greedy["library"]["verdict"] == greedy["padded library"]["verdict"] == "DIVERGED"
    assert "its settings of generation" in greedy["library"]["said"]
    assert greedy["cache"]["verdict"] == "ROUNDING"
    assert failed["library"]["verdict"] == "INVALID" and "KeyError" in failed["library"]["said"]
    assert "no cache" not in rows and done.returncode == 2  # it was asked for
    said = " ".join((done.stdout + done.stderr).split())
    assert "cache: no part of its model takes past_key_values" in said


# ---- prompts ------------------------------------------------------------------------------------


def rows_of(pair, coder=None, **given):
    given = {"prompt": None, "prompts": None} | given
    options = SimpleNamespace(**given)
    return [
        ids.tolist() for ids in prompts.rows_of(pair, pair.config("default"), options, coder, 0)
    ]


def test_prompts_of_a_pair(tmp_path):
    pair = load_pair(str(ROOT / PAIR))
    assert [len(ids) for ids in rows_of(pair)] == [7, 5, 2]  # of make_inputs, without padding
    assert rows_of(pair, prompt=["1 2 3", "4,5"]) == [[1, 2, 3], [4, 5]]
    (tmp_path / "prompts.txt").write_text("7 8\n\n9\n")
    assert rows_of(pair, prompts=tmp_path / "prompts.txt") == [[7, 8], [9]]
    for given, told in (
        ({"prompt": ["the"]}, "without a tokenizer these must be ids"),
        ({"prompt": [" "]}, "prompt 0 holds no token"),
        ({"prompts": tmp_path / "none.txt"}, "No such file"),
    ):
        with pytest.raises(UserError, match=told):
            rows_of(pair, **given)
    pair.case.encode = lambda text: [len(word) for word in text.split()]
    pair.case.decode = lambda ids: " ".join("x" * i for i in ids)
    coder = prompts.Hooks(pair)
    assert rows_of(pair, coder, prompt=["to be or"]) == [[2, 2, 2]]
    assert coder.decode(np.array([1, 3])) == "x xxx"


def test_tokens_that_are_all_alike_say_little():
    alike = SimpleNamespace(reference=[np.full(20, 7)])
    assert varied(alike).startswith("all 20 tokens are 1 different ones")


# ---- whole checks -------------------------------------------------------------------------------


@pytest.mark.slow
def test_near_ties_of_a_correct_pair_pass_with_all_options(checkout):
    options = ["--preset", "ties", "--tokens", "5", "--pad", "--library"]
    done, report, told = generate(checkout, *options)
    assert done.returncode == 0, done.stdout + done.stderr
    assert told["verdict"] == report["verdict"] == "FLIP"
    assert {way["way"] for way in told["itself"]} >= {"cache", "padded", "library"}
    prompt = told["prompts"][0]
    assert prompt["first_difference"]["verdict"] == "FLIP"
    assert prompt["first_difference"]["margin"] < 2e-9
    assert told["how"]["by"] == ["loop", "cache", "library"] and told["weights"] == "perturbed"
    assert prompt["first_step"]["cosine"] > 0.999999
    again, _, twice = generate(checkout, "--compare-only")
    assert again.returncode == 0 and twice["prompts"] == told["prompts"]


@pytest.mark.slow
def test_a_wrong_cache_of_the_paddle_side_and_the_sides_that_have_one(checkout):
    path = checkout.path(f"{PAIR}/paddle_model.py")
    sound = path.read_text()
    change(path, "paddle.arange(past, total)", "paddle.arange(new)")
    try:
        done, report, told = generate(checkout, "--tokens", "3", "--sample", "--top-k", "9")
        assert done.returncode == 1, done.stdout + done.stderr
        assert report["first_diverged"] == "itself/paddle/cache"
        assert told["equal"] == told["tokens"] == 9
        (row,) = (way for way in told["itself"] if way["verdict"] == "DIVERGED")
        assert (row["side"], row["token"], row["position"]) == ("paddle", 1, 8)
        done, _, told = generate(checkout, "--tokens", "3", "--cache", "torch")
        assert done.returncode == 0 and [way["side"] for way in told["itself"]] == ["torch"]
    finally:
        path.write_text(sound)


def test_bad_input_ends_with_2_and_a_sentence(checkout):
    for arguments, told in (
        (["--sample", "--library"], "exclude each other"),
        (["--pad", "--prompt", "1 2"], "the prompts are of one length"),
    ):
        done, report, _ = generate(checkout, *arguments)
        assert done.returncode == 2, done.stdout + done.stderr
        assert told in done.stderr and "Traceback" not in done.stderr and not report
