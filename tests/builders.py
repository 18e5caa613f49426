"""What several files of tests build and run: logs, pairs, checks that end as they must."""

import atexit
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from textwrap import dedent, indent

import numpy as np
from checkout import CHECKS, ROOT, Checkout, change, complete, in_paddles_words

from twincheck.common.logs.reader import read_log
from twincheck.common.logs.result_folder import ResultFolder
from twincheck.common.logs.sidecar import Sidecar, seal, write_sidecar
from twincheck.common.logs.writer import LogWriter

PAIRS = ROOT / "tests" / "pairs"
SMALL_CNN = PAIRS / "small_cnn"


def ended(status, run):
    """A finished command, or a pair of it and what it wrote: it ended with this status."""
    done = run[0] if isinstance(run, tuple) else run
    assert done.returncode == status, f"{done.stdout}{done.stderr}"
    return run


def python(*arguments, warm=False, status=0, env=None, **more):
    """Run Python on the checkout, in a warm interpreter if asked for; what it printed."""
    done = subprocess.run(
        [*(Checkout.interpreter if warm else (sys.executable,)), "-W", "ignore", *arguments],
        env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"} | (env or {}),
        **{"capture_output": True, "text": True, "cwd": ROOT} | more,
    )
    return ended(status, done).stdout


def killed(command, until, folder):
    """Run a command in a folder and kill it, with no word to its workers, once it got so far."""
    with open(os.devnull, "w") as nothing:
        check = subprocess.Popen(command, cwd=folder, stdout=nothing, stderr=nothing)
    deadline = time.monotonic() + 200
    while time.monotonic() < deadline and check.poll() is None and not until():
        time.sleep(0.02)
    check.kill()
    check.wait()
    time.sleep(1.0)  # the workers see that their check is gone


def twincheck(*words, status=0, folder=ROOT):
    """The command as a user types it in a folder; what it printed, its errors too."""
    done = subprocess.run(
        [*Checkout.interpreter, "-m", "twincheck", *map(str, words)],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "200"},
        capture_output=True,
        text=True,
    )
    ended(status, done)
    return done.stdout + done.stderr


def write_log(path, arrays, told=None, **how):
    """A log of these, with a sidecar where entries of one are given; its writer.

    how   options of the writer, such as summing: the sidecar tells what it made of them
    """
    with LogWriter(path, **how) as writer:
        for key, values in arrays.items():
            writer.add(key, np.asarray(values))
    if told is not None:
        kept = {"sums": writer.sums, "booleans": writer.booleans} if how else {}
        write_sidecar(path, Sidecar(**kept | told))
    return writer


def sealed_log(path, arrays, side="torch", **told):
    """A log as a side's process leaves it: its sidecar tells the side; hash and seal fit."""
    told = {"side": side, "framework": side, "frameworks_loaded": [side]} | told
    told = {"framework_file": f"/site-packages/{told['framework']}/__init__.py"} | told
    car = Sidecar(log_sha256=write_log(path, arrays).sha256, **told)
    write_sidecar(path, replace(car, seal=told.get("seal", seal(car))))
    return path


def arrays_of(path):
    """Key -> array of a log."""
    with read_log(path) as log:
        return {key: log[key].copy() for key in log}


def paddles(torch, *changes):
    """A torch text in Paddle's words; changes: (old, new) of that text, where the port differs."""
    text = in_paddles_words(torch)
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


_CASE = """import numpy as np

CONFIGS = {configs}


def make_inputs(config, seed):
    rng = np.random.default_rng(seed)
    return {{{inputs}}}
"""
_NET = """import torch
from torch import nn
from torch.nn import functional as F


class Net(nn.Module):
    def __init__(self{settings}):
        super().__init__()
{made}

    def forward(self, {takes}):
{run}


def build(config):
    return Net(**config)


def loss(outputs, inputs):
    return {loss}
"""
CROSS_ENTROPY = 'F.cross_entropy(outputs, inputs["labels"])'


def a_case(inputs, configs=None):
    """A case.py; inputs: the items of what make_inputs returns, drawn from `rng`."""
    return _CASE.format(inputs=inputs, configs=configs or {"default": {}})


def a_net(made, run, loss=CROSS_ENTROPY, takes="x", settings=""):
    """A torch_model.py: what its only class makes, what its forward does, and its loss."""
    made, run = (indent(dedent(lines).strip("\n"), " " * 8) for lines in (made, run))
    return _NET.format(made=made, run=run, loss=loss, takes=takes, settings=settings)


def write_pair(folder: Path, case, torch, paddle=None):
    """A pair of somebody's own, whose port may be the reference's text; its folder."""
    paddle = paddles(torch) if paddle is None else paddle
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in (("case", case), ("torch_model", torch), ("paddle_model", paddle)):
        (folder / f"{name}.py").write_text(text)
    return folder


def without(framework):
    """A program that runs another where that framework is not installed."""
    return f"""
import sys, runpy, importlib.util as u
find = u.find_spec
u.find_spec = lambda name, *a: None if name == {framework!r} else find(name, *a)
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def copied(pair, folder, *changes, side="paddle"):
    """A copy of a pair in a folder, without its logs; changes: (old, new) of a side's model."""
    left_out = shutil.ignore_patterns("log", "__pycache__")
    made = shutil.copytree(pair, Path(folder) / Path(pair).name, ignore=left_out)
    complete(made)
    for old, new in changes:
        change(made / f"{side}_model.py", old, new)
    return made


def edit_json(path, **entries):
    """Put other entries into a file of JSON."""
    path.write_text(json.dumps(json.loads(path.read_text()) | entries))


def few_digits(checkout):
    """Of the digits have a copy read 200 of 1,797: to score all takes most of steps 2 and 5."""
    few = "(part[:200] for part in load_digits(return_X_y=True))"
    checkout.replace("common/pair/data.py", "load_digits(return_X_y=True)", few)


RUNS = ("ref32", "cand32", "ref64", "cand64")


def four(rng, values, other=None, noise=6e-8):
    """One tensor in these runs, each with its precision's rounding; the candidate's is `other`."""

    def rounded(values, size, dtype):
        return (values * (1 + size * rng.standard_normal(np.shape(values)))).astype(dtype)

    pair = (values, values if other is None else other)
    return tuple(
        rounded(one, size, dtype)
        for size, dtype in ((noise, np.float32), (1e-16, np.float64))
        for one in pair
    )


def judged(checkout, step, pair, *options):
    """A check of a pair without its page: the finished command, and its rows by their keys."""
    done, report = checkout.rows(step, "--model", str(pair), "--no-report", *options)
    return done, {row["key"]: row for row in (report or {}).get("rows", [])}


@cache
def translated(name, *changes):
    """A folder with one of tests/pairs whose port is its reference's text in Paddle's words.

    changes   (old, new) of that text, where the port differs
    """
    folder = Path(tempfile.mkdtemp(prefix="pairs-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    made = copied(PAIRS / name, folder)
    text = paddles((made / "torch_model.py").read_text(), *changes)
    (made / "paddle_model.py").write_text(text)
    return made


@cache
def golden(file, case=""):
    """The arrays of one case of a reference program, by kind: sd, in, out, grad, …"""
    kinds = defaultdict(dict)
    with np.load(ROOT / "tests" / "goldens" / f"{file}.npz", allow_pickle=False) as arrays:
        for key in arrays.files:
            name, _, path = key.rpartition("|")
            kind, _, path = path.partition("/")
            if name == case or not name:
                kinds[kind][path] = arrays[key]
    return kinds


def assert_gradients(found, expected):
    """Each is within 1e-5 of its size.  What moves nothing, as a bias before a softmax or what
    shifts every logit, has noise for a gradient, seen below 1e-7: it is held to the largest."""
    assert set(found) == set(expected)
    whole = max(np.abs(values).max() for values in expected.values())
    for name, values in expected.items():
        scale = np.abs(values).max()
        scale = whole if scale < 1e-6 * whole else scale
        assert np.abs(found[name] - values).max() <= 1e-5 * scale, name


def printed(capsys, status, found):
    """Return what a command has printed that ended with `found`, which is this status."""
    told = capsys.readouterr()
    assert found == status, told.out + told.err
    return told


class Checked:
    """One check of one pair: its exit status, its rows by key, and where its logs are."""

    def __init__(self, step: int, folder: Path, out: Path, options: Sequence[str] = (), root=ROOT):
        report = out / "rows.json"
        command = [*Checkout.interpreter, str(root / CHECKS[step]), "--model", str(folder)]
        command += [*options, "--no-report", "--out", str(out), "--json", str(report)]
        done = subprocess.run(command, capture_output=True, text=True)
        self.status, self.said = done.returncode, done.stdout + done.stderr
        found = json.loads(report.read_text())
        self.first = found["first_diverged"]
        self.rows = {row["key"]: row for row in found["rows"]}
        self.files = ResultFolder(out / Path(CHECKS[step]).parent / folder.name)
