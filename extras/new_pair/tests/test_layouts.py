"""Repositories as people publish them: `new` finds the model's modules and files, none is edited.

Both sides are looked at in this process, as their own processes would, and one check judges all.
"""

import importlib
import os
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from checkout import Checkout

from twincheck.common.pair.pairs import RECORD, load_pair, python_for
from twincheck.common.pair.provenance import model_sources
from twincheck.common.system.checkout import PATH, ROOT
from twincheck.common.system.errors import UserError
from twincheck.common.system.json_file import write_json
from twincheck.common.system.processes import environment
from twincheck.extras.new_pair import described, library, pair
from twincheck.extras.new_pair.command import main
from twincheck.extras.new_pair.described import Asked, request_for
from twincheck.extras.new_pair.inputs import parse_inputs
from twincheck.extras.new_pair.propose import Proposal
from twincheck.extras.new_pair.record import write_pair
from twincheck.extras.new_pair.spec import parse_spec, read_arguments

SIDES = {"torch": ("torch", "Module"), "paddle": ("paddle", "Layer")}
NET = """from FRAMEWORK import nn

class Net(nn.BASE):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 3)

    def forward(self, x):
        return TWICE(self.inner(x))
"""
GPU = {
    "torch": """import torch
device = torch.device("cuda")
torch.nn.Linear(2, 2).cuda().to(device)
made = lambda: torch.ones(1, device="cuda:0") + torch.ones(1).cuda().to(device)
""",
    "paddle": """import paddle
paddle.set_device("gpu:0")
paddle.nn.Linear(2, 2).to("gpu")
assert paddle.get_rng_state() and not isinstance(paddle.CPUPlace(), paddle.CUDAPlace)
made = lambda: paddle.ones([1]).cuda() + paddle.to_tensor([1.0], place=paddle.CUDAPlace(0))
""",
}
TWICE = "def twice(x):\n    return x * 2\n"
LOGS = "import a_logger_that_is_not_there\n"
ARGUMENTS = (
    "import argparse, sys\nparser = argparse.ArgumentParser()\n"
    "parser.add_argument('--width', type=int, default=2)\nwidth = parser.parse_args().width\n"
    "assert len(sys.argv) == 1\n"
)
HERE = "import os, sys\nhere = os.path.dirname(os.path.abspath(__file__))\n"


def net(head: str, twice: str = "twice") -> str:
    """The model's file, with what it begins with."""
    return f"{head}\n{NET.replace('TWICE', twice)}"


WIDTH = "(lambda x: x * width) "
# Name, where the model's file is, and what it begins with; then the repository's other files.
TABLE = r"""
a_file             net.py : from parts import twice
                   parts.py : TWICE
two_of_a_name      models/net.py : from utils.parts import twice
                   models/utils.py : pass
                   utils/parts.py : TWICE
below_src          src/mine/net.py : from mine.parts import twice
                   src/mine/__init__.py : from .net import Net
                   src/mine/parts.py : TWICE
a_package          mine/models/net.py : from ..parts import twice
                   mine/__init__.py : pass
                   mine/models/__init__.py : from .net import Net
                   mine/parts.py : TWICE
no_init            lib/models/net.py : from .layers import twice
                   lib/models/layers.py : from ..parts import twice
                   lib/parts.py : TWICE
by_side            SIDE/net.py : from parts import twice
                   SIDE/parts.py : TWICE
logger             mine/models/net.py : from mine.parts import twice
                   mine/__init__.py : from mine.train import Trainer
                   mine/train/__init__.py : LOGS; Trainer = object
                   mine/models/__init__.py : pass
                   mine/parts.py : TWICE
arguments          net.py : ARGUMENTS
by_name_beside     models/net.py : from utils.parts import twice; from layers import LAYERS
                   models/layers.py : LAYERS = 1
                   utils/parts.py : TWICE
relative_file      models/net.py : with open('n/a.txt') as n: width = int(n.read())
                   n/a.txt : 2
file_beside        models/net.py : HERE; with open(here + '/n.txt') as n: width = int(n.read())
                   models/n.txt : 2
on_a_gpu           net.py : GPU
path_hack          models/net.py : HERE; sys.path.append(f'{here}/..'); from parts import twice
                   parts.py : TWICE
with|space/my|repo models/net.py : from utils.parts import twice
                   utils/parts.py : TWICE
root_name          models/net.py : from root_name.utils.parts import twice
                   utils/parts.py : TWICE
names_of_python    models/net.py : from .types import twice; from models.logging import LEVEL
                   models/types.py : TWICE
                   models/logging.py : LEVEL = 1
                   models/random.py : 1 / 0
names_of_ours      models/net.py : from common.parts import twice; from tools.more import MORE
                   common/parts.py : TWICE
                   tools/more.py : MORE = 1
linked             link/net.py : from .parts import twice
                   real/parts.py : TWICE
"""


def layouts():
    """Name -> the model's file, and the repository's files."""
    found, name = {}, ""
    texts = {"TWICE": TWICE, "LOGS": LOGS, "ARGUMENTS": ARGUMENTS, "HERE": HERE}
    for line in TABLE.strip().splitlines():
        own = not line.startswith(" ")
        *named, file, _, text = line.split(None, 2 + own)
        text = "\n".join(texts.get(part, part) for part in text.split("; "))
        if own:
            name = named[0].replace("|", " ")
            twice = "(lambda x: made() * x) " if text == "GPU" else "twice"
            twice = WIDTH if "width" in text else twice
            found[name] = file, {file.replace("link/", "real/"): net(text, twice)}
        else:
            found[name][1][file] = text
    return found


LAYOUTS = layouts()


def written(folder: Path, name: str, side: str) -> Path:
    """Write a layout for a side; returns the model's file."""
    file, texts = LAYOUTS[name]
    framework, base = SIDES[side]
    both = any(path.startswith("SIDE/") for path in texts)  # in one repository
    root = folder.joinpath("both" if both else f"for_{side}", *name.split("/"))
    for path, text in texts.items():
        place = root / path.replace("SIDE", side)
        place.parent.mkdir(parents=True, exist_ok=True)
        text = text.replace("FRAMEWORK", framework).replace("BASE", base)
        place.write_text(text.replace("GPU", GPU[side]))
    if name == "linked":
        (root / "link").symlink_to("real")
    return root / file.replace("SIDE", side)


@contextmanager
def as_in_a_process(folder: Path):
    """Run in `folder`, and undo what a side's process changes for the user's code."""
    modules, path, argv, here = set(sys.modules), sys.path[:], sys.argv[:], os.getcwd()
    os.chdir(folder)
    importlib.invalidate_caches()
    try:
        yield
    finally:
        for name in set(sys.modules) - modules:
            if name.partition(".")[0] not in (*SIDES, "numpy", "twincheck"):
                del sys.modules[name]
        sys.path[:], sys.argv[:] = path, argv
        os.chdir(here)


def looked_at(specs, asked, arrays, work, processes):
    """Return what `describe` gives for both sides, from this process."""
    for number, values in enumerate(arrays):
        np.savez(work / f"inputs_{number:03}.npz", **values)
    for side, spec in specs.items():
        request = request_for(side, spec, asked, work)
        module = importlib.import_module(f"twincheck.common.sides.backend_{side}").side
        with as_in_a_process(Path(request["cwd"])):
            write_json(Path(request["answer"]), library.describe(module, request))
    return {side: described._described(side, spec, work) for side, spec in specs.items()}


def made(files, target: Path, *settings: str) -> pair.Made:
    """Set a pair up as `new` does, but for the proposal of RENAME."""
    specs = {side: parse_spec(f"--{side}", f"{file}:Net") for side, file in files.items()}
    arguments = read_arguments(None, {"": settings, "torch": [], "paddle": []})
    none = dict.fromkeys(SIDES)
    asked = Asked(specs, {}, arguments, parse_inputs(["x=float32:2,4"]), none, none)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pair, "describe", looked_at)
        patch.setattr(pair, "of_pair", lambda *given: Proposal())
        target.mkdir(parents=True)
        done = pair.make_pair(asked, target, target, False, lambda text: None, None)
        for name, text in done.texts.items():
            (target / name).write_text(text)
    return done


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    """Model -> its rows, of one check of all layouts."""
    folder, words = tmp_path_factory.mktemp("published"), []
    for side in SIDES:
        importlib.import_module(f"twincheck.common.sides.backend_{side}").side.without_gpu()
    for name in LAYOUTS:
        target = folder / "pairs" / name.replace("/", "_").replace(" ", "_")
        made({side: written(folder, name, side) for side in SIDES}, target)
        words += ["--model", str(target)]
    checkout = Checkout(tmp_path_factory.mktemp("layouts"))
    done, report = checkout.rows(1, *words, "--no-report")
    assert done.returncode == 0, done.stdout + done.stderr
    return report["rows"]


@pytest.mark.slow
@pytest.mark.parametrize("name", LAYOUTS)
def test_a_repository_is_run_as_it_is(judged, name):
    model = name.replace("/", "_").replace(" ", "_")
    verdicts = {row["verdict"] for row in judged if row["model"] == model}
    assert verdicts and verdicts <= {"IDENTICAL", "ROUNDING"}


@pytest.mark.parametrize("by_pythonpath", [True, False])
def test_a_package_goes_with_the_pair_where_its_python_has_it_not(
    tmp_path, monkeypatch, by_pythonpath
):
    """Of an installed one the submodule is imported, though the package wants what is not there."""
    package = tmp_path / "lib" / "somebodys"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(LOGS)
    (package / "net.py").write_text(
        net("", "").replace("FRAMEWORK", "torch").replace("BASE", "Module")
    )
    monkeypatch.syspath_prepend(tmp_path / "lib")
    paths = [str(ROOT), *([str(tmp_path / "lib")] if by_pythonpath else [])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    port = written(tmp_path, "a_file", "paddle")
    done = made({"torch": "somebodys.net", "paddle": port}, tmp_path / "pair")
    assert os.path.lexists(tmp_path / "pair" / "of_torch" / "somebodys") == by_pythonpath
    assert 'sys.modules["somebodys"] = module_from_spec(find_spec' in done.texts["torch_model.py"]
    needed = "needs a_logger_that_is_not_there, which the model does not"
    assert f"torch: the __init__.py of somebodys is not run: it {needed}" in done.lines


def test_links_of_a_pair_are_followed_once(tmp_path):
    """A package that the pair itself is in has its files among the pair's, and not the pair's."""
    for name in ("mine/net.py", "mine/pair/case.py", "mine/pair/log/rows.py", "mine/deep/more.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("CONFIGS = make_inputs = {}\n")
    folder = tmp_path / "mine" / "pair"
    for side in SIDES:
        (folder / f"of_{side}").mkdir()
        (folder / f"of_{side}" / "mine").symlink_to(tmp_path / "mine")
    sources = model_sources(load_pair(str(folder)), "torch")
    assert set(sources) == {"case.py", "of_torch/mine/net.py", "of_torch/mine/deep/more.py"}


# ---- what a pair remembers ----------------------------------------------------------------------


def test_a_pair_is_run_by_the_pythons_that_it_was_made_with(tmp_path, capsys):
    pairs = []
    made_with = {"one": {"torch": sys.executable}, "two": {}, "old": {"torch": "/gone"}}
    for name, pythons in made_with.items():
        folder = tmp_path / name
        folder.mkdir()
        texts = {"case.py": "CONFIGS = make_inputs = {}\n"}
        write_pair(folder, texts, ["--torch=a:b", "--paddle=a:b", "--input=x=bool:2"], pythons)
        pairs.append(load_pair(str(folder)))
    one, two, old = pairs
    assert one.pythons == {"torch": sys.executable} and two.pythons == {}
    assert python_for("torch", None, [one]) == python_for("torch", sys.executable, [old])
    with pytest.raises(UserError, match="one with .*, two with this one: made with different Pyth"):
        python_for("torch", None, [one, two])
    with pytest.raises(
        UserError, match="old was made with /gone, which is gone: give --torch-pyth"
    ):
        python_for("torch", None, [old])
    assert main(["old", "--update", "--folder", str(tmp_path)]) == 2
    assert "--torch-python /gone: there is no such file" in capsys.readouterr().err
    (tmp_path / "two" / RECORD).write_text('{"pythons": ["python"]}')
    with pytest.raises(UserError, match="pythons is not a path for each side"):
        python_for("torch", None, [two])


def test_a_worker_has_the_users_pythonpath(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", f"lib{os.pathsep}{PATH}{os.pathsep}")
    assert environment()["PYTHONPATH"] == f"{PATH}{os.pathsep}{tmp_path / 'lib'}"


# ---- what cannot be had -------------------------------------------------------------------------


def refused(tmp_path, head: str, side: str = "torch", name: str = "net.py") -> str:
    """Return the refusal of a model whose file begins with `head`."""
    framework, base = SIDES[side]
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True, parents=True)
    file.write_text(net(head, "").replace("FRAMEWORK", framework).replace("BASE", base))
    spec = parse_spec(f"--{side}", f"{file}:Net")
    np.savez(tmp_path / "inputs_000.npz", x=np.ones((2, 4)))
    request = request_for(
        side,
        spec,
        Asked({}, {}, read_arguments(None, {"": []}), parse_inputs(["x=float32:2,4"]), {}, {}),
        tmp_path,
    )
    with pytest.raises(UserError) as error, as_in_a_process(tmp_path):
        library.describe(
            importlib.import_module(f"twincheck.common.sides.backend_{side}").side, request
        )
    assert "\n" not in str(error.value)
    return str(error.value)


def test_a_package_that_the_model_needs_is_not_left_out(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "__init__.py").write_text(f"{LOGS}LEVEL = 1\n")
    told = refused(tmp_path, "from mine import LEVEL")
    assert "needs a_logger_that_is_not_there, which " in told


def test_what_fails_behind_a_package_left_bare_is_what_is_said(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "__init__.py").write_text(LOGS)
    (tmp_path / "mine" / "parts.py").write_text("raise ValueError('by itself')\n")
    assert refused(tmp_path, "import mine.parts").endswith("mine/parts.py:1: by itself")
