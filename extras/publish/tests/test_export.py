"""What `twincheck export` writes: the Paddle model's bits, from Paddle and NumPy alone."""

import ast
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import venv
import warnings
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from checkout import change
from packaged import Installed
from test_environments import INSTALLED, NOT_NEEDED

from twincheck import __main__ as door
from twincheck.common.pair.pairs import built_in_models, load_pair
from twincheck.common.system.checkout import ROOT
from twincheck.common.system.errors import UserError
from twincheck.common.system.npz import read_npz
from twincheck.extras.publish.self_check import check_bits, differing, run_alone
from twincheck.extras.publish.source import extract, stand_in, take
from twincheck.extras.publish.write import refuse_place

TEXTS = ROOT / "examples" / "text_classifier"


# ---- the model's text ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", built_in_models())
def test_a_built_in_model_keeps_its_text(name):
    """Statement for statement, but for where it imports from, and its docstring's usage."""
    folder = ROOT / "common" / "models" / name
    sources = take(folder, name, built_in=True)
    assert set(sources.modules) == {"model", "config", "runtime"}
    assert sources.packages - {"numpy"} == {"paddle"}
    twin = ast.parse((folder / "paddle_model.py").read_text())
    model = ast.parse(sources.modules["model"])
    moved = {"twincheck.paddle_side": "runtime", f"twincheck.common.models.{name}.case": "config"}
    for node in ast.walk(twin):
        if isinstance(node, ast.ImportFrom) and node.module in moved:
            node.module, node.level = moved[node.module], 1
    assert [ast.dump(node) for node in twin.body[1:]] == [ast.dump(n) for n in model.body[1:]]
    told = "".join(sources.modules.values())
    assert not [word for word in ("from common", "torch", "twin", "CASES") if word in told]
    assert f"from {name} import CONFIG, build" in sources.modules["model"]


def module_of(path, name):
    """A module from its file."""
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_stand_in_gives_the_numbers_of_the_workbenchs_face(tmp_path):
    import paddle

    from twincheck import paddle_side
    from twincheck.common.sides.session import Session, using

    (tmp_path / "runtime.py").write_text(stand_in())
    ours = module_of(tmp_path / "runtime.py", "stand_in")
    layer = SimpleNamespace(training=True, _site="encoder.0")
    scores = paddle.to_tensor(np.random.default_rng(0).integers(0, 9, (4, 7)).astype(np.float32))
    labels = paddle.to_tensor(np.array([3, -100, 0, 6]))
    weight = paddle.arange(7).astype("float32") + 1.0

    def used(face, run):
        values = [face.choose(layer, "a", scores), face.choose_order(layer, "b", scores)]
        values += [face.choose_top_k(layer, "c", scores, 3)]
        for reduction in ("mean", "sum", "none"):
            options = {"weight": weight, "label_smoothing": 0.1, "reduction": reduction}
            values += [face.cross_entropy(scores, labels, **options)]
        values += [face.dropout(layer, "d", scores, 0.4) for _ in range(2)]
        values += [face.dropout(layer, "d", scores, 0.4, mask_shape=[4, 1])]
        for number in (run.next_call("e"), run.next_call("e")):
            for again in (False, True):
                with run.scope(number, recompute=again):
                    values += [face.dropout(layer, "d", scores, 0.4)]
        values += [face.draw_integers(layer, "i", [4, 6], 9) for _ in range(2)]
        for kind in ("mse", "mae", "huber"):
            values += [face.regression_loss(scores, 0.5 * scores, kind, "none")]
        norm = face.keep_unbiased_statistics(paddle.nn.BatchNorm1D(7))
        with warnings.catch_warnings(action="ignore"):  # Paddle says what BatchNorm always does
            values += [face.tensor(np.arange(3.0)), norm(scores), norm._mean, norm._variance]
        values += [face.draw_normal(layer, "r", shape, scores) for shape in ([3, 5], [3, 5])]
        return [*values, face.draw_normal(layer, "r", [3, 1 << 19], scores)]

    with using(Session(seed=5)) as session:
        session.begin(2)
        wanted = used(paddle_side, session)
    ours.begin(5, 2)
    found = used(ours, ours.current())
    assert [v.numpy().tobytes() for v in found] == [v.numpy().tobytes() for v in wanted]
    assert found[9].numpy().tobytes() == found[10].numpy().tobytes(), "a recomputation's draw"
    ours.begin(6, 2)
    assert used(ours, ours.current())[-1].numpy().tobytes() != found[-1].numpy().tobytes()


PLAIN = "from paddle import nn\n\n\ndef build(config):\n    return nn.Linear(2, 2)\n"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("import torch", "paddle_model.py:1: torch is reference code"),
        ("from torch_model import build", "torch_model is the reference"),
        ("from twincheck.common.pair.tape import Tape", "common.pair.tape is this workbench's"),
        ("from parts.deep import x", "parts.deep is no single file"),
        ('x = __import__("layers")', "import_module cannot be followed"),
        ("from case import NOTHING", "it does not define NOTHING"),
    ],
)
def test_what_cannot_stand_alone_is_refused_with_its_line(tmp_path, line, said):
    (tmp_path / "parts").mkdir()
    (tmp_path / "case.py").write_text("CONFIGS = {}\n")
    (tmp_path / "paddle_model.py").write_text(f"{line}\n{PLAIN}")
    with pytest.raises(UserError) as error:
        take(tmp_path, "mine", built_in=False)
    assert said in str(error.value) and "\n" not in str(error.value)


def test_modules_beside_a_users_model_come_along(tmp_path):
    (tmp_path / "case.py").write_text(
        "import math\n\nfrom tables import SIZE\n\n# How wide.\nWIDTH = 2 * SIZE\nOTHER = 1\n"
    )
    (tmp_path / "tables.py").write_text("SIZE = 4\n")
    (tmp_path / "layers.py").write_text("import tables as t\nfrom paddle import nn\nX = t.SIZE\n")
    (tmp_path / "paddle_model.py").write_text(f"import layers\nfrom case import WIDTH\n{PLAIN}")
    modules = take(tmp_path, "mine", built_in=False).modules
    assert modules["model"].startswith("from . import layers\nfrom .config import WIDTH\n")
    assert modules["layers"].startswith("from . import tables as t\n")
    assert modules["tables"] == "SIZE = 4\n"
    assert modules["config"].endswith("from .tables import SIZE\n\n# How wide.\nWIDTH = 2 * SIZE\n")


@pytest.mark.parametrize(
    ("below", "name", "own"), [("translated", "net", "net"), ("of_paddle", "model", "own_model")]
)
def test_files_of_a_folder_of_the_pairs_come_along(tmp_path, below, name, own):
    """As twincheck new lays such a pair out; the torch file beside it has the port's name."""
    (tmp_path / "case.py").write_text("CONFIGS = {}\n")
    (tmp_path / f"{name}.py").write_text("import torch\n")
    (tmp_path / below).mkdir()
    (tmp_path / below / f"{name}.py").write_text("import paddle\nfrom helper import *\n")
    (tmp_path / below / "helper.py").write_text("import paddle\n")
    head = f'sys.path.insert(0, str(Path(__file__).parent / "{below}"))'
    text = f"import sys\nfrom pathlib import Path\n\n{head}\n\nfrom {name} import Net\n{PLAIN}"
    (tmp_path / "paddle_model.py").write_text(text)
    modules = take(tmp_path, "mine", built_in=False).modules
    assert modules["model"].startswith(f"from .{own} import Net\n")
    assert modules[own] == "import paddle\nfrom .helper import *\n" and "helper" in modules


WHOLE = '''"""All."""

import math
import re

A = {}
# Changed in place.
A["b"] = 2
B = A


def f():
    return math.pi * len(A)


def g():
    return re, B
'''
PART = '''"""Part."""

import math

A = {}
# Changed in place.
A["b"] = 2


def f():
    return math.pi * len(A)
'''


def test_a_part_of_a_file_is_what_it_needs_and_no_more():
    assert extract(WHOLE, {"f"}, "x", "Part.") == PART


def test_the_checks_process_needs_no_framework():
    code = "import sys, extras.publish.command; print({'torch', 'paddle'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout == "set()\n", done.stdout + done.stderr


# ---- where, and what counts as the same ---------------------------------------------------------


def test_bits_are_compared():
    nan = np.array([np.nan, 1.0], np.float32)
    assert differing({"a": nan}, {"a": nan.copy()}) == []
    assert "no output" in differing({}, {})[0]
    assert "1 of 2 values" in differing({"a": nan * 1}, {"a": np.float32([np.nan, 1.0000001])})[0]
    assert "0.0 and -0.0" and differing({"a": np.float32([0.0])}, {"a": np.float32([-0.0])})
    assert "float64[2]" in differing({"a": nan.astype(float)}, {"a": nan})[0]
    assert differing({"a": nan}, {"b": nan}) == [
        "b is the Paddle model's alone",
        "a is the exported model's alone",
    ]


def test_nothing_of_others_is_overwritten(tmp_path):
    pair = load_pair("fastformer")
    full, link, file = tmp_path / "full", tmp_path / "link", tmp_path / "file"
    (full / "mine").mkdir(parents=True)
    link.symlink_to(full)
    file.write_text("")
    refuse_place(tmp_path / "new", False, pair)
    refuse_place(full, True, pair)
    (full / ".git").mkdir()
    for place, overwrite, said in [
        (full, False, "not empty"),
        (full, True, "Git repository"),
        (link, True, "no folder"),
        (file, True, "no folder"),
        (ROOT, True, "itself lies there"),
        (ROOT.parent, True, "itself lies there"),
        (pair.folder, True, "itself lies there"),
    ]:
        with pytest.raises(UserError, match=said):
            refuse_place(place, overwrite, pair)


# ---- whole repositories -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def reformer(tmp_path_factory, request):
    """The first case of Reformer, exported; what the command said."""
    return exported(tmp_path_factory, request, "--model", "reformer")


def exported(tmp_path_factory, request, *arguments):
    """A repository in a folder with a space in its name, written from another folder."""
    out = tmp_path_factory.mktemp("an export") / "the model"
    python = request.config.warm_python
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(out.parent)
        pythons = ["--torch-python", python, "--paddle-python", python]
        done = subprocess.run(
            [sys.executable, "-m", "twincheck", "export", *arguments, "--out", str(out), *pythons],
            capture_output=True,
            text=True,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert [path.name for path in out.parent.iterdir()] == [out.name]
    return SimpleNamespace(folder=out, said=done.stdout)


@pytest.mark.slow
def test_reformer_draws_and_reverses_as_its_twin(reformer):
    assert "predict.py: same bits as the Paddle model: 1 output\n" in reformer.said
    assert "within rounding, for any number of samples" in reformer.said
    names = {path.name for path in reformer.folder.iterdir()}
    assert {"README.md", "README_cn.md", "LICENSE", "requirements.txt", "predict.py"} <= names
    assert not names & {"train.py", "eval.py", "inference", "data"}
    for path in reformer.folder.rglob("*.py"):
        text = path.read_text()
        found = [w for w in ("from common", "torch", "model_package") if w in text]
        assert found == [], path


@pytest.mark.slow
def test_a_forecast_is_trained_and_scored(tmp_path_factory, request):
    """Windows of a series, a BatchNorm that keeps torch's variance."""
    made = exported(tmp_path_factory, request, "--model", "informer", "--preset", "seasons")
    assert "predict.py: same bits as the Paddle model: 1 output\n" in made.said
    assert "within rounding, for any number of samples" in made.said
    done = subprocess.run(
        [request.config.warm_python, "train.py", "--epochs", "1", "--steps", "2"],
        cwd=made.folder,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"\[Eval\]\[Epoch 0\] mae: 0\.\d+, mse: ", done.stdout), done.stdout


@pytest.mark.slow
def test_inputs_nest_in_a_saved_program(tmp_path_factory, request):
    """Sampled indices in a list; without data it is made for the example."""
    made = exported(tmp_path_factory, request, "--model", "informer", "--case", "near_ties")
    assert "predict.py: same bits as the Paddle model: 1 output\n" in made.said
    assert not (made.folder / "data").exists()
    for program, told in (("export.py", "index_samples/0 ["), ("infer.py", "same as the model")):
        status, said = run_alone(sys.executable, made.folder, program, [])
        assert status == 0 and told in said, said


FIRST_LAYER = "reformer.encoder.layers.0."


def drop_a_weight(state):
    del state["reformer.encoder.layer_norm.weight"]


def put_another_bias_in_its_place(state):
    state["lm_head.bias"] = state[f"{FIRST_LAYER}feed_forward.dense.dense.bias"]


def plant_in_weights(folder, plant):
    import paddle

    path = str(folder / "weights" / "model_state.pdparams")
    state = paddle.load(path)
    plant(state)
    paddle.save(state, path)


def draw_rotations_anew(folder):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"seed": 1}))


def stay_in_train_mode(folder):
    change(folder / "reformer" / "__init__.py", "model.eval()", "model.train()")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plant", "said"),
    [
        (partial(plant_in_weights, plant=drop_a_weight), "layer_norm.weight is missing"),
        (partial(plant_in_weights, plant=put_another_bias_in_its_place), "lm_head.bias has shape"),
        (draw_rotations_anew, "logits differs in"),
        (stay_in_train_mode, "does not run: error: reformer: input_ids has 36 tokens"),
    ],
    ids=["weight gone", "another bias", "other rotations", "train mode"],
)
def test_a_planted_fault_is_found(reformer, tmp_path, plant, said):
    folder = tmp_path / "copy"
    shutil.copytree(reformer.folder, folder)
    plant(folder)
    outputs = read_npz(reformer.folder / "example" / "outputs.npz")
    with pytest.raises(UserError, match=said):
        check_bits(sys.executable, folder, outputs, tmp_path)


@pytest.fixture(scope="module")
def texts(tmp_path_factory, request):
    """A user's pair with data, a score of its own, dropout and another name for a layer."""
    return exported(tmp_path_factory, request, "--model", str(TEXTS), "--case", "perturbed")


@pytest.fixture(scope="module")
def paddle_alone(tmp_path_factory):
    """A Python that has Paddle, NumPy and what these need, no PyTorch and no workbench."""
    absent = ("torch", "transformers", *NOT_NEEDED)
    return Installed(tmp_path_factory.mktemp("alone") / "env", None, absent).python


def run_apart(python, folder, program, cwd, *arguments):
    """Run a program of a repository as its users do."""
    values = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    started = [str(python), "-W", "ignore"] if program.endswith(".py") else ["bash"]
    command, values = [*started, str(folder / program), *arguments], values | {"PYTHON": python}
    return subprocess.run(command, cwd=cwd, env=values, capture_output=True, text=True)


@pytest.mark.slow
def test_the_chain_runs_where_there_is_paddle_and_numpy_alone(texts, paddle_alone, tmp_path):
    assert "same bits as the Paddle model: 4 outputs\n" in texts.said
    code = "from importlib.util import find_spec; print(find_spec('torch'), find_spec('sklearn'))"
    asked = subprocess.run([paddle_alone, "-c", code], capture_output=True, text=True, cwd="/")
    assert asked.stdout == "None None\n"
    folder = tmp_path / "moved away"
    shutil.copytree(texts.folder, folder)
    done = run_apart(paddle_alone, folder, "run_chain.sh", tmp_path)
    log = (folder / "log" / "chain.log").read_text()
    assert done.returncode == 0, done.stdout + done.stderr
    for stage in ("train", "eval", "export", "infer"):
        assert f"\n{stage}: exit status 0, " in log
    assert "loss: " in log and "reader_cost: " in log and "avg_ips: " in log
    assert "samples: 800, accuracy: " in log and "mean_share_of_right" in log
    assert len(re.findall("infer: .*(?:the same bits|largest difference)", log)) == 4
    assert log.endswith("chain: passed\n")
    done = run_apart(paddle_alone, folder, "predict.py", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("the same bits") == 4


@pytest.mark.slow
def test_a_stage_that_fails_ends_the_chain(texts, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(texts.folder, folder)
    (folder / "data" / "train.npz").write_bytes(b"no archive")
    done = run_apart(sys.executable, folder, "run_chain.sh", tmp_path)
    assert done.returncode == 1
    assert "train: exit status 2" in done.stdout and "chain: failed in train" in done.stdout
    assert "eval" not in done.stdout


def test_alone_means_alone(tmp_path):
    """The run of the self check finds neither the reference nor the workbench."""
    for name in ("torch", "twincheck.common.pair.tape", "sklearn"):
        (tmp_path / "program.py").write_text(f"import {name}\n")
        status, said = run_alone(sys.executable, tmp_path, "program.py", [])
        assert status == 1 and "ModuleNotFoundError" in said and name.partition(".")[0] in said
    (tmp_path / "program.py").write_text("import sys, numpy, common; print(sys.argv)\n")
    (tmp_path / "common.py").write_text("")  # a repository's own module may have any name
    assert run_alone(sys.executable, tmp_path, "program.py", ["a"]) == (0, "['program.py', 'a']\n")


@pytest.mark.slow
def test_what_is_refused_leaves_nothing(tmp_path, capsys):
    mine = tmp_path / "mine"
    shutil.copytree(TEXTS, mine)
    model = mine / "paddle_model.py"
    model.write_text(f"import torch\n{model.read_text()}")
    out = tmp_path / "out"
    assert door.main(["export", "--model", str(mine), "--out", str(out)]) == 2
    assert "paddle_model.py:1: torch is reference code" in " ".join(capsys.readouterr().err.split())
    assert door.main(["export", "--model", "reformer", "--case", "none", "--out", str(out)]) == 2
    assert "there is no such case" in capsys.readouterr().err
    assert not out.exists() and {path.name for path in tmp_path.iterdir()} == {"mine"}


@pytest.mark.slow
def test_in_an_environment_that_its_own_requirements_make(reformer):
    if not os.environ.get("WORKBENCH_ENVIRONMENTS"):
        pytest.skip("installs 0.6 GB: `make environments` runs it")
    place = INSTALLED / "export"
    python = place / "bin" / "python"
    venv.EnvBuilder(with_pip=True, symlinks=True, clear=True).create(place)
    wanted = str(reformer.folder / "requirements.txt")
    subprocess.run([python, "-m", "pip", "install", "-r", wanted], check=True)
    done = run_apart(python, reformer.folder, "run_chain.sh", Path("/"))
    assert done.returncode == 0, done.stdout + done.stderr
