"""A copy of the checkout that may be changed, in a folder with a space in its name."""

import compileall
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from tools.twins import translate

ROOT = Path(__file__).resolve().parent.parent
CHECKS = {
    1: "step1_forward/check_step1.py",
    2: "step2_metric/check_step2.py",
    3: "step3_loss/check_step3.py",
    4: "step4_backward/check_step4.py",
    5: "step5_train/check_step5.py",
}
TIMEOUT_S = 280


def change(path: Path, old: str, new: str) -> None:
    """Change a text that must occur in a file, so that no fault is planted in vain."""
    text = path.read_text()
    assert old in text, f"{path.name} no longer holds {old!r}: plant this fault elsewhere"
    path.write_text(text.replace(old, new))


# Behind the table of the built-in twins: what their models do not have.
_SPELT = {
    r"\bConvTranspose(\d)d\b": r"Conv\1DTranspose",
    r"\b(Conv|BatchNorm|InstanceNorm)(\d)d\b": r"\1\2D",
    r"\bnn\.(\w+?)([123])d\(": r"nn.\1\2D(",
    "MultiheadAttention": "MultiHeadAttention",
    r"nn\.RNN\(": "nn.SimpleRNN(",
    ", (batch_first|affine)=True": "",
    r"paddle\.softmax": "F.softmax",
    "running_mean": "_mean",
    "running_var": "_variance",
}


def in_paddles_words(text: str) -> str:
    """Return a torch text in Paddle's words."""
    text = translate(text)
    for pattern, words in _SPELT.items():
        text = re.sub(pattern, words, text)
    return text


def patched(text: str, difference: str) -> str:
    """Return a text with the lines of a diff in their place: hunks behind `@@`, of any order.

    Raises ValueError where a hunk's old lines are not in it exactly once.
    """
    for hunk in difference.split("@@\n")[1:]:
        lines = hunk.splitlines(keepends=True)
        old, new = ("".join(line[1:] for line in lines if line[0] in kept) for kept in (" -", " +"))
        if text.count(old) != 1:
            raise ValueError(f"this is there {text.count(old)} times, not once:\n{old}")
        text = text.replace(old, new)
    return text


def text_of(path: Path) -> str:
    """Return the text of a pair's model file.

    A port that is its reference's text is written from that, with what paddle_model.diff says is
    otherwise; what builds a Net of the configuration alone is put at its end.
    """
    if path.is_file() or path.name != "paddle_model.py":
        text = path.read_text()
    else:
        text = in_paddles_words(path.with_name("torch_model.py").read_text())
        if path.with_suffix(".diff").is_file():
            text = patched(text, path.with_suffix(".diff").read_text())
    built = re.search(r"^def build\(|^build = ", text, re.MULTILINE)
    return text if built else f"{text}\n\ndef build(config):\n    return Net(**config)\n"


def case_of(row: Mapping) -> str:
    """Return the case.py that a row of faults/users/cases.toml stands for."""
    row = dict(row)
    what, config, rename = row.pop("what"), row.pop("config"), row.pop("rename", {})
    inputs = [each for names in row for each in names.split(", ") if not each.startswith("_")]
    lines = [f'"""{what}"""', "import numpy as np", f"CONFIGS = {{'default': {config!r}}}"]
    lines += [f"RENAME = {rename!r}", "def make_inputs(config, seed):"]
    lines += [f"    {name} = config[{name!r}]" for name in config]
    lines += ["    rng = np.random.default_rng(seed)"]
    lines += [f"    {names} = {made}" for names, made in row.items()]
    return "\n".join([*lines, f"    return dict({', '.join(f'{n}={n}' for n in inputs)})\n"])


def complete(folder: Path) -> None:
    """Write what pairs below a folder lack: a row's case.py, a port that is the reference's."""
    rows = tomllib.loads((ROOT / "faults" / "users" / "cases.toml").read_text(encoding="utf-8"))
    for reference in folder.rglob("torch_model.py"):
        port = reference.with_name("paddle_model.py")
        for file in (port, reference):
            file.write_text(text_of(file))
        case = reference.with_name("case.py")
        if not case.exists():
            case.write_text(case_of(rows[case.parent.name]))


class Checkout:
    """A copy that a test may change; commands run in another working directory.

    pairs   folders of users' pairs that are copied too
    """

    interpreter = (sys.executable,)  # or a warm one (faults/warm), for all copies or for one
    captured = staticmethod(partial(subprocess.run, capture_output=True, text=True))

    def __init__(self, folder: Path, pairs: tuple[str, ...] = ()):
        self.root = folder / "a checkout"
        self.elsewhere = folder / "elsewhere"
        self.elsewhere.mkdir(parents=True)
        ignore = shutil.ignore_patterns("log", "tests", ".work-*", "*.pyc.*")
        steps = (str(Path(check).parent) for check in CHECKS.values())
        for name in ("twincheck", "common", "extras", "fake_data", *steps, *pairs):
            # The copy has the compiled files too, or each would be compiled once more.
            compileall.compile_dir(ROOT / name, quiet=2)
            shutil.copytree(ROOT / name, self.root / name, ignore=ignore)
        for name in pairs:
            complete(self.root / name)
        shutil.copy(ROOT / "LICENSE", self.root)  # of what is published
        shutil.copy(ROOT / "pyproject.toml", self.root)  # names the extras

    def path(self, name: str) -> Path:
        """A file of the copy."""
        return self.root / name

    def logs(self, step: int, model: str) -> Path:
        """Return the folder where a step leaves a model's logs."""
        return self.path(CHECKS[step]).parent / "log" / model

    def replace(self, name: str, old: str, new: str) -> None:
        """Change a text that must occur in a file of the copy."""
        change(self.path(name), old, new)

    def python(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess:
        """Run Python on the copy; the environment does not name the original checkout."""
        values = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        values |= environment
        command, where = [*self.interpreter, *arguments], {"cwd": self.elsewhere, "env": values}
        return self.captured(command, timeout=TIMEOUT_S, **where)

    def module(self, name: str, *arguments: str) -> subprocess.CompletedProcess:
        """Run one of the copy's modules, such as twincheck."""
        return self.python("-m", name, *arguments, PYTHONPATH=str(self.root))

    def check(self, step: int | str, *arguments: str) -> subprocess.CompletedProcess:
        """Run check_stepN.py with the arguments, or a further check by its command's name."""
        if step in CHECKS:
            return self.python(str(self.path(CHECKS[step])), *arguments)
        return self.module("twincheck", step, *arguments)

    def rows(self, step: int | str, *arguments: str) -> tuple[subprocess.CompletedProcess, dict]:
        """Run `check`; return it and its --json report, {} where it wrote none."""
        report = self.elsewhere / "report.json"
        report.unlink(missing_ok=True)
        done = self.check(step, *arguments, "--json", str(report))
        return done, json.loads(report.read_text()) if report.is_file() else {}
