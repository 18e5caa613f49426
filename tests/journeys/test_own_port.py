"""From two files of one's own to what a reviewer gets, in an empty folder: as typed, as printed."""

import shutil

import pytest
from packaged import Installed, build_wheel
from person import PADDLE, TORCH, Person

NEW = "twincheck new mine --torch {torch} --paddle {paddle} --input x=float32:4,6"
# What case.py and the models get for steps 2 and 5: sentences of README's "by hand".
DATA = '''

def make_data(config, seed):
    """Points of three classes around three centres."""
    rng = np.random.default_rng(seed)
    made = {}
    for part, size in (("train", 96), ("test", 48)):
        labels = rng.integers(0, 3, size)
        x = rng.standard_normal((size, 6)) + 1.2 * np.eye(3, 6)[labels]
        made[part] = {"x": x, "labels": labels}
    return made


optimizer = {"optimizer": "adam", "lr": 0.01, "epochs": 10, "batch_size": 16}
'''
LOSS = '''

def loss(outputs, inputs):
    """Cross entropy."""
    return torch.nn.functional.cross_entropy(outputs, inputs["labels"])
'''

MORE = {
    "case": "import Net",
    "torch_model": "import Net\nimport torch",
    "paddle_model": "import Net\nimport paddle",
}
LABELS = ('"targets": rng.standard_normal((4, 3))', '"labels": rng.integers(0, 3, 4)')


@pytest.fixture
def home(tmp_path):
    folder = tmp_path / "my port"
    folder.mkdir()
    return folder


def test_from_a_red_check_to_a_bundle(home, request):
    """Both files are called alike, the folder has a space; the mistake is found and mended."""
    me = Person(home, warm=request.config.warm_python)
    me.writes({"ref/net.py": TORCH, "port/net.py": PADDLE})
    said = me.types(NEW.format(torch="ref/net.py:Net", paddle="port/net.py:Net"), 1)
    assert "epsilon is 1e-06 in torch and 1e-05 in Paddle" in said
    me.follow("mend")  # show, one place alone, an issue, with --json, judged once more
    me.reads("mine/log/step1_forward/report.html")
    said = me.types("twincheck mend mine --write")
    assert "epsilon=1e-06" in (home / "port" / "net.py").read_text().replace("1e-6", "1e-06")
    shutil.copytree(home / "mine" / "log", home / "before")
    last = me.types("twincheck check mine").splitlines()[-1]
    assert last.startswith("ALIGNED") and "steps 2 and 5 left out" in last
    me.types("twincheck report before mine/log")
    me.reads("mine/log/report.html")
    me.reads("mine/log/bundle.zip")
    me.follow("check", "mend", "new", "step4")
    assert me.followed.total() >= 6, me.followed


def test_the_five_steps_of_a_right_port(home, request):
    """A loss and data are written into the pair's files, as README's five edits say."""
    me = Person(home, warm=request.config.warm_python)
    right = PADDLE.replace("LayerNorm(width)", "LayerNorm(width, epsilon=1e-6)")
    me.writes({"theirs.py": TORCH, "ported.py": right})
    me.types(NEW.format(torch="theirs.py:Net", paddle="ported.py:Net"))
    for name, text in (("case", DATA), ("torch_model", LOSS), ("paddle_model", LOSS)):
        path = home / "mine" / f"{name}.py"
        own = path.read_text().partition("\n\ndef loss(")[0].replace("import Net", MORE[name])
        path.write_text(own + text.replace("torch.nn", f"{name.partition('_')[0]}.nn"))
    case = home / "mine" / "case.py"
    case.write_text(case.read_text().replace(*LABELS))
    me.types("twincheck check mine", None)  # red in step 5: other initial weights
    me.types("twincheck mend mine --write")
    last = me.types("twincheck check mine").splitlines()[-1]
    assert last.startswith("ALIGNED 5/5")
    me.reads("mine/log/report.html")
    me.reads("mine/log/bundle.zip")
    me.types("twincheck report mine --lang zh")
    me.follow("check", "mend", "new", "step4", "step5")


@pytest.mark.slow
def test_with_the_wheel_and_two_environments(tmp_path_factory, home):
    """Neither framework beside the workbench; the pair remembers the two Pythons."""
    folder = tmp_path_factory.mktemp("wheel")
    installed = Installed(folder / "twincheck", build_wheel(folder), without=("torch", "paddle"))
    pythons = {}
    for side, other in (("torch", "paddle"), ("paddle", "torch")):
        pythons[side] = Installed(folder / side, None, without=(other,)).python
    me = Person(home, installed.python.parent)
    me.writes({"theirs.py": TORCH, "ported.py": PADDLE})
    new = NEW.format(torch="theirs.py:Net", paddle="ported.py:Net")
    me.types(" ".join([new, *(f"--{s}-python {path}" for s, path in pythons.items())]), 1)
    me.types("twincheck step1 mine", 1)
    me.types("twincheck step1 my' 'port/mine", 1, at="..")
    me.follow("mend", "issue")
    assert me.followed.total() >= 3, me.followed


def test_a_port_that_does_not_run(home):
    me = Person(home)
    me.writes({"ref.py": TORCH, "port.py": PADDLE.replace("paddle.tanh", "paddle.Tanh")})
    said = me.types(NEW.format(torch="ref.py:Net", paddle="port.py:Net"), 2)
    assert "port.py:14" in said and "Tanh" in said
    me.follow()
