"""Generation of users' pairs: each side against itself, in torch alone, and two whole checks."""

import importlib.util
import json
import re
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from checkout import ROOT, Checkout

from twincheck.common.logs.sidecar import Sidecar
from twincheck.common.pair.pairs import load_pair
from twincheck.common.sides.backend_torch import side as torch_side
from twincheck.common.sides.session import Session, using
from twincheck.common.system.errors import UserError
from twincheck.common.system.run_kind import RunKind
from twincheck.common.verdict.choices import Choice
from twincheck.extras.generation import decoding, prompts
from twincheck.extras.generation.generation import BY, CACHE, LIBRARY, PADDED, PADDED_CACHE, Request
from twincheck.extras.generation.judge_generation import Generated, differences, itself_rows, varied

PAIR = "faults/pairs/decoder"
MODEL = f"{PAIR}/torch_model.py"
PROMPTS = tuple(np.array(ids) for ids in ([5, 9, 2, 33, 7, 1, 30], [8, 3, 3, 21, 4], [6, 11]))
TOKENS = 6
# What is planted, in which ways it must show, and what the sentence on the first of them must say.
FAULTS = {
    "the cache's positions are off by one": (
        "torch.arange(past, total)",
        "(torch.arange(past, total) - int(past > 0))",
        (CACHE,),
        "the positions behind it are one too small",
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


class Drawn:
    """The decoder's torch model with weights of a seed, generating in both precisions."""

    def __init__(self, folder, old="", new=""):
        text = (ROOT / MODEL).read_text()
        assert not old or text.count(old) == 1
        path = folder / "torch_model.py"
        path.write_text(text.replace(old, new) if old else text)
        spec = importlib.util.spec_from_file_location("drawn_decoder", path)
        self.module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.module)
        self.pair = load_pair(str(ROOT / PAIR))
        self.found = Generated(folder)
        self.forced = None

    def run(self, dtype, **asked):
        """Generate in a precision; the decoder that did."""
        kinds = {"float64": torch.float64, "float32": torch.float32}
        logs = {}
        session = Session(0, record=logs.__setitem__, forced=self.forced)
        config = self.pair.config("default")
        with torch_side.default_dtype(dtype), using(session):
            model = self.module.build(config).eval()
            torch.manual_seed(3)
            with torch.no_grad():
                for parameter in model.parameters():
                    drawn = torch.randn(parameter.shape, dtype=torch.float32).to(kinds[dtype])
                    parameter.copy_(0.5 * drawn if parameter.ndim > 1 else 1.0 + 0.3 * drawn)
            run = SimpleNamespace(
                side=torch_side,
                session=session,
                module=self.module,
                pair=self.pair,
                case=SimpleNamespace(config=config),
                prefix="",
                request=SimpleNamespace(seed=0),
                build=lambda: model,
                progress=lambda text: None,
                no_gradients=torch.no_grad,
                drawing=nullcontext,
                log=logs.__setitem__,
                notes={},
            )
            settings = dict(by=(CACHE, LIBRARY), asked=(CACHE, LIBRARY), padded=True) | asked
            decoder = decoding.Decoder(run, Request(PROMPTS, TOKENS, **settings))
            decoder.write()
            decoder.compare()
        self.forced = self.forced or session.choices
        return decoder, logs

    def judged(self, **asked):
        """Key -> row of what the side comes to against itself."""
        for dtype, run in (("float64", RunKind.FLOAT64), ("float32", RunKind.PLAIN)):
            decoder, logs = self.run(dtype, **asked)
            key = "torch", run
            sidecar = {"generated": {"main": decoder.found}, "failed": {"main": decoder.failed}}
            self.found.sidecars[key] = Sidecar(**sidecar)
            self.found._take(key, logs)
        self.found.prompts = list(PROMPTS)
        self.found.reference = [ids[-TOKENS:] for ids in decoder.ids]
        return {row.key.split("/")[2]: row for row in itself_rows(self.found)}


def test_a_correct_model_agrees_with_itself(tmp_path):
    drawn = Drawn(tmp_path)
    rows = drawn.judged()
    assert list(rows) == [
        *("cache", "padded", "padded_with_cache", "library", "padded_library"),
    ]
    said = {key: (row.verdict, row.note) for key, row in rows.items()}
    assert all(verdict in ("ROUNDING", "IDENTICAL") for verdict, _ in said.values()), said
    assert rows["cache"].gap > 0.0  # it was computed in another way
    assert varied(drawn.found) == ""  # of tokens that are all alike the ids would say little


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_planted_is_named(tmp_path, fault):
    old, new, ways, words = FAULTS[fault]
    rows = Drawn(tmp_path, old, new).judged(by=(CACHE,))
    off = [key for key, row in rows.items() if row.verdict == "DIVERGED"]
    assert off == [way.replace(" ", "_") for way in ways]
    assert re.search(words, rows[off[0]].note), rows[off[0]].note


def test_a_library_that_is_not_greedy_and_one_that_fails(tmp_path):
    old = 'outputs["logits"][:, -1].argmax(-1)'
    rows = Drawn(tmp_path, old, 'outputs["logits"][:, -1].topk(2)[1][:, 1]').judged()
    assert rows["library"].verdict == rows["padded_library"].verdict == "DIVERGED"
    assert "its settings of generation" in rows["library"].note
    assert rows["cache"].verdict == "ROUNDING"
    rows = Drawn(tmp_path, old, 'outputs["none"]').judged()
    assert rows["library"].verdict == "INVALID" and "KeyError" in rows["library"].note


def test_a_hook_in_place_of_a_known_cache(tmp_path):
    """next_logits of a model file is what runs, and its inputs are as documented."""
    hook = """

def next_logits(model, inputs, cache):
    outputs = model(
        inputs["input_ids"], inputs["attention_mask"], inputs["position_ids"], cache, True
    )
    return outputs["logits"], {}


def loss(""".replace("{}", 'outputs["past_key_values"]')
    rows = Drawn(tmp_path, "\n\ndef loss(", hook).judged(by=(CACHE,))
    assert all(row.verdict == "ROUNDING" for row in rows.values()) and len(rows) == 3


def test_a_model_without_a_cache_is_left_out_or_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(decoding, "CACHES", ("state",))
    decoder, _ = Drawn(tmp_path).run("float32", by=(CACHE,), asked=())
    assert {key.partition("/")[0] for key in decoder.found} == {PADDED}
    assert len(decoder.left_out) == 2
    with pytest.raises(UserError, match="cache: no part of its model takes past_key_values"):
        Drawn(tmp_path).run("float32", by=(CACHE,))


# ---- differences --------------------------------------------------------------------------------


def by_hand(**scores):
    """One prompt of one token; scores (V) of torch64, torch32, paddle64, paddle32."""
    found = Generated(None, prompts=[np.array([1, 2])])
    for name, values in scores.items():
        key = name[:-2], RunKind.FLOAT64 if name.endswith("64") else RunKind.PLAIN
        row = np.array([values])
        found.sidecars[key] = Sidecar()
        found.choices[key] = [Choice(row.argmax(-1), row)]
        found.logits[key] = [row]
    best = found.choices["torch", RunKind.FLOAT64][0]
    ordered = np.sort(best.scores, axis=-1)
    found.margins = [ordered[:, -1] - ordered[:, -2]]
    found.reference = [best.choice]
    return found


def test_a_near_tie_is_a_flip_and_another_function_is_not():
    tie = by_hand(
        torch64=[1.0, 1.0 + 1e-9, 0.5],
        torch32=[1.0, 1.0 + 1e-8, 0.5],
        paddle64=[1.0, 1.0 + 1e-9, 0.5],
        paddle32=[1.0 + 1e-7, 1.0, 0.5],
    )
    (told,) = differences(tie, 0)
    assert (told["token"], told["position"]) == (0, 2)
    assert (told["reference"], told["torch"], told["paddle"]) == (1, 1, 0)
    assert told["verdict"] == "FLIP" and np.isclose(told["margin"], 1e-9)
    assert told["noise"]["paddle"] > told["noise"]["torch"] > 0
    other = by_hand(
        torch64=[1.0, 1.2, 0.5],
        torch32=[1.0, 1.2 + 1e-8, 0.5],
        paddle64=[1.3, 1.2, 0.5],
        paddle32=[1.3, 1.2 + 1e-7, 0.5],
    )
    assert differences(other, 0)[0]["verdict"] == "DIVERGED"
    same = by_hand(**dict.fromkeys(("torch64", "torch32", "paddle64", "paddle32"), [1.0, 2.0]))
    assert differences(same, 0) == []
    same.reference = [np.full(20, 7)]
    assert varied(same).startswith("all 20 tokens are 1 different ones")


# ---- prompts ------------------------------------------------------------------------------------


def rows_of(pair, coder=None, **given):
    options = SimpleNamespace(**{"prompt": None, "prompts": None} | given)
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


# ---- whole checks -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    return Checkout(tmp_path_factory.mktemp("pairs"), pairs=(PAIR,))


def generate(checkout, *arguments):
    """The check in a copy: the finished process, its report, and generation.json."""
    report, out = checkout.elsewhere / "report.json", checkout.elsewhere / "out"
    told = out / "step5_train" / "decoder" / "generation.json"
    for path in (report, told):
        path.unlink(missing_ok=True)
    given = ["--model", str(checkout.path(PAIR)), "--out", str(out), "--no-report"]
    done = checkout.module("twincheck", "check-generate", *given, *arguments, "--json", str(report))
    read = [json.loads(path.read_text()) if path.is_file() else {} for path in (report, told)]
    return done, *read


@pytest.mark.slow
def test_near_ties_of_a_correct_pair_pass_with_all_options(checkout):
    options = ["--preset", "ties", "--tokens", "5", "--pad"]
    options += [word for way in BY for word in ("--by", way)]
    done, report, told = generate(checkout, *options)
    assert done.returncode == 0, done.stdout + done.stderr
    assert told["verdict"] == report["verdict"] == "FLIP"
    assert {way["way"] for way in told["itself"]} >= {"cache", "padded", "library"}
    prompt = told["prompts"][0]
    assert prompt["first_difference"]["verdict"] == "FLIP"
    assert prompt["first_difference"]["margin"] < 2e-9
    assert told["how"]["by"] == list(BY) and told["weights"] == "perturbed"
    assert prompt["first_step"]["cosine"] > 0.999999
    again, _, twice = generate(checkout, "--compare-only")
    assert again.returncode == 0 and twice["prompts"] == told["prompts"]


@pytest.mark.slow
def test_a_wrong_cache_of_the_paddle_side_and_the_sides_that_have_one(checkout):
    path = checkout.path(f"{PAIR}/paddle_model.py")
    sound = path.read_text()
    checkout.replace(f"{PAIR}/paddle_model.py", "paddle.arange(past, total)", "paddle.arange(new)")
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
        (["--sample", "--by", "library"], "exclude each other"),
        (["--pad", "--prompt", "1 2"], "the prompts are of one length"),
        (["--prompt", "1 99"], "a prompt holds token 99"),
        (["--tokens", "90"], "64 positions"),
        (["--no-cache", "--cache", "torch"], "exclude each other"),
    ):
        done, report, _ = generate(checkout, *arguments)
        assert done.returncode == 2, done.stdout + done.stderr
        assert told in done.stderr and "Traceback" not in done.stderr and not report
