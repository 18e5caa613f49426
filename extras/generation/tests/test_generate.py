"""twincheck check-generate: the same text on both sides, transformers' text, what it refuses."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from checkout import Checkout
from hf_reformer import TINY, drawing, reference_model, state_of

from faults.worker import plant
from twincheck.common.logs.reader import read_log
from twincheck.common.pair.pairs import load_pair
from twincheck.common.pair.tape import Tape
from twincheck.common.system.errors import UserError
from twincheck.common.weights.states import save_state
from twincheck.extras.generation import check as check_generate
from twincheck.extras.generation import prompts
from twincheck.extras.generation.generation import draw_scores, order_of
from twincheck.extras.shared import coders

PROMPT = "Reformer"
GENERATE = "twincheck", "check-generate"
TOKENS = 12


class Generation(Checkout):
    """A copy with two tiny byte-level presets, and weights for them from transformers."""

    def __init__(self, folder):
        super().__init__(folder)
        path = self.path("common/models/reformer/case.py")
        presets = f'CONFIGS["tiny"] = {TINY!r}\n'
        presets += 'CONFIGS["pieces"] = CONFIGS["tiny"] | {"vocab_size": 20}\n'
        path.write_text(path.read_text() + presets)
        self.reference = reference_model(TINY)
        self.weights = folder / "tiny.npz"
        save_state(self.weights, state_of(self.reference))
        self.out = folder / "out"

    def generate(self, *arguments):
        """Run the check; (the process, its JSON report, {} where it wrote none)."""
        report = self.elsewhere / "report.json"
        report.unlink(missing_ok=True)
        shutil.rmtree(self.out, ignore_errors=True)
        given = ["--preset", "tiny", "--weights", str(self.weights), "--prompt", PROMPT]
        given += ["--tokens", str(TOKENS), "--out", str(self.out), "--no-report"]
        done = self.module(*GENERATE, *given, *arguments, "--json", str(report))
        return done, json.loads(report.read_text()) if report.is_file() else {}

    def ids(self, name="torch"):
        """Prompt and text of a log of the last run."""
        folder = self.out / "step5_train" / "generate" / "reformer"
        with read_log(folder / f"generate_{name}.npy") as log:
            return log["prompt_0/ids"]

    def expected(self, cache):
        """The ids of transformers' own generate, greedy, with the tape's rotations."""

        def rotations(layer, shape):
            site = f"reformer.encoder.layers.{layer}.attention.self_attention.rotations"
            return Tape(0).normal(site, 0, tuple(shape))

        prompt = torch.tensor(coders.Bytes().encode(PROMPT.encode())[None])
        with drawing(rotations):
            found = self.reference.generate(
                prompt, do_sample=False, max_new_tokens=TOKENS, use_cache=cache
            )
        return found[0].numpy()


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    return Generation(tmp_path_factory.mktemp("generation"))


# ---- both sides ---------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("cache", [True, False], ids=["cache", "no_cache"])
def test_the_text_is_transformers_own(checkout, cache):
    done, report = checkout.generate(*([] if cache else ["--cache", "none"]))
    assert done.returncode == 0, done.stdout + done.stderr
    expected = checkout.expected(cache)
    assert len(set(expected[len(PROMPT) :].tolist())) > 3  # a text that says something
    for name in ("torch", "paddle", "torch_fp64", "paddle_fp64"):
        assert np.array_equal(checkout.ids(name), expected)
    # Otherwise the two runs of this test would show the same.
    assert not np.array_equal(expected, checkout.expected(not cache))
    assert report["verdict"] in ("ROUNDING", "FLIP")
    (told,) = report["generation"]["reformer"]["prompts"]
    assert told["text"] == PROMPT and told["texts"]["torch"] == told["texts"]["paddle"]
    assert told["equal"] == told["tokens"] == TOKENS
    assert done.stdout.count("both sides: ") == 1
    keys = {row["key"] for row in report["rows"]}
    assert {"prompt_0/ids", "prompt_0/choice", "prompt_0/choice:margin"} <= keys


@pytest.mark.slow
def test_a_sampled_text_and_its_logs_judged_again(checkout):
    arguments = ("--sample", "--temperature", "2.5", "--top-k", "40", "--tokens", "5", "--seed")
    done, report = checkout.generate(*arguments, "3")
    assert done.returncode == 0, done.stdout + done.stderr
    assert {"prompt_0/kept", "prompt_0/choice"} <= {row["key"] for row in report["rows"]}
    again = checkout.module(*GENERATE, "--compare-only", "--out", str(checkout.out), "--no-report")
    assert again.returncode == 0 and again.stdout.splitlines()[:3] == done.stdout.splitlines()[:3]
    first = checkout.ids()
    checkout.generate(*arguments, "4")
    assert len(first) == len(checkout.ids()) and not np.array_equal(first, checkout.ids())


@pytest.mark.slow
def test_nothing_comes_behind_the_last_token(checkout):
    path = checkout.path("common/models/reformer/case.py")
    sound = path.read_text()
    text = checkout.expected(True)[len(PROMPT) :].tolist()
    path.write_text(sound + f'CONFIGS["tiny"]["eos_token_id"] = {text[4]}\n')
    try:
        done, _ = checkout.generate()
    finally:
        path.write_text(sound)
    assert done.returncode == 0, done.stdout + done.stderr
    assert checkout.ids()[len(PROMPT) :].tolist() == text[: text.index(text[4]) + 1]


FAULTS = {
    "the cache dropped after a token": (
        "extras/generation/decoding.py",
        "return self._last(outputs)[0], outputs[HASHED]",
        'kept = ids.size < 10 or self.side.NAME == "torch"\n'
        "        return self._last(outputs)[0], outputs[HASHED] if kept else None",
        (),
    ),
    "positions not shifted": ("common/models/reformer/paddle_model.py", " + earlier\n", "\n", ()),
    "temperature left out": (
        "extras/generation/decoding.py",
        "choose(logits, request, draw)",
        'choose(logits / (1 + (self.side.NAME == "paddle")), request, draw)',
        ("--sample", "--temperature", "3"),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_a_wrong_side_is_caught(checkout, fault):
    name, old, new, arguments = FAULTS[fault]
    path = checkout.path(name)
    assert old in path.read_text()
    undo = plant(path, path.read_text().replace(old, new))
    try:
        done, report = checkout.generate(*arguments)
    finally:
        undo()
    assert done.returncode == 1, done.stdout + done.stderr
    assert report["first_diverged"].startswith("prompt_0/")
    (told,) = report["generation"]["reformer"]["prompts"]
    assert told["first_difference"]["verdict"] == "DIVERGED"
    assert told["free"]["torch"] != told["free"]["paddle"]
    assert "\ntorch: " in done.stdout and "\npaddle: " in done.stdout


# ---- draws --------------------------------------------------------------------------------------


def test_draws_follow_the_probabilities():
    rng = np.random.default_rng(0)
    logits = rng.standard_normal(30) * 2.0
    kept = order_of(logits, 8)
    assert kept[0] == logits.argmax() and (np.diff(logits[kept]) <= 0).all()
    for temperature in (0.5, 1.0, 3.0):
        weights = np.zeros(30)
        weights[kept] = np.exp(logits[kept] / temperature)
        ends = np.cumsum(weights / weights.sum())
        for draw in (*rng.random(200), 0.0):
            scores = draw_scores(logits, kept, temperature, draw)
            token = int(scores.argmax())
            assert token == np.searchsorted(ends, draw, side="right") and token in kept
            start = ends[token] - weights[token] / weights.sum()
            assert np.isclose(scores[token], min(draw - start, ends[token] - draw), atol=1e-15)
        last = draw_scores(logits, kept, temperature, 1.0 - 2.0**-53)
        assert last.argmax() == kept.max() and (last > 0).sum() == 1
    # Equal logits in their order, whatever else is there.
    assert order_of(np.array([1.0, 2.0, 2.0, 2.0]), 2).tolist() == [1, 2]
    assert order_of(logits, 99).size == 30


# ---- prompts ------------------------------------------------------------------------------------


def test_control_characters_of_a_text_are_not_shown():
    assert prompts.shown("a\x1b[2J\tb\nc") == "a\ufffd[2J\ufffdb\nc"


@pytest.fixture(scope="module")
def model_file(tmp_path_factory):
    """A SentencePiece model of a few pieces."""
    from sentencepiece import SentencePieceTrainer

    folder = tmp_path_factory.mktemp("pieces")
    (folder / "text.txt").write_text("to be or not to be\nthat is the question\n" * 20)
    SentencePieceTrainer.train(
        input=str(folder / "text.txt"),
        model_prefix=str(folder / "tiny"),
        vocab_size=20,
        minloglevel=2,
    )
    return folder / "tiny.model"


def test_pieces_go_round(model_file):
    coder = coders.tokenizer(model_file)
    ids = coder.encode(b"to be or not")
    assert coder.size == 20 and ids.dtype == np.int64
    assert coder.decode(ids) == "to be or not"
    assert sentence(coder.encode, "to Ж".encode()) == (
        f"the prompt has characters that {model_file} has no piece for: leave them out"
    )
    assert sentence(coder.encode, b"\xff") == f"the prompt is no UTF-8, which {model_file} needs"
    other = Path(__file__)
    assert sentence(coders.tokenizer, other).startswith(
        f"--tokenizer {other}: not a SentencePiece model"
    )
    assert sentence(coders.tokenizer, Path("none.model")).startswith(
        "--tokenizer none.model: there is no such file"
    )


def test_a_text_of_pieces(checkout, model_file):
    """From the initial weights; the prompt is in a file."""
    (checkout.elsewhere / "prompts.txt").write_text("to be or not\n\n")
    arguments = ["--preset", "pieces", "--tokenizer", str(model_file), "--no-report"]
    arguments += ["--prompts", "prompts.txt", "--tokens", "4", "--out", str(checkout.out)]
    done = checkout.module(*GENERATE, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "prompt 0: to be or not\nboth sides: " in done.stdout
    coder = coders.tokenizer(model_file)
    ids = checkout.ids()
    assert np.array_equal(ids[:-4], coder.encode(b"to be or not"))


# ---- sentences ----------------------------------------------------------------------------------


def sentence(function, *arguments):
    """Return what the UserError says that a function raises."""
    with pytest.raises(UserError) as caught:
        function(*arguments)
    return str(caught.value)


NO_POSITIONS = (
    "a prompt of 3 tokens and 62 more: preset tiny has 64 positions; shorten the prompt, or "
    "give fewer --tokens"
)
REFUSED = [
    ({"prompt": [""]}, {}, "prompt 0 holds no token: give at least one to go on with"),
    ({"tokens": 0}, {}, "--tokens 0: allowed: a number from 1"),
    *(
        ({"sample": True, "temperature": value}, {}, f"--temperature {value}: allowed: a number")
        for value in (-1.0, float("nan"))
    ),
    ({"temperature": 0.5}, {}, "--temperature and --top-k say how to draw: give --sample too"),
    ({"tokens": 62}, {}, NO_POSITIONS),
    ({}, {"vocab_size": 60}, "a prompt holds token 101, and preset tiny of reformer has 60"),
    ({}, {"vocab_size": 300}, "preset tiny has 300 tokens, and tokenizer bytes 258: give the"),
    ({}, {"head": "classification"}, "--preset tiny: its head is 'classification'"),
    ({"pad": True}, {}, "--pad: the built-in Reformer has no such choice"),
    ({"dtype": "float16"}, {}, "--dtype float16: the built-in Reformer generates in float32"),
]


@pytest.mark.parametrize(("given", "config", "said"), REFUSED, ids=lambda value: str(value)[:20])
def test_what_is_refused(given, config, said):
    options = dict.fromkeys(("tokens", "temperature", "top_k", "cache", "prompts", "dtype"))
    options |= {"preset": "tiny", "sample": False, "library": False, "pad": False}
    options |= {"prompt": ["abc"], "tokens": 8} | given
    asked = SimpleNamespace(**options), load_pair("reformer"), TINY | config, coders.Bytes(), 0
    assert sentence(check_generate.request_of, *asked).startswith(said)
