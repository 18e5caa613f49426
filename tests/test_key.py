"""A log's key, taken apart and put together again."""

import pytest

from twincheck.common.logs.key import Key

CASES = ("", "main/", "main/deep/", "lm/")
MAIN = dict(case="main/")
ADAM = MAIN | dict(run="adam/003/")

# Every form that the built-in models' logs have, and the parts that are not empty.
FORMS = {
    "main/logits": dict(case="main/", site="logits"),
    "main/deep/logits": dict(case="main/deep/", site="logits"),
    "accuracy": dict(site="accuracy"),
    "main/encoder.0.norm": dict(case="main/", site="encoder.0.norm"),
    "main/encoder.0.norm#2": dict(case="main/", site="encoder.0.norm", call="#2"),
    "main/encoder.0/1/low@2#3": dict(case="main/", site="encoder.0/1/low", call="@2#3"),
    "main/encoder:in/0": dict(case="main/", site="encoder", local="in/0"),
    "main/encoder:in/mask/1#2": dict(case="main/", site="encoder", local="in/mask/1", call="#2"),
    "main/dropout:p": dict(case="main/", site="dropout", local="p"),
    "main/norm:running_mean": dict(case="main/", site="norm", local="running_mean"),
    "main/hash": dict(case="main/", site="hash"),
    "main/hash:margin": dict(case="main/", site="hash", choice="margin"),
    "main/hash#2:scores": dict(case="main/", site="hash", call="#2", choice="scores"),
    "main/losses/mean": dict(case="main/", site="losses/mean"),
    "main/grad/head.bias": dict(case="main/", kind="grad", site="head.bias"),
    "main/grad/inputs/x": dict(case="main/", kind="grad", site="inputs/x"),
    "main/grad_of/head:in/0#2": MAIN | dict(kind="grad_of", site="head", local="in/0", call="#2"),
    "main/adam/003/loss": dict(case="main/", run="adam/003/", site="loss"),
    "main/adam/003/lr": dict(case="main/", run="adam/003/", site="lr"),
    "main/adam/003/hash#2:margin": ADAM | dict(site="hash", call="#2", choice="margin"),
    "main/adam/003/grad/head.bias": ADAM | dict(kind="grad", site="head.bias"),
    "sgd/000/velocity/head.bias": dict(run="sgd/000/", kind="velocity", site="head.bias"),
    "train/003/dropout:p": dict(run="train/003/", site="dropout", local="p"),
    "trained/weight/head.bias": dict(run="trained/", kind="weight", site="head.bias"),
    "test/003/choice:scores": dict(site="test/003/choice", choice="scores"),
    "test/batch/003/labels": dict(site="test/batch/003/labels"),
    "curve/lr": dict(site="curve/lr"),
    # Somebody else's: of a case that no sidecar names, or of no form at all.
    "other/adam/003/grad/head.bias": dict(run="other/adam/003/", kind="grad", site="head.bias"),
    "weight": dict(site="weight"),
    "a::b": dict(site="a::b"),
    "a#b@": dict(site="a#b@"),
    "a#b@:margin": dict(site="a#b@", choice="margin"),
    "a\n\x1b:": dict(site="a\n\x1b:"),
    "": dict(),
    "grad/": dict(kind="grad"),
}


@pytest.mark.parametrize("text", FORMS)
def test_the_parts_of_every_form(text):
    key = Key.parse(text, CASES)
    parts = dict.fromkeys(("case", "run", "kind", "site", "local", "call", "choice"), "")
    assert {name: getattr(key, name) for name in parts} == parts | FORMS[text]
    assert str(key) == text and str(Key.parse(text)) == text


def test_keys_beside_a_key():
    key = Key.parse("main/grad_of/norm:in/mask#2", CASES)
    assert key.is_input and key.output == "main/grad_of/norm#2"
    assert key.value == "main/norm:in/mask#2"
    scores = Key.parse("hash#2:scores")
    assert (scores.of_choice("margin"), scores.of_choice("")) == ("hash#2:margin", "hash#2")
