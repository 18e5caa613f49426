"""Statements of an `_gen_aoa_config`: right ones are certified, planted wrong ones are found."""

import importlib.util
import json
import os
from pathlib import Path

import numpy as np
import pytest

from twincheck.extras.certificate.command import main
from twincheck.extras.certificate.proof import repairs_of
from twincheck.extras.certificate.published import SETTINGS, named, settings_of
from twincheck.extras.certificate.statements import Marks, Move, carry

TOY = Path(__file__).parent / "aoa_toy"
O_PROJ = '"layers.$LAYER_ID.o_proj.weight^T -> layers.$LAYER_ID.o_proj.weight",'
GATE_UP = 'f"{gate}.weight^T, {up}.weight^T ->'
QKV = 'f"{q}.weight^T, {k}.weight^T, {v}.weight^T -> "'
FORWARD, INVERSE = "def _gen_aoa_config", "def _gen_inv_aoa_config"
# What is planted in the port: texts that are replaced, the wrong statement, words that say so.
FAULTS = {
    "a square weight is not transposed, both ways": (
        {O_PROJ: O_PROJ.replace("^T", "")},
        ("load", "o_proj"),
        "it is layers.0.o_proj.weight, transposed",
    ),
    "q and k are exchanged, both ways": (
        {
            QKV: QKV.replace("{q}", "{-}").replace("{k}", "{q}").replace("{-}", "{k}"),
            'f"{q}.weight, {k}.weight, {v}.weight, fused': 'f"{k}.weight, {q}.weight, {v}.weight, '
            "fused",
        },
        ("load", "qkv_proj"),
        "the run agrees",
    ),
    "two norms are exchanged: Paddle reads the name that was just written": (
        {
            "f\"layers.$LAYER_ID.{name} -> layers.$LAYER_ID.{name}\" for name in SAME": "f\"layers."
            "$LAYER_ID.{name} -> layers.$LAYER_ID.{SAME[i - 2]}\" for i, name in enumerate(SAME)"
        },
        ("load", "input_layernorm.weight"),
        "layernorm.weight, not from layers.0.post_attention_layernorm.weight",
    ),
    "a join along a wrong axis": (
        {GATE_UP + " layers.$LAYER_ID.up_gate_proj.weight, fused_ffn": GATE_UP
         + " layers.$LAYER_ID.up_gate_proj.weight, fused_ffn, axis=0"},
        ("load", "up_gate_proj.weight"),
        "it gets the shape [16, 16]",
    ),
    "heads of another size": (
        {'heads = f"num_heads={config.num_attention_heads}"': 'heads = "num_heads=4"',
         'groups = f"num_key_value_groups={config.num_attention_heads}"': 'groups = '
         '"num_key_value_groups=4"'},
        ("load", "qkv_proj"),
        "names do not say it",
    ),
    "a statement of one layer alone": (
        {"layers.$LAYER_ID.down_proj.weight^T -> layers.$LAYER_ID.down_proj.weight": "layers.0."
         "down_proj.weight^T -> layers.0.down_proj.weight"},
        None,
        "no statement writes layers.1.down_proj.weight",
    ),
    "an inverse that does not transpose": (
        {INVERSE: INVERSE, "@" + O_PROJ: O_PROJ.replace("^T", "")},
        ("save", "o_proj"),
        "it is layers.0.o_proj.weight, transposed",
    ),
    "a parameter that a statement leaves alone": (
        {'"lm_head.weight^T -> lm_head.weight",\n            f"{q}': '"_ -> lm_head.weight",\n'
         '            f"{q}'},
        None,
        "nobody reads lm_head.weight",
    ),
}  # fmt: skip


def certified(tmp_path, port=TOY / "port.py", reference=TOY / "reference.py", **more):
    """The exit status, and the document."""
    config = tmp_path / "config.json"
    config.write_text(json.dumps(json.loads((TOY / "config.json").read_text()) | more))
    document = tmp_path / "found.json"
    named = ["--aoa", f"{port}:Toy", "--reference", f"{reference}:Toy", "--config", str(config)]
    status = main([*named, "--json", str(document)])
    return status, json.loads(document.read_text())


def planted(tmp_path, replaced):
    """The toy's port with texts replaced; "@" is before what stands in the inverse alone."""
    text = (TOY / "port.py").read_text()
    for old, new in replaced.items():
        head, cut, tail = text.partition(INVERSE) if old.startswith("@") else ("", "", text)
        assert old.removeprefix("@") in tail
        text = head + cut + tail.replace(old.removeprefix("@"), new)
    path = tmp_path / "port.py"
    path.write_text(text)
    return path


@pytest.mark.slow
def test_right_statements_are_certified(tmp_path):
    status, found = certified(tmp_path)
    assert status == 0
    assert {row["verdict"] for row in found["statements"]} == {"proven"}
    assert {row["way"] for row in found["statements"]} == {"load", "save"}
    assert found["unread"] == found["unwritten"] == found["problems"] == []
    assert found["run"] == "ROUNDING"


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_wrong_statement_is_found(tmp_path, capsys, name):
    replaced, statement, words = FAULTS[name]
    status, found = certified(tmp_path, planted(tmp_path, replaced))
    assert status == 1
    bad = [row for row in found["statements"] if row["verdict"] != "proven"]
    if statement:
        way, part = statement
        said = [row["why"] for row in bad if row["way"] == way and part in row["statement"]]
        assert any(words in why for why in said), bad
    else:
        assert words in " ".join(capsys.readouterr().out.split())
    if words == "the run agrees":  # and nothing else is in doubt
        assert len([row for row in bad if row["way"] == "load"]) == 1


@pytest.mark.slow
def test_a_key_that_nobody_reads_is_named(tmp_path):
    text = (TOY / "reference.py").read_text()
    old = "        self.norm = nn.LayerNorm(config.hidden_size)\n"
    assert old in text
    reference = tmp_path / "reference.py"
    reference.write_text(text.replace(old, f"{old}        self.further = nn.Linear(2, 2)\n"))
    status, found = certified(tmp_path, reference=reference)
    assert (status, found["unread"]) == (1, ["further.bias", "further.weight"])


@pytest.mark.slow
def test_what_paddles_own_loader_leaves_out_is_named(tmp_path):
    """Two parameters of one key: paddlepaddle 3.3.1 writes one of them."""
    old = '*(f"layers.$LAYER_ID.{name} -> layers.$LAYER_ID.{name}" for name in SAME),'
    new = '"layers.$LAYER_ID.input_layernorm.weight -> layers.$LAYER_ID.input_layernorm.weight", '
    new += new.replace("-> layers.$LAYER_ID.input", "-> layers.$LAYER_ID.post_attention")
    status, found = certified(tmp_path, planted(tmp_path, {old: new}))
    left = [p for p in found["problems"] if p.startswith("Paddle's own load_state_dict")]
    assert status == 1
    assert {p.rpartition(" ")[2].split(".")[1] for p in left} == {"0", "1"}


@pytest.mark.slow
def test_a_tensor_without_effect_is_not_proven_by_the_run(tmp_path):
    """A bias of keys adds the same to every score of a softmax."""
    status, found = certified(tmp_path, qkv_bias=True)
    bad = [row for row in found["statements"] if row["verdict"] != "proven"]
    assert status == 1
    assert [row["verdict"] for row in bad] == ["open"]
    assert "k_proj.bias" in bad[0]["statement"]
    assert "does not show all of its elements" in bad[0]["why"]


@pytest.mark.slow
def test_an_inverse_is_derived_where_there_is_none(tmp_path):
    path = planted(tmp_path, {INVERSE: "def of_no_use"})
    path.write_text(path.read_text().replace("@classmethod\n    def of_no", "def of_no"))
    _, found = certified(tmp_path, path)
    saved = [row for row in found["statements"] if row["way"] == "save"]
    assert [row["statement"] for row in saved] == [
        row["statement"] for row in found["statements"] if row["way"] == "load"
    ]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--aoa", "Bert"], "name one of LlamaForCausalLM"),
        (["--aoa", "port.py:Toy"], "add --reference CLASS and --config FILE.json"),
        (["--aoa", "LlamaForCausalLM", "--round-trip"], "--aoa goes without"),
        (["--aoa", "a:B", "--reference", "a:B", "--config", "none.json"], "none.json"),
    ],
)
def test_bad_input_is_one_sentence(capsys, arguments, words):
    assert main(arguments) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert words in said
    assert "Traceback" not in said


@pytest.mark.slow
def test_classes_that_cannot_be_had_are_named(tmp_path, capsys):
    for port, words in (
        ("none.py", "there is no such file"),
        (TOY / "reference.py", "has no _gen_aoa_config"),
    ):
        assert main([*_named(port), "--config", str(TOY / "config.json")]) == 2
        assert words in " ".join(capsys.readouterr().err.split())
    (tmp_path / "config.json").write_text("{}")
    assert main([*_named(TOY / "port.py"), "--config", str(tmp_path / "config.json")]) == 2
    assert "vocab_size is not there" in " ".join(capsys.readouterr().err.split())


def _named(port) -> list[str]:
    return ["--aoa", f"{port}:Toy", "--reference", f"{TOY / 'reference.py'}:Toy"]


def test_moves_are_carried_out():
    marks = Marks({"a": [2, 3], "b": [2, 3]})
    moves = [
        Move(["a"], ["t"], {"permute": "[]"}, 0),
        Move(["b"], ["u"], {"permute": "[1, 0]"}, 0),
        Move(["t", "u"], ["c"], {"axis": 1}, 0),
    ]
    carried = carry(moves, marks.arrays, {"c": [3, 4]})
    assert np.array_equal(carried.outputs["c"], np.hstack([marks.arrays[k].T for k in "ab"]))
    assert (carried.unread, carried.by["c"]) == ([], frozenset({0}))
    back = carry(moves, carried.outputs, None, reverse=True)
    assert all(np.array_equal(back.outputs[key], marks.arrays[key]) for key in "ab")


@pytest.mark.parametrize(
    ("move", "words"),
    [
        (Move(["z"], ["c"], {}, 4), "no tensor is called z"),
        (Move(["a"], ["c", "d"], {"axis": 1}, 4), "3 along axis 1 cannot be cut into 2"),
        (Move(["a", "b"], ["c"], {}, 4), "a join needs an axis"),
    ],
)
def test_a_move_that_cannot_be_carried_out_says_why(move, words):
    carried = carry([move], Marks({"a": [2, 3], "b": [2, 3]}).arrays, {"c": [2, 6]})
    assert words in carried.problems[4]
    assert carried.unwritten == ["c"]


def test_repairs_are_one_change_each():
    assert repairs_of("a^T, b^T -> c, axis=1") == [
        "b^T, a^T -> c, axis=1",
        "a, b -> c, axis=1",
        "a^T, b^T -> c, axis=0",
    ]


PYTHONS = {side: os.environ.get(f"AOA_{side.upper()}") for side in ("torch", "paddle")}
HERE = all(importlib.util.find_spec(name) for name in ("paddleformers", "transformers"))


PUBLISHED = pytest.mark.skipif(
    not (HERE or all(PYTHONS.values())),
    reason="paddleformers is not installed: AOA_TORCH and AOA_PADDLE name Pythons that have "
    "transformers 5.3.0 and paddleformers 1.2.0 (docs/weights.md)",
)


@PUBLISHED
@pytest.mark.parametrize("name", SETTINGS)
def test_published_statements(tmp_path, capsys, name):
    document = tmp_path / "found.json"
    status = main(["--aoa", name, "--json", str(document), *_pythons()])
    _skip_without_paddlefleet(capsys)
    found = json.loads(document.read_text())
    assert {row["verdict"] for row in found["statements"]} == {"proven"}
    assert (found["unread"], found["unwritten"], found["run"]) == ([], [], "ROUNDING")
    lost = sorted(p.split(": ")[1] for p in found["problems"] if p.endswith("it is not saved"))
    layers = (1, 2) if name == "Gemma3ForCausalLM" else ()  # its inverse names layer 0 alone
    assert lost == [f"model.layers.{i}.mlp.{p}_proj.weight" for i in layers for p in ("gate", "up")]
    assert status == (1 if layers else 0)


def _skip_without_paddlefleet(capsys) -> None:
    """Qwen 2's file imports a package that there is for clusters alone (docs/weights.md)."""
    if "paddlefleet is required" in capsys.readouterr().err:
        pytest.skip("paddlefleet is not installed, which Qwen 2's file imports")


def _pythons() -> list[str]:
    return [f"--{side}-python={python}" for side, python in PYTHONS.items() if python]


# What is planted in a published class: old text and new, of its statements, and words that say so.
IN_PUBLISHED = {
    "LlamaForCausalLM": ("self_attn.o_proj.weight^T", "self_attn.o_proj.weight", "transposed"),
    "Qwen2ForCausalLM": (
        "self_attn.q_proj.bias, model.layers.$LAYER_ID.self_attn.k_proj.bias",
        "self_attn.k_proj.bias, model.layers.$LAYER_ID.self_attn.q_proj.bias",
        "the run agrees",
    ),
    "Ernie4_5ForCausalLM": ("num_key_value_groups=2", "num_key_value_groups=4", "DIVERGED"),
    "GptOssForCausalLM": ("mlp.router.bias ->", "mlp.router.bais ->", "no key is called so"),
}
WRONG_CLASS = """
from {module} import {name} as Own

class Wrong(Own):
    @classmethod
    def _gen_aoa_config(cls, config):
        texts = Own._gen_aoa_config.__func__(cls, config)["aoa_statements"]
        assert any({old!r} in text for text in texts)
        return {{"aoa_statements": [text.replace({old!r}, {new!r}) for text in texts]}}
"""


@PUBLISHED
@pytest.mark.parametrize("name", IN_PUBLISHED)
def test_a_wrong_statement_of_a_published_class_is_found(tmp_path, capsys, name):
    old, new, words = IN_PUBLISHED[name]
    reference, port = named(name)
    module, _, own = port.partition(":")
    path = tmp_path / "wrong.py"
    path.write_text(WRONG_CLASS.format(module=module, name=own, old=old, new=new))
    (tmp_path / "config.json").write_text(json.dumps(settings_of(name)))
    more = ["--reference", reference, "--config", str(tmp_path / "config.json"), *_pythons()]
    more += ["--json", str(tmp_path / "found.json")]
    status = main(["--aoa", f"{path}:Wrong", *more])
    _skip_without_paddlefleet(capsys)
    assert status == 1
    found = json.loads((tmp_path / "found.json").read_text())
    assert any(words in row["why"] for row in found["statements"]) or any(
        words in problem for problem in found["problems"]
    )
