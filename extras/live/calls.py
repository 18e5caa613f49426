"""twincheck.check: two live models of one process, judged as a pair's files are.

The models stay where they are: each side runs in a fork of this process (serve.py), and a process
of its own judges (command.py).  Of the workbench this folder and its sentences are imported here.
"""

import atexit
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

import twincheck
from twincheck.common.system.door import to_type
from twincheck.common.system.reasons import read_reason
from twincheck.extras.live import Kind, cells, forked, held
from twincheck.extras.live.result import NotChecked, Result, last_said
from twincheck.extras.live.serve import Hung, Server

PATIENCE_S = 60.0  # in which a side may compute nothing, before that is an error
_NOT_COMPARED = 2
_MODEL = '''"""The {side} model that twincheck.check was given."""

from twincheck.extras.live import held


def build(config):
    return held.build("{side}", __file__)
'''
_LOSS = """

def loss(outputs, inputs):
    return held.loss("{side}", outputs, inputs)
"""
_CASE = '''"""What twincheck.check was given."""

from pathlib import Path

import numpy as np

CONFIGS = {{"default": {{}}}}


def make_inputs(config, seed):
    with np.load(Path(__file__).parent / "inputs.npz") as a:
        return {inputs}
'''


def check(
    torch_model,
    paddle_model,
    inputs,
    *,
    loss: tuple[Callable, Callable] | None = None,
    carry: str | None = None,
    report: str | os.PathLike | None = None,
    name: str | None = None,
    allow: Sequence[str] = (),
    strict: bool = False,
) -> Result:
    """Judge whether a Paddle model computes what a torch model does; neither is changed.

    torch_model   a torch.nn.Module as it is: its weights, hooks, mode and buffers
    paddle_model  a paddle.nn.Layer
    inputs        what forward takes: a dict by name, a tuple or list by position, or one array;
                  arrays of NumPy or either framework, nested ones too, integers stay integers;
                  what is no array (a bool, None) is passed on as it is
    loss          (torch's, Paddle's): function of the outputs, or of outputs and inputs, that gives
                  a scalar; with it gradients and optimizers are checked too, steps 3 and 4
    carry         "torch" puts torch's weights into a copy of the Paddle model first; by default
                  both keep their own, and where these differ that is the finding
    report        a folder for the page and the logs; by default a temporary one, which is removed
                  when this process ends
    name          of the model on the page; by default its class
    allow, strict as the options of a check

    Returns a Result.  Raises NotChecked, with one sentence, for what could not be compared: inputs
    that are none, a side that failed, weights that belong to nothing on the other side.
    """
    if not hasattr(os, "fork"):
        raise NotChecked(Kind.FORK_MISSING(command=to_type("new")))
    _refuse_others(torch_model, paddle_model, loss, carry)
    folder = _folder(report)
    model = re.sub(r"\W+", "_", name or type(torch_model).__name__).strip("_").lower() or "model"
    pair = folder / "pair" / model
    pair.mkdir(parents=True, exist_ok=True)
    arrays, options, positional = _taken_apart(inputs, torch_model)
    models = {"torch": _on_cpu(torch_model, "torch"), "paddle": _on_cpu(paddle_model, "paddle")}
    losses = dict(zip(("torch", "paddle"), loss or (None, None), strict=True))
    for side, own in models.items():
        held.LIVE[side] = held.Held(own, losses[side], tuple(arrays), positional, options)
    held.CELLS.update(cells.written(pair))
    _write_pair(pair, arrays, loss is not None)
    asked = {
        "pair": str(pair),
        "out": str(folder),
        "steps": [1, 3, 4] if loss else [1],
        "carry": carry,
        "allow": list(allow),
        "strict": strict,
    }
    try:
        document = _judged(asked, folder)
    finally:
        held.LIVE.clear()
        held.CELLS.clear()
    if document["exit_code"] == _NOT_COMPARED:
        error = next(each for each in document["findings"] if each["kind"] == "error")
        raise NotChecked(read_reason(*error["reasons"]))
    return Result(document, folder)


def assert_aligned(torch_model, paddle_model, inputs, **options) -> Result:
    """Check, and raise AssertionError where they are not aligned: its message is the finding."""
    __tracebackhide__ = True
    result = check(torch_model, paddle_model, inputs, **options)
    if not result.aligned:
        raise AssertionError(result.message())
    return result


def _refuse_others(torch_model, paddle_model, loss, carry) -> None:
    """Raise NotChecked for what is no pair of models."""
    for side, model, kind in (
        ("torch", torch_model, "torch.nn.Module"),
        ("paddle", paddle_model, "paddle.nn.Layer"),
    ):
        package, _, _ = kind.partition(".")
        modules = [base.__module__.partition(".")[0] for base in type(model).__mro__]
        if package not in modules or not callable(getattr(model, "state_dict", None)):
            found = f"{type(model).__module__}.{type(model).__qualname__}"
            raise NotChecked(Kind.NO_MODEL_OF_SIDE(side=side, type=found, wanted=kind))
    if carry not in (None, "torch"):
        raise NotChecked(Kind.CARRY_UNKNOWN(given=repr(carry)))
    if loss is not None and not (
        isinstance(loss, tuple | list) and len(loss) == 2 and all(map(callable, loss))
    ):
        raise NotChecked(Kind.LOSS_NO_FUNCTIONS())


def _folder(report) -> Path:
    if report is not None:
        folder = Path(report).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        return folder
    folder = Path(tempfile.mkdtemp(prefix="twincheck-"))
    number = os.getpid()  # a fork's end is not this one's
    atexit.register(lambda: os.getpid() == number and shutil.rmtree(folder, ignore_errors=True))
    return folder


# ---- inputs -------------------------------------------------------------------------------------


def _taken_apart(inputs, torch_model) -> tuple[dict, dict, tuple[str, ...]]:
    """(name -> arrays as they nest, name -> what is none, names of those given by position)."""
    positional: tuple[str, ...] = ()
    if not isinstance(inputs, Mapping):
        values = list(inputs) if isinstance(inputs, list | tuple) else [inputs]
        parameters = inspect.signature(torch_model.forward).parameters.values()
        kinds = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
        known = [p.name for p in parameters if p.kind in kinds]
        known += [f"input{number}" for number in range(len(known), len(values))]
        inputs = dict(zip(known, values, strict=False))
        positional = tuple(inputs)
    arrays, options = {}, {}
    for name, value in inputs.items():
        found = _as_arrays(value, f"inputs[{name!r}]")
        (options if found is None else arrays)[name] = value if found is None else found
    if not arrays:
        raise NotChecked(Kind.INPUTS_WITHOUT_ARRAY())
    if positional and options:
        raise NotChecked(Kind.INPUTS_NO_ARRAY(names=list(options)))
    return arrays, options, positional


def _as_arrays(value, where: str):
    """Arrays in the place of tensors, as they nest; None for what holds none."""
    if isinstance(value, Mapping):
        found = {key: _as_arrays(each, f"{where}[{key!r}]") for key, each in value.items()}
        return found if found and None not in map(type, found.values()) else None
    if isinstance(value, list | tuple):
        if all(isinstance(each, int | float) and not isinstance(each, bool) for each in value):
            return np.asarray(value) if value else None
        found = [_as_arrays(each, f"{where}[{i}]") for i, each in enumerate(value)]
        if found and all(each is None for each in found):
            return None
        if any(each is None for each in found):
            raise NotChecked(Kind.INPUTS_MIXED(place=where, type=type(value).__name__))
        return type(value)(found) if type(value) in (list, tuple) else found
    if type(value).__module__.partition(".")[0] == "torch" and hasattr(value, "detach"):
        value = value.detach().cpu()
        return (value.float() if str(value.dtype) == "torch.bfloat16" else value).numpy()
    if type(value).__module__.partition(".")[0] == "paddle" and hasattr(value, "numpy"):
        return (value.astype("float32") if "bfloat16" in str(value.dtype) else value).numpy()
    if isinstance(value, np.ndarray | np.generic):
        return np.asarray(value)
    return None


def _write_pair(folder: Path, arrays: Mapping, with_loss: bool) -> None:
    kept: dict[str, np.ndarray] = {}

    def source(value) -> str:
        if isinstance(value, Mapping):
            return "{" + ", ".join(f"{k!r}: {source(v)}" for k, v in value.items()) + "}"
        if isinstance(value, list | tuple):
            return "[" + ", ".join(map(source, value)) + "]"
        name = str(len(kept))
        kept[name] = value
        return f'a["{name}"]'

    text = _CASE.format(inputs=source(arrays))
    np.savez(folder / "inputs.npz", **kept)
    (folder / "case.py").write_text(text, encoding="utf-8")
    for side in ("torch", "paddle"):
        text = (_MODEL + _LOSS * with_loss).format(side=side)
        (folder / f"{side}_model.py").write_text(text, encoding="utf-8")


def _on_cpu(model, side: str):
    """The model; of one on a GPU a copy on the CPU, since a fork cannot use a GPU."""
    places = {str(getattr(p, "device", getattr(p, "place", "cpu"))) for p in model.parameters()}
    if all("cpu" in place.lower() for place in places):
        return model
    from twincheck.extras.live.copies import copied, on_cpu

    return on_cpu(copied(model, sys.modules[side]), sys.modules[side])


# ---- judging ------------------------------------------------------------------------------------


def _judged(asked: Mapping, folder: Path) -> dict:
    """The document of a process that judges, while this one is forked for its sides."""
    request = folder / "live.json"
    answer = folder / "result.json"
    answer.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(prefix="twincheck-") as work:
        with Server(Path(work), forked.run, PATIENCE_S) as server:
            request.write_text(json.dumps({**asked, "python": server.python}), encoding="utf-8")
            command = [sys.executable, twincheck.__file__.replace("__init__", "__main__")]
            command += ["_live", str(request)]
            with open(Path(work) / "said", "w+", encoding="utf-8", errors="replace") as said:
                process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=said, stderr=_shown_or(said)
                )
                try:
                    server.until(process)
                except Hung as error:
                    raise NotChecked(*error.args) from None
                finally:
                    if process.poll() is None:
                        process.terminate()
                    process.wait()
                said.seek(0)
                told = said.read()
    if answer.is_file():
        document = json.loads(answer.read_text(encoding="utf-8"))
        if "error" in document:
            raise NotChecked(read_reason(document["error"]))
        return document
    raise NotChecked(last_said(told) or Kind.JUDGE_SILENT())


def _shown_or(file):
    """Return `file`, or None for the terminal, where there is one: progress is shown there."""
    return None if sys.__stderr__ is not None and sys.__stderr__.isatty() else file
