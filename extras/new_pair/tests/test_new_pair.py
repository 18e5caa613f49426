"""`twincheck new` sets a pair up from two models: what it takes, writes and says."""

import importlib
import shutil
import subprocess
import sys

import numpy as np
import pytest
from checkout import Checkout, change

from twincheck.common.pair.pairs import RECORD
from twincheck.common.sides import backend_torch
from twincheck.common.system.checkout import ROOT
from twincheck.common.system.errors import UserError
from twincheck.extras.new_pair import library
from twincheck.extras.new_pair.command import lay_out, main
from twincheck.extras.new_pair.described import Asked, Described, Outputs, request_for
from twincheck.extras.new_pair.inputs import parse_inputs, proposals
from twincheck.extras.new_pair.loss import choose_loss
from twincheck.extras.new_pair.outputs import match_outputs
from twincheck.extras.new_pair.remarks import remarks
from twincheck.extras.new_pair.spec import (
    Spec,
    parse_settings,
    parse_spec,
    read_arguments,
)
from twincheck.extras.new_pair.thin import Plan, case_text, inputs_text, model_text

SIDES = ("torch", "paddle")

# ---- words of the command line ------------------------------------------------------------------


def test_a_spec_is_a_package_s_or_a_file_s(tmp_path):
    assert parse_spec("--torch", "a.b:C.D") == Spec("a.b", "C.D")
    (tmp_path / "net.py").touch()
    spec = parse_spec("--torch", f"{tmp_path}/net.py:Net")
    assert (spec.module, spec.name, spec.root) == ("net", "Net", tmp_path)
    (tmp_path / "pack").mkdir()
    for name in ("__init__.py", "net.py"):
        (tmp_path / "pack" / name).touch()
    spec = parse_spec("--torch", f"{tmp_path}/pack/net.py:Net")
    assert (spec.module, spec.root) == ("pack.net", tmp_path), "it may import relatively"


@pytest.mark.parametrize(
    "text, told",
    [
        ("resnet18", "package.module:Class"),
        (":Net", "package.module:Class"),
        ("torchvision.models:", "package.module:Class"),
        ("a.b:C()", "package.module:Class"),
        ("nowhere.py:Net", "there is no file"),
        ("a-b:C", "is no package's name"),
    ],
)
def test_a_word_that_names_no_model_is_refused(text, told):
    with pytest.raises(UserError, match="--torch") as error:
        parse_spec("--torch", text)
    assert told in str(error.value)


def test_settings_are_json_or_text(tmp_path):
    words = ["a=1", "b=1e-5", "c=true", "d=None", "e=gelu", 'f=["x", 2]', "g=a=b", "h="]
    words += ["i=(32,64)", "j=('a',)", "k=(gelu)"]
    assert parse_settings("--set", words) == {
        **{"a": 1, "b": 1e-5, "c": True, "d": None, "e": "gelu", "f": ["x", 2], "g": "a=b"},
        **{"h": "", "i": (32, 64), "j": ("a",), "k": "(gelu)"},
    }
    (tmp_path / "config.json").write_text('{"a": 1, "b": 2}')
    sets = {"": ["b=3"], "torch": [], "paddle": ["c=4"]}
    asked = read_arguments(tmp_path / "config.json", sets)
    assert asked == {"": {"a": 1, "b": 3}, "torch": {}, "paddle": {"c": 4}}
    for word in ("a", "=1", "a b=1"):
        with pytest.raises(UserError, match="key=value"):
            parse_settings("--set", [word])


@pytest.mark.parametrize(
    "word, told",
    [
        ("x", "NAME=KIND:SHAPE"),
        ("x=float:2", "no kind"),
        ("x=float32", "write x=float32:2,12"),
        ("x=int64:2,12", "int64:2,12:50"),
        ("x=float32:2,0", "from 1"),
        ("x=mask:2", "two axes"),
        ("x=float32:2 x=bool:2", "twice"),
    ],
)
def test_an_input_that_says_nothing_is_refused(word, told):
    with pytest.raises(UserError) as error:
        parse_inputs(word.split())
    assert word.split()[-1].partition("=")[0] in str(error.value) and told in str(error.value)


def drawn(inputs, seed=0):
    """Return what the text of make_inputs draws for inputs, or for words of the command line."""
    names = {"np": np}
    words = [one for one in inputs if isinstance(one, str)]
    exec(inputs_text(None, parse_inputs(words) or inputs), names)
    return names["make_inputs"]({}, seed)


def test_inputs_are_drawn_as_they_are_asked_for():
    words = ["x=float32:2,3", "ids=int64:4,12:5", "m=mask:4,12", "y=labels:4,12:3", "z=labels:4:7"]
    values = drawn([*words, "b=bool:6"])
    assert list(values) == ["x", "ids", "m", "y", "z", "b"]
    assert values["x"].dtype == np.float64 and values["b"].dtype == bool
    assert all(values[name].dtype == np.int64 for name in ("ids", "m", "y", "z"))
    lengths = values["m"].sum(axis=1)
    assert lengths[0] == 12 and lengths[-1] == 1 and len(set(lengths)) == 4
    kept = values["m"] == 1
    assert not values["ids"][~kept].any() and values["ids"].max() == 4
    assert (values["y"][~kept] == -100).all() and set(values["y"][kept]) == {0, 1, 2}
    assert values["z"].min() >= 0 and values["z"].max() < 7
    again, other = drawn([*words, "b=bool:6"]), drawn([*words, "b=bool:6"], seed=1)
    assert all(np.array_equal(values[name], again[name]) for name in values)
    assert not np.array_equal(values["x"], other["x"])


def test_rising_numbers_and_lengths():
    words = [
        "t=sorted:3,5,1",
        "p=positive:4,6",
        "x_len=int64:4:13",
        "lens=int64:1:13",
        "n=int64:4:3",
    ]
    values = drawn(words)
    assert (np.diff(values["t"], axis=1) > 0).all() and values["t"].shape == (3, 5, 1)
    assert values["p"].min() >= 0 and values["p"].max() < 1
    assert values["x_len"].tolist() == [12, 9, 5, 1], "the longest is as long as it may be"
    assert values["lens"].tolist() == [12] and values["n"].max() < 3
    text = inputs_text(None, parse_inputs(words))
    assert "t (3, 5, 1) float from 0 to 1, rising;" in text


# ---- outputs and losses -------------------------------------------------------------------------


def described(side, kind, leaves, **other):
    """A class as its side's process might have found it."""
    outputs = Outputs(kind, True, [(tuple(path), tuple(shape), True) for path, shape in leaves])
    told = {
        **{"config": None, "set_for_cpu": {}, "settings": {}, "stand_in": None},
        **{"unknown": [], "bare": {}, "links": {}},
        **{"call": {"x": "x"}, "takes": ["x"], "call_options": {}},
    }
    return Described(side, Spec("net", "Net"), outputs=outputs, **told | other)


TENSOR = ("tensor", [((), (2, 5))])
PAIR = ("sequence", [((0,), (2, 12, 8)), ((1,), (2, 8))])
NAMED = ("named", [(("last",), (2, 12, 8)), (("pooled",), (2, 8)), (("cache", 0), (2, 4))])


@pytest.mark.parametrize(
    "torch, paddle, parts, alike, left",
    [
        (TENSOR, TENSOR, {"output": (None, None)}, True, []),
        (PAIR, PAIR, {"output_0": (0, 0), "output_1": (1, 1)}, True, []),
        (NAMED, PAIR, {"last": ("last", 0), "pooled": ("pooled", 1)}, False, ["cache"]),
        # In another order, told by their shapes.
        (
            NAMED,
            ("sequence", [((0,), (2, 8)), ((1,), (2, 12, 8))]),
            {"last": ("last", 1), "pooled": ("pooled", 0)},
            False,
            ["cache"],
        ),
        # By name, whatever the shape: that it is another is for the check to say.
        (
            ("named", [(("logits",), (2, 5)), (("more",), (1,))]),
            ("named", [(("logits",), (2, 6))]),
            {"logits": ("logits", "logits")},
            False,
            ["more"],
        ),
        # One of each is a pair, even if its shape is wrong.
        (TENSOR, ("tensor", [((), (2, 6))]), {"output": (None, None)}, False, []),
    ],
)
def test_outputs_of_both_sides_get_one_name(torch, paddle, parts, alike, left):
    found = match_outputs(described("torch", *torch), described("paddle", *paddle))
    assert {one.name: (one.parts["torch"], one.parts["paddle"]) for one in found.outputs} == parts
    assert found.alike == alike
    assert [name for names in found.left_out.values() for name in names] == left


def test_outputs_that_are_none_of_the_other_side_s_are_named():
    with pytest.raises(UserError, match=r"last \[2, 12, 8\]"):
        match_outputs(described("torch", *NAMED), described("paddle", "named", [(("a",), (3,))]))
    with pytest.raises(UserError, match="returns no tensor"):
        match_outputs(described("torch", "nothing", []), described("paddle", *TENSOR))


def loss_of(name, words, kind, leaves):
    found = match_outputs(described("torch", kind, leaves), described("paddle", kind, leaves))
    return choose_loss(name, parse_inputs(words), found.outputs)


def test_labels_choose_a_loss():
    tokens = [(("logits",), (2, 12, 50))]
    words = ["ids=int64:2,12:50", "labels=labels:2,12:50"]
    assert loss_of("LlamaForCausalLM", words, "named", tokens).shifted
    assert not loss_of("BertForMaskedLM", words, "named", tokens).shifted
    maps = loss_of("FCN", ["x=float32:2,3,8,8", "y=labels:2,8,8:5"], "tensor", [((), (2, 5, 8, 8))])
    assert maps.class_axis == 1
    free = loss_of("BertModel", ["x=float32:2"], *NAMED)
    assert [name for name, _ in free.targets] == ["last_targets", "pooled_targets"]
    for words in (["y=labels:3:5"], ["y=labels:2:6"]):
        with pytest.raises(UserError, match="fit no output"):
            loss_of("Net", words, *TENSOR)


# ---- the files that are written -----------------------------------------------------------------


def plan_of(torch, paddle, words, config, name="Net", place=""):
    sides = {"torch": torch, "paddle": paddle}
    inputs = parse_inputs(words)
    matched = match_outputs(torch, paddle)
    loss = choose_loss(name, inputs, matched.outputs)
    places = {"torch": "", "paddle": place}
    return Plan(config, {"torch": {}, "paddle": {}}, inputs, sides, matched, loss, places)


LONG = {f"a_setting_with_a_long_name_{i}": i for i in range(6)}
MANY = [f"input_with_a_long_name_{i}" for i in range(5)]
CALL = {"call": dict(zip(MANY, MANY, strict=True)), "takes": MANY}
PLANS = {
    "plain": lambda: plan_of(
        described("torch", *TENSOR), described("paddle", *TENSOR), ["x=float32:2,3"], {"width": 8}
    ),
    "named": lambda: plan_of(
        described("torch", *NAMED, stand_in="torchvision._meta_registrations"),
        described("paddle", *PAIR, call={"x": "inputs"}, takes=["inputs"]),
        ["x=float32:2,3"],
        {},
        place="of_paddle",
    ),
    "long": lambda: plan_of(
        described("torch", *NAMED, config=("transformers", "NetConfig"), **CALL),
        described("paddle", *NAMED, config=("x", "Config"), set_for_cpu={"fuse": False}, **CALL),
        [*(f"{name}=int64:2,12:8" for name in MANY), "labels=labels:2:8", "m=mask:2,12"],
        LONG,
    ),
}


@pytest.mark.parametrize("name", PLANS)
def test_files_are_as_a_person_with_this_formatter_leaves_them(name, tmp_path):
    plan = PLANS[name]()
    rename = {f"paddle_name_of_a_layer_{i}": f"torch_name_of_a_layer_{i}" for i in range(3)}
    texts = {f"{side}_model.py": model_text(plan, side) for side in SIDES}
    texts["case.py"] = case_text(plan, rename, "")
    texts["plain_case.py"] = case_text(plan, {}, "")
    for file, text in texts.items():
        (tmp_path / file).write_text(text)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for command in (["format", "--diff"], ["check", "--select", "F,E501,W"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--no-cache", str(tmp_path)],
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_what_is_written_says_what_has_to_be_said_alone():
    assert "class " not in model_text(PLANS["plain"](), "torch")
    sides = [described(side, *NAMED) for side in SIDES]
    for one in sides:
        object.__setattr__(one.outputs, "attributes", False)  # they are dicts
    text = model_text(plan_of(*sides, ["x=float32:2,3"], {}), "torch")
    assert "class " not in text and 'regression_loss(outputs["last"]' in text
    text = case_text(plan_of(*sides, ["x=float32:2,3"], {"dim": (32, 64), "of": ("a",)}), {}, "")
    assert 'CONFIGS = {"default": {"dim": (32, 64), "of": ("a",)}}' in text
    text = model_text(PLANS["named"](), "paddle")
    assert '"pooled": outputs[1]' in text and "def forward(self, x):" in text


def test_a_class_of_a_name_that_the_file_uses_is_not_hidden():
    for name in ("Network", "build", "loss"):
        sides = [described(side, *NAMED) for side in SIDES]
        sides = [Described(**vars(one) | {"spec": Spec("net", name)}) for one in sides]
        plan = plan_of(*sides, ["x=float32:2,3"], {})
        text = model_text(plan, "torch")
        made = [line for line in text.splitlines() if "self.network = " in line]
        assert made == [
            f"        self.network = {'' if name == 'Network' else 'net.'}{name}(**config)"
        ]
        assert f"class {name}(" not in text


def test_inputs_drawn_otherwise_than_asked_for_and_defaults_that_differ_are_told():
    sides = [
        described(side, *TENSOR, settings={"eps": eps, "width": 4, "dtype": side})
        for side, eps in zip(SIDES, (1e-5, 1e-6), strict=True)
    ]
    plan = plan_of(*sides, ["x=sorted:2,3"], {})
    assert sorted(remarks(plan, parse_inputs(["x=float32:2,3"]))) == [
        "differs by default (torch / paddle): eps 1e-05 / 1e-06; --set KEY=VALUE makes it alike",
        "x is drawn from 0 to 1, in rising order: on normal numbers torch fails, gives NaN, or "
        "searches in what does not rise",
    ]


# ---- a side's process ---------------------------------------------------------------------------

NET = """
class Config:
    def __init__(self, width=4, eps=1e-5, **more):
        self.width, self.eps = width, eps
    def to_dict(self):
        return {"width": self.width, "eps": self.eps, "own": self}

class Net(nn.Module):
    config_class = Config
    def __init__(self, config):
        super().__init__()
        self.inner = nn.Linear(config.width, 3)
    def forward(self, x, scale=None, return_dict=False):
        y = self.inner(x)
        return {"logits": y, "none": None, "hidden": (y,)} if return_dict else (y, None)

class Plain(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.inner = nn.Linear(width, 3)
    def forward(self, inputs):
        return self.inner(inputs)

def make(width):
    return Plain(width)

number = 3
"""
HEAD = {
    "torch": "from torch import nn\n",
    "paddle": "from paddle import nn\nnn.Module = nn.Layer\n",
}


@pytest.fixture
def ask(tmp_path, monkeypatch):
    """Ask a side, in this process, for what a class of a file is."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    file = tmp_path / f"net_{tmp_path.name}.py"

    def answer(side, name, shared=(), words=("x=float32:2,4",), text=NET, config=None, own=()):
        file.write_text(HEAD[side] + text)
        sys.modules.pop(file.stem, None)
        importlib.invalidate_caches()
        spec = parse_spec("--torch", f"{file}:{name}")
        config = config and parse_spec("--torch-config", f"{file}:{config}")
        inputs = parse_inputs(words)
        for number, tried in enumerate(proposals(inputs)):
            np.savez(tmp_path / f"inputs_{number:03}.npz", **drawn(tried))
        arguments = {"": dict(shared), side: dict(own)}
        asked = Asked({}, {side: config}, arguments, inputs, {}, {})
        request = request_for(side, spec, asked, tmp_path)
        module = importlib.import_module(f"twincheck.common.sides.backend_{side}").side
        try:
            return library.describe(module, request)
        finally:
            sys.modules.pop(file.stem, None)

    return answer


@pytest.mark.parametrize("side", SIDES)
def test_a_class_is_looked_at(ask, side):
    told = ask(side, "Net", {"width": 4})
    assert told["config"] == [told["config"][0], "Config"]
    assert told["call_options"] == {"return_dict": True}
    assert told["outputs"]["kind"] == "named"
    assert told["outputs"]["leaves"] == [[["logits"], [2, 3], True], [["hidden", 0], [2, 3], True]]
    assert told["settings"] == {"width": 4, "eps": 1e-5} and told["unknown"] == []
    told = ask(side, "Net", {"widht": 4})
    assert told["unknown"] == ["Config has no widht; did you mean width?"]
    told = ask(side, "make", {"width": 4}, ["inputs=float32:2,4"])
    assert told["outputs"]["leaves"] == [[[], [2, 3], True]] and told["config"] is None


SEVERAL = """
import {0}
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 3)
    def forward(self, x, t):
        return self.inner(x) + {1}
"""


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize(
    ("term", "kinds"),
    [
        ("t.mean()", ["float32", "float32"]),
        ("(x.sqrt().mean() + (t[1:] - t[:-1]).log().mean())", ["positive", "sorted"]),
        ("1 / ((t[1:] > t[:-1]).all().item() and 1)", ["float32", "sorted"]),
        ("{0}.searchsorted(t, x[:, :3]).mean(dtype='float32')", ["float32", "sorted"]),
        ("(t / 0 * 0).mean()", ["float32", "float32"]),
    ],
)
def test_inputs_are_drawn_as_the_model_can_take_them(ask, side, term, kinds):
    """Positive or rising where it fails on normal numbers, gives NaN, or searches in them."""
    words = ["x=float32:2,4", "t=float32:7"]
    term = term.format(side).replace("'float32'", f"{side}.float32")
    told = ask(side, "Net", words=words, text=SEVERAL.format(side, term))
    tried = list(proposals(parse_inputs(words)))
    assert [one.kind for one in tried[told["drawn"]]] == kinds


def test_each_input_has_its_own_kind_of_values():
    """In as few as can be; of large or many inputs not all mixtures are drawn."""
    words = ["x=float32:2,4", "n=int64:2:5", "t=float32:7", "z=float32:2,4"]
    kinds = [tuple(one.kind for one in tried) for tried in proposals(parse_inputs(words))]
    assert kinds[0] == ("float32", "int64", "float32", "float32")
    changed = [sum(kind in ("positive", "sorted") for kind in each) for each in kinds]
    assert changed == sorted(changed) and len(set(kinds)) == 27
    kinds = list(proposals(parse_inputs(["a=float32:3000,3000", "b=float32:2"])))
    assert [{one.kind for one in each} for each in kinds[-2:]] == [{"positive"}, {"sorted"}]
    assert len(kinds) <= 29


def test_paddle_s_other_name_of_an_input_is_found(ask):
    assert ask("paddle", "Plain")["call"] == {"x": "inputs"}
    assert ask("paddle", "Plain", words=["x/inputs=float32:2,4"])["call"] == {"x": "inputs"}
    with pytest.raises(UserError, match="takes no x; it takes inputs"):
        ask("torch", "Plain")


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize(
    "name, asked, told",
    [
        ("Nett", {}, "did you mean Net"),
        ("Net", {"config": "make"}, "is no class: name that of the configuration"),
        ("Plain", {"words": ["inputs=float32:2,5"]}, "running it on inputs [2, 5] fails: "),
        ("number", {}, "neither a class nor a function"),
        ("Net", {"words": ["x=float32:2,4", "y=float32:2,4", "z=bool:3"]}, "takes no y and no z"),
        ("Net", {"text": "import nowhere_to_be_found\n"}, "needs nowhere_to_be_found, which "),
        ("Net", {"text": "1 / 0\n"}, "ZeroDivisionError"),
        ("Net", {"text": "open('vocab.txt')\n"}, "put vocab.txt there, or go to the folder"),
        (
            "Net",
            {"text": "import argparse as a\np = a.ArgumentParser()\np.error('data')\n"},
            "let it read no command line where it is imported",
        ),
        ("Net", {"text": NET, "own": {"width": None}}, "building it with (width=None) fails"),
    ],
)
def test_what_cannot_be_looked_at_is_told_in_one_sentence(ask, side, name, asked, told):
    with pytest.raises(UserError) as error:
        ask(side, name, **asked)
    assert told in str(error.value) and "\n" not in str(error.value)
    assert str(error.value).startswith(f"--{side}")


def test_a_package_that_is_not_there_names_the_python(tmp_path):
    request = {"module": "no_such_package.models", "spec": "--torch x", "side": "torch"}
    with pytest.raises(UserError, match="has no package no_such_package: install it") as error:
        library._import(request, request["module"])
    assert sys.executable in str(error.value) and "--torch-python" in str(error.value)
    request = {"module": "json.nowhere", "spec": "--torch x", "side": "torch"}
    with pytest.raises(UserError, match="there is no module json.nowhere"):
        library._import(request, request["module"])


def test_a_file_whose_name_is_taken_is_refused(ask, tmp_path):
    """Of a module that the side's process has; Python's own are looked for in their folder."""
    (tmp_path / "yaml.py").write_text("Net = 1\n")
    spec = parse_spec("--torch", f"{tmp_path}/yaml.py:Net")
    importlib.import_module("yaml")
    request = request_for("torch", spec, Asked({}, {}, {"": {}}, [], {}, {}), tmp_path)
    with pytest.raises(UserError, match="rename the file"):
        library.describe(backend_torch.side, request)
    (tmp_path / "json.py").touch()
    spec = parse_spec("--torch", f"{tmp_path}/json.py:Net")
    assert (spec.module, spec.root) == (f"{tmp_path.name}.json", tmp_path.parent)


# ---- the whole command --------------------------------------------------------------------------

PORT = {"import torch": "import paddle", "from torch": "from paddle", "nn.Module": "nn.Layer"}
MINE = """
import torch
from torch import nn
from torch.nn import functional as F

class Net(nn.Module):
    def __init__(self, width, classes=3):
        super().__init__()
        self.inner = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)

    def forward(self, x, keep=None):
        hidden = self.norm(x + F.gelu(self.inner(x)))
        return self.head(hidden), hidden
"""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    return Checkout(tmp_path_factory.mktemp("new pair of two"))


@pytest.fixture
def folder(checkout):
    """A folder with mine.py and port.py, in the working folder of the checkout."""
    place = checkout.elsewhere / "their models"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    text = MINE
    (place / "mine.py").write_text(text)
    for torch, paddle in PORT.items():
        text = text.replace(torch, paddle)
    text = text.replace("self.inner", "self.dense").replace("forward(self, x,", "forward(self, v,")
    (place / "port.py").write_text(text.replace("(x", "(v"))
    return place


def new(checkout, folder, name, *words):
    given = ["--torch", f"{folder}/mine.py:Net", "--paddle", f"{folder}/port.py:Net"]
    given += ["--input", "x=float32:4,8", "labels=labels:4:3", "--set", "width=8"]
    given = [] if "--update" in words else given
    door = str(checkout.path("twincheck"))
    return checkout.python(door, "new", name, *given, *words, "--folder", str(folder))


@pytest.mark.slow
def test_two_names_end_in_a_verdict(checkout, folder):
    done = new(checkout, folder, "mine")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "paddle: x is its v" in done.stdout and "ALIGNED in step 1" in done.stdout
    assert '"network.dense": "network.inner"' in (folder / "mine" / "case.py").read_text()
    assert (folder / "mine" / "of_torch" / "mine.py").samefile(folder / "mine.py")
    done, report = checkout.rows(4, "--model", str(folder / "mine"), "--no-report")
    assert done.returncode == 0 and report["rows"], done.stdout + done.stderr

    # What is edited stays, what is not follows the command.
    change(folder / "mine" / "torch_model.py", '"""The reference', '"""My own words')
    done = new(checkout, folder, "mine", "--update", "--set", "classes=4", "--no-check")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "torch_model.py: kept as you have edited it" in done.stdout
    assert "My own words" in (folder / "mine" / "torch_model.py").read_text()
    assert '"classes": 4' in (folder / "mine" / "case.py").read_text()


@pytest.mark.slow
@pytest.mark.parametrize(
    "line, words, told",
    [
        ("", ["--config", "nowhere.json"], "nowhere.json"),
        # Read in a fork of the side's process, which ends as that fork ended.
        ("import os; os.kill(os.getpid(), 11)", [], "the paddle worker was ended by SIGSEGV"),
        ("import os; os._exit(0)", [], "its process ended before it said what the model"),
    ],
)
def test_where_it_fails_nothing_is_left(checkout, folder, line, words, told):
    file = folder / "port.py"
    file.write_text(f"{line}\n{file.read_text()}")
    done = new(checkout, folder, "failed", *words)
    assert done.returncode == 2, done.stdout
    assert told in done.stderr and done.stderr.count("\n") == 1, done.stderr
    assert {path.name for path in folder.iterdir()} <= {"mine.py", "port.py", "__pycache__"}


GIVEN = "mine --torch a:B --paddle c:D --input x=float32:2".split()


@pytest.mark.parametrize(
    "words, told",
    [
        (["mine", "--torch", "a:b", "--paddle", "c:d"], "--input is missing"),
        (["mine", "--input", "x=float32:2"], "of use with --torch and --paddle alone"),
        (["mine", "--update"], "no such folder to update"),
        ([*GIVEN, "--paconvert-python", "p"], "of use with --paddle paconvert alone"),
        (["all"], "taken"),
        (["a/b"], "letters"),
    ],
)
def test_a_command_that_cannot_be_is_refused(tmp_path, capsys, words, told):
    assert main([*words, "--folder", str(tmp_path)]) == 2
    assert told in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_folder_that_no_command_set_up_cannot_be_updated(tmp_path, capsys):
    lay_out("mine", tmp_path)
    assert main(["mine", "--update", "--folder", str(tmp_path)]) == 2
    assert RECORD in capsys.readouterr().err
