"""The tokenizers: right by a third opinion."""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from builders import python

from twincheck.common.pair.sentencepieces import find_model
from twincheck.common.system.errors import UserError
from twincheck.step2_metric import tokenizer_opinion, tokenizers
from twincheck.step2_metric.hard_texts import HARD_TEXTS, SENTENCE

ROOT = Path(__file__).resolve().parent.parent
HALF = HARD_TEXTS[: len(HARD_TEXTS) // 2]
WIDTH = 48


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A small SentencePiece model; training the same text gives the same pieces."""
    import sentencepiece

    folder = tmp_path_factory.mktemp("spiece")
    sentencepiece.SentencePieceTrainer.train(
        input=str(ROOT / "fake_data" / "enwik8.txt"),
        model_prefix=str(folder / "spiece"),
        vocab_size=200,
        model_type="bpe",
        character_coverage=0.99,
        num_threads=1,
        minloglevel=2,
    )
    return folder / "spiece.model"


def logged(name, model=None):
    """Return what step 2 logs of a tokenizer, with the names that it has there."""
    made = {
        "bytes": lambda: tokenizers.Bytes(),
        "words": lambda: tokenizers.Words(HALF),
        "words_lower": lambda: tokenizers.Words(HALF, lower=True),
        "sentencepiece": lambda: tokenizers.SentencePiece(model),
    }
    tokenizer = made[name]()
    found = tokenizers.encode(tokenizer, HARD_TEXTS, WIDTH)
    rows = [tokenizer.tokens(text) for text in HARD_TEXTS]
    for i, key in enumerate(("all_ids", "all_offsets")):
        found[key] = np.array([tokenizer_opinion._digest(row[i]) for row in rows])
    return {f"tokenizer/{name}/{key}": values for key, values in found.items()}


RULES = {
    "bytes": tokenizer_opinion.byte_tokens,
    "words": tokenizer_opinion.word_rule(HALF),
    "words_lower": tokenizer_opinion.word_rule(HALF, lower=True),
}


@pytest.mark.parametrize("name", RULES)
def test_the_third_opinion_agrees(name):
    found = [RULES[name](text) for text in HARD_TEXTS]
    rows = tokenizer_opinion.compared(name, "paddle", found, logged(name))
    assert {row.verdict for row in rows} == {"IDENTICAL"}


def test_encode_makes_room_for_the_end(model):
    tokenizer = tokenizers.SentencePiece(model)
    found = tokenizers.encode(tokenizer, [SENTENCE, "", "cat"], 5, eos=True)
    ids = tokenizer.tokens(SENTENCE)[0]
    assert found["input_ids"][0].tolist() == [*ids[:4], tokenizer.eos_id]
    assert found["input_ids"][1].tolist() == [tokenizer.eos_id, 0, 0, 0, 0]
    assert found["attention_mask"][:2].tolist() == [[1] * 5, [1, 0, 0, 0, 0]]
    assert found["offsets"][0, 4].tolist() == [0, 0] and found["lengths"][0] == len(ids) + 1


# ---- SentencePiece ------------------------------------------------------------------------------


def test_pieces_agree_with_the_library(model):
    processor = tokenizers.SentencePiece(model).processor
    rows = tokenizer_opinion.pieces_opinion("paddle", processor, logged("sentencepiece", model))
    assert [row.verdict for row in rows] == ["IDENTICAL"] * 4


REFERENCE = """
import json, sys
from transformers import ReformerTokenizer
from twincheck.step2_metric.hard_texts import HARD_TEXTS
tokenizer = ReformerTokenizer(sys.argv[1])
print(json.dumps([tokenizer(text)["input_ids"] for text in HARD_TEXTS]))
"""


@pytest.mark.slow
@pytest.mark.skipif(find_spec("transformers") is None, reason="transformers is not installed")
def test_pieces_are_those_of_the_reference_program(model):
    """It takes special tokens that are written out for what they name, and SentencePiece does not:
    the one text with them is left out."""
    theirs = json.loads(python("-c", REFERENCE, str(model), timeout=120))
    ours = tokenizers.SentencePiece(model)
    for text, ids in zip(HARD_TEXTS, theirs, strict=True):
        if "</s>" not in text:
            assert ours.tokens(text)[0] == ids, ascii(text[:60])


def test_the_library_is_asked_for_only_when_it_is_needed(tmp_path):
    script = (
        "import sys; sys.modules['sentencepiece'] = None\n"
        "from step2_metric.tokenizers import Bytes, SentencePiece, encode\n"
        "encode(Bytes(), ['a'], 3)\n"
        "try: SentencePiece('x.model')\n"
        "except Exception as error: print(type(error).__name__, error)\n"
        "print(sorted({'torch', 'paddle'} & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert "UserError --tokenizer: the Python that runs this has no sentencepiece" in done.stdout
    assert done.stdout.endswith("[]\n") and done.stderr == ""


def test_what_is_no_model_is_refused(tmp_path):
    (tmp_path / "x.model").write_bytes(b"no model")
    with pytest.raises(UserError, match="x.model: not a SentencePiece model"):
        tokenizers.SentencePiece(tmp_path / "x.model")
    with pytest.raises(UserError, match="nor a folder with spiece.model"):
        find_model(tmp_path)
    assert find_model(None) is None
