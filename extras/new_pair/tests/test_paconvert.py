"""PaConvert's translation of a torch file: listed, and judged as any other.

Where PaConvert is not installed (`make paconvert`), what runs it is skipped; all else is tested
with a stand-in, whose translation is written down here.
"""

import os
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from checkout import Checkout, change

from twincheck.common.pair.pairs import load_pair
from twincheck.common.system.errors import UserError
from twincheck.extras.new_pair import paconvert as tool
from twincheck.extras.new_pair.described import Asked
from twincheck.extras.new_pair.paconvert import Translation, find_paconvert, translate
from twincheck.extras.new_pair.pair import translated_config
from twincheck.extras.new_pair.spec import Spec, parse_spec
from twincheck.extras.new_pair.torch_sources import gather

PYTHON = Path(os.environ.get("PACONVERT_PYTHON", tool.PYTHON))
installed = pytest.mark.skipif(
    not PYTHON.exists(),
    reason="PaConvert is not installed: `make paconvert`, or PACONVERT_PYTHON names its Python",
)

NET = '''import torch
from torch import nn
from parts import halves


class Net(nn.Module):
    """Two halves of the features, each by itself."""

    def __init__(self, width=8, size=4):
        super().__init__()
        self.inner = nn.Linear(width, width)
        self.size = size

    def forward(self, x):
        pieces = halves(self.inner(x), self.size)
        return torch.cat([piece * (i + 1) for i, piece in enumerate(pieces)], dim=-1)
'''
CAT, RSUB = "return torch.cat", "x = torch.rsub(x, 2)\n        return torch.cat"
PARTS = """import torch


def halves(x, size):
    return x.split(size, dim=-1)
"""


def write(folder: Path, **files: str) -> Path:
    """Files of a folder; `__` in a name stands for a folder's slash."""
    for name, text in files.items():
        path = folder / (name.replace("__", "/").replace("//", "__") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def names(sources) -> list[str]:
    return list(sources.modules)


# ---- which files a model is made of -------------------------------------------------------------


def test_what_stands_beside_a_file_goes_with_it(tmp_path):
    write(tmp_path, net=NET, parts=PARTS, other="import torch\n")
    assert names(gather(parse_spec("--torch", f"{tmp_path}/net.py:Net"), [])) == ["net", "parts"]


def test_of_a_package_what_the_class_needs(tmp_path):
    """Of its own package the modules that are imported; of others those with torch."""
    write(
        tmp_path,
        mine__model="import torch, numpy, theirs\nfrom mine.layers import A\nclass Net: ...\n",
        mine__layers="from helpers import a\nclass A: ...\n",
        mine__unused="import torch\n",
        helpers="def f():\n    import torch\n",
        theirs="try:\n    import torch\nexcept ImportError:\n    torch = None\n",
        torch="an installed torch is not gone into\n",
    )
    (tmp_path / "mine" / "__init__.py").write_text("from .model import Net\nfrom . import unused\n")
    sources = gather(Spec("mine.model", "Net"), [tmp_path])
    assert names(sources) == ["mine.layers", "mine.model", "theirs"]
    assert sources.empty == {Path("mine/__init__.py")}, "nothing of it is used"
    (tmp_path / "mine" / "layers.py").write_text("import mine\n")
    assert "mine.unused" in names(gather(Spec("mine.model", "Net"), [tmp_path])), "now it is"


@pytest.mark.parametrize(
    "text, told",
    [
        ("from .parts import halves\n", "net.py:1: a relative import"),
        ("import torch\nclass Net(:\n", "net.py:2: invalid syntax"),
    ],
)
def test_a_file_that_cannot_be_followed_is_told_with_its_line(tmp_path, text, told):
    write(tmp_path, net=text)
    with pytest.raises(UserError, match=told):
        gather(parse_spec("--torch", f"{tmp_path}/net.py:Net"), [])


def test_a_module_that_is_not_there(tmp_path):
    with pytest.raises(UserError, match="has no module mine.model"):
        gather(Spec("mine.model", "Net"), [tmp_path])


# ---- a stand-in for PaConvert -------------------------------------------------------------------

TRANSLATED = """import sys
sys.path.append("{out}")
from __future__ import annotations

import paddle


class Net(paddle.nn.Layer):
    def forward(self, x):
>>>>>>        y = torch.fancy(x, torch.other.thing)
        "Not Support auto convert *.plain, please judge whether it is Pytorch API"
>>>>>>        y = y.plain()
        return "torch.fancy", y
"""
TORCH = """from __future__ import annotations
import torch.other as other
from torch import fancy


class Net(torch.nn.Module):
    def forward(self, x):
        y = fancy(x, other.thing)
        return y.plain()
"""
# Its first lines are a shell's: the path of a Python may have spaces, which "#!" does not take.
STAND_IN = """#!/bin/sh
''':'
exec "{python}" "$0" "$@"
'''
import pathlib, sys
if "-c" in sys.argv:
    print("{version}")
    sys.exit()
given = dict(zip(sys.argv[4::2], sys.argv[5::2]))
out = pathlib.Path(given["-o"])
out.mkdir()
for file in sorted(pathlib.Path(given["-i"]).rglob("*.py")):
    pathlib.Path(given["--log_dir"]).write_text(f"Start convert file: {{file}} --> {{out}}\\n")
    if "FAIL" in file.read_text():
        sys.exit("Traceback\\nAssertionError: torch.fail can not be both")
    text = pathlib.Path({text!r}).read_text()
    (out / file.name).write_text(text.replace("{{out}}", str(out)))
"""


@pytest.fixture
def stand_in(tmp_path):
    """A program in PaConvert's place, which gives TRANSLATED for whatever it is given."""
    (tmp_path / "translated.txt").write_text(TRANSLATED)

    def made(version: str = tool.VERSION) -> str:
        path = tmp_path / f"python-{version}"
        text = str(tmp_path / "translated.txt")
        path.write_text(STAND_IN.format(python=sys.executable, version=version, text=text))
        path.chmod(0o755)
        return str(path)

    return made


@pytest.fixture
def translated(tmp_path, stand_in):
    """Files, translated by the stand-in into tmp_path / "translated"."""

    def run(**files):
        write(tmp_path, **files)
        spec = parse_spec("--torch", f"{tmp_path}/net.py:Net")
        return translate(spec, tmp_path / "translated", find_paconvert(stand_in()))

    return run


def test_what_was_left_in_torch_is_listed_and_what_is_edited_stays(tmp_path, translated):
    made = translated(net=TORCH)
    file = tmp_path / "translated" / "net.py"
    text = file.read_text()
    assert text.startswith("from __future__"), "nothing may stand before it"
    compile(text, "net.py", "exec")
    assert "sys.path" not in text and ">>>>>>" not in text
    left = [(one.api, one.line) for one in made.untranslated]
    assert left == [("torch.fancy", 8), ("torch.other.thing", 8), ("*.plain", 10)]
    told = made.explained(f"NameError at {file}:8: name 'torch'")
    assert "PaConvert left this in torch: torch.fancy. Mend the translation" in told
    told = made.explained("importing net needs einops, which python has not: install it there")
    assert told.endswith("install it there. Mend that, then set the pair up again")
    file.write_text("import paddle  # mine\n")
    made = translated()
    assert file.read_text() == "import paddle  # mine\n"
    assert made.untranslated == () and "fancy" in made.texts["net.py"]


def test_a_file_that_paconvert_fails_on_is_named(tmp_path, translated):
    told = f"could not translate {tmp_path}/worse.py: AssertionError: torch.fail"
    with pytest.raises(UserError, match=told):
        translated(net="import torch, worse\n", worse="import torch  # FAIL\n")
    assert not (tmp_path / "translated").exists()


def test_where_paconvert_is_missing(tmp_path, stand_in, monkeypatch):
    with pytest.raises(UserError, match="there is no such file"):
        find_paconvert(str(tmp_path / "nowhere"))
    with pytest.raises(UserError, match=f"pip install paconvert=={tool.VERSION}"):
        find_paconvert(stand_in(""))
    with pytest.raises(UserError, match=f"PaConvert 2.0, not {tool.VERSION}"):
        find_paconvert(stand_in("2.0"))
    monkeypatch.setattr(tool, "PYTHON", tmp_path / "nowhere")
    monkeypatch.setattr(tool.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(
        UserError, match="not installed: `make paconvert`; or name a Python that has"
    ):
        find_paconvert()


MOVED = 'import sys\n\nfrom __future__ import annotations\n\nimport paddle\nx: "A" = 1\n'
LAYERS = "import einops\nimport paddle\n\nnet = einops.layers.paddle.Rearrange('b c -> c b')\n"
SOUND = [
    "from __future__ import annotations\n\nimport paddle\n",
    '"""Words."""\n\nfrom __future__ import annotations\n\nimport einops\n\neinops.rearrange\n',
    "import einops\n\n# as in `einops_layers.paddle`\nown.einops.layers.paddle.Rearrange\n",
    "broken(\n",
]


def test_imports_are_put_right_where_they_would_not_do():
    text = tool._with_its_imports(MOVED)
    compile(text, "", "exec")
    assert text.count("__future__") == 1 and "import paddle" in text
    text = tool._with_its_imports(LAYERS)
    assert text.startswith("import einops\nimport einops.layers.paddle  #")
    assert [tool._with_its_imports(sound) for sound in SOUND] == SOUND


# ---- the workbench on translated code -----------------------------------------------------------


def test_a_model_file_that_fails_on_import_fails_again(tmp_path):
    write(
        tmp_path,
        case="CONFIGS = make_inputs = {'default': {}}\n",
        paddle_model="import nothing_like_this\n",
    )
    pair = load_pair(str(tmp_path))
    for _ in range(2):
        with pytest.raises(ModuleNotFoundError):
            pair.side("paddle")


@pytest.mark.slow
def test_layers_and_arguments_of_paddle_compat(tmp_path):
    """Square weights stay, heads share keys, `dim` is an axis; in train mode with dropout."""
    checkout = Checkout(tmp_path, ("tests/pairs/compat",))
    model = str(checkout.path("tests/pairs/compat"))
    done, report = checkout.rows(1, "--model", model, "--mode", "train", "--no-report")
    assert done.returncode == 0, done.stdout + done.stderr
    keys = {row["key"] for row in report["rows"]}
    assert {"z", "top", "best", "attention", "topk", "argmax"} <= keys, keys
    done = checkout.module("twincheck", "certificate", "--model", model)
    assert done.returncode == 0 and "compat.Linear" in done.stdout, done.stdout + done.stderr
    change(checkout.path("tests/pairs/compat/paddle_model.py"), "scale=0.7", "scale=0.6")
    done = checkout.check(1, "--model", model, "--mode", "train", "--no-report")
    assert done.returncode == 1, "a scale that dropout's attention does not look at"


# ---- from a file to a verdict -------------------------------------------------------------------


@installed
def test_a_file_is_translated_judged_edited_and_translated_again(tmp_path):
    checkout = Checkout(tmp_path)
    folder = write(checkout.elsewhere, net=NET.replace(CAT, RSUB), parts=PARTS)
    made = folder / "mine"

    def new(status, *words):
        done = checkout.module("twincheck", "new", "mine", *words)
        assert done.returncode == status, done.stdout + done.stderr
        return done

    words = ("--torch", "net.py:Net", "--paddle", "paconvert", "--input", "x=float32:2,8")
    done = new(2, *words, "--paconvert-python", str(PYTHON))
    assert re.search(r"mine/translated/net\.py:\d+: torch\.rsub", done.stdout)
    assert "NameError at" in done.stderr and "Traceback" not in done.stderr
    assert "PaConvert left this in torch: torch.rsub" in done.stderr

    # Once that is mended, --update goes on from there.
    change(folder / "net.py", RSUB, CAT)
    done = new(0, "--update")
    assert "ROUNDING" in done.stdout or "IDENTICAL" in done.stdout
    assert "paddle.compat.nn.Linear" in (made / "translated" / "net.py").read_text()

    # Runs, but differs: where pieces are not even, the translation cuts others.
    change(folder / "net.py", "size=4", "size=3")
    done = new(1, "--update")
    assert "mine/of_torch/net.py:" in done.stdout and "mine/translated/net.py:" in done.stdout

    # The edit that mends it stays, whatever else is translated anew.
    change(made / "translated" / "parts.py", "x.split(size, dim=-1)", "_pieces(x, size)")
    with open(made / "translated" / "parts.py", "a") as file:
        file.write("\n\ndef _pieces(x, n):\n")
        file.write("    return [x[..., i : i + n] for i in range(0, 8, n)]\n")
    change(folder / "net.py", "piece * (i + 1)", "piece * (i + 2)")
    done = new(0, "--update")
    assert "translated/parts.py: kept as you have edited it" in done.stdout
    assert "piece * (i + 2)" in (made / "translated" / "net.py").read_text()


def test_the_translation_has_the_class_of_a_configuration_of_its_own(tmp_path):
    specs = {"torch": Spec("net.model", "Net"), "paddle": None}
    config = Spec("net.settings", "Settings")
    asked = Asked(specs, {"torch": config, "paddle": None}, {"": {}}, [], {}, {})
    made = Translation(Spec("net.model", "Net", tmp_path / "net.py", tmp_path), {}, ())
    assert translated_config(asked, made) == replace(config, root=tmp_path)
    assert translated_config(replace(asked, configs=specs | {"torch": None}), made) is None
