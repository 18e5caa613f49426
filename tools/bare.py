"""The passes of a check with nothing attached: python -m tools.bare torch REQUEST.json

Run by a side's own Python, which needs NumPy and the framework.  It builds the pair's model once in
each precision, with the weights that its constructor draws, and runs the passes that the request
asks for: no probe, no log, no weights carried over, the framework's own optimizers.  It answers
with seconds beside the request, ANSWER in it.

A request: model, preset, weights, mode, seed, step, answer (a path), whether `thorough`, and the
steps of each optimizer's set-up that the check takes; in a model of more than `large` parameters
those of `given_if_large` update given gradients, the others run the model in each step.
"""

import sys
from pathlib import Path

if __name__ == "__main__":  # by its path too; --help needs no framework
    sys.path[0] = sys.path[0] if __package__ else str(Path(__file__).resolve().parent.parent)
    from twincheck.common.system.start import begin, show_help

    show_help(__doc__)
    begin("numpy")

import gc
import inspect
import json
import time
from collections.abc import Callable
from contextlib import contextmanager

DTYPES = ("float64", "float32")
WITNESS_FORWARDS = 2  # of a finite difference, at least
CLIP_NORM = 0.1


class Seconds:
    """What each part took, of wall and of processor time of this process."""

    def __init__(self):
        self.wall: dict[str, float] = {}
        self.cpu: dict[str, float] = {}

    @contextmanager
    def of(self, part: str):
        """Add what is done inside to a part."""
        wall, cpu = time.perf_counter(), time.process_time()
        yield
        for kept, now, then in (
            (self.wall, time.perf_counter(), wall),
            (self.cpu, time.process_time(), cpu),
        ):
            kept[part] = kept.get(part, 0.0) + now - then


class Bare:
    """One side's model of one case in one precision, and its passes."""

    def __init__(self, side, module, case, tensors: dict):
        self.side, self.module, self.tensors = side, module, tensors
        self.added = case.like is not None  # for train mode: one set-up, and no witness
        self.model = module.build(dict(case.config))
        self.model.train() if case.train else self.model.eval()
        accepted = inspect.signature(self.model.forward).parameters
        self.inputs = {name: value for name, value in tensors.items() if name in accepted}

    def forward(self) -> None:
        """A forward pass without gradients."""
        with self.side.no_grad():
            self.model(**self.inputs)

    def loss(self):
        """The loss of a forward pass."""
        return self.module.loss(self.model(**self.inputs), self.tensors)

    def backward(self) -> None:
        """A forward and a backward pass; the gradients stay."""
        self.loss().backward()

    def update(self, name: str) -> Callable[[], None]:
        """One step of a set-up's optimizer, as the framework has it."""
        values = [value for _, value in self.side.trainable(self.model)]
        return _UPDATES[self.side.NAME](name, values)


def _of_torch(name: str, values: list) -> Callable[[], None]:
    import torch

    rule = {
        "sgd": lambda: torch.optim.SGD(values, lr=1e-6, momentum=0.9),
        "adam": lambda: torch.optim.Adam(values, lr=1e-6),
        "adamw": lambda: torch.optim.AdamW(values, lr=1e-6, weight_decay=0.125),
        "adam_clip_warmup": lambda: torch.optim.Adam(values, lr=1e-6),
    }[name]()

    def step():
        if name == "adam_clip_warmup":
            torch.nn.utils.clip_grad_norm_(values, CLIP_NORM)
        rule.step()

    return step


def _of_paddle(name: str, values: list) -> Callable[[], None]:
    import paddle

    rate, clip = {"learning_rate": 1e-6, "parameters": values}, paddle.nn.ClipGradByGlobalNorm
    return {
        "sgd": lambda: paddle.optimizer.Momentum(momentum=0.9, **rate),
        "adam": lambda: paddle.optimizer.Adam(**rate),
        "adamw": lambda: paddle.optimizer.AdamW(weight_decay=0.125, **rate),
        "adam_clip_warmup": lambda: paddle.optimizer.Adam(grad_clip=clip(CLIP_NORM), **rate),
    }[name]().step


_UPDATES = {"torch": _of_torch, "paddle": _of_paddle}


def run(side_name: str, request: dict) -> dict:
    """All passes of a request: wall and CPU seconds of each part, and the number of passes."""
    from twincheck.step4_backward.setups import setups_of

    seconds, counts = Seconds(), {}
    with seconds.of("import"):
        side, module, pair = _imported(side_name, request["model"])
    cases = pair.cases(request["preset"], request["weights"], request["mode"])
    first = cases[0].config, request["preset"], request["thorough"]
    request = request | {"setups": setups_of(pair, *first)}
    parameters = 0
    for dtype in DTYPES:
        for case in cases:
            with seconds.of("import"):  # what the model's own library is, comes with the first
                side.set_up(dtype, "cpu", request["seed"])
            with seconds.of("build"):
                arrays = pair.inputs(case, request["preset"], request["seed"])
                tensors = {name: side.tensor(values) for name, values in arrays.items()}
                bare = None  # not two models at a time
                bare = Bare(side, module, case, tensors)
            parameters = sum(side.array(value).size for _, value in side.trainable(bare.model))
            large = parameters > request["large"]
            given = request["given_if_large"] if large else ()
            driven = [name for name in request["setups"] if name not in given]
            asked = request | {"setups": [request["in_train_mode"]]} if bare.added else request
            takes_steps = case is cases[0] or bare.added
            for part, what, times in passes(asked, bare, dtype, driven if takes_steps else None):
                with seconds.of(part):
                    for _ in range(times):
                        what()
                counts[part] = counts.get(part, 0) + times
                what = None  # nor two optimizers
    told = {"wall_of": seconds.wall, "cpu_of": seconds.cpu}
    return told | {"passes": counts, "parameters": parameters}


def passes(request: dict, bare: Bare, dtype: str, driven: list[str] | None):
    """(part, what to do, how often) of a check of a step, for one case in one precision.

    driven  the set-ups whose steps run the model; None for a case that takes no optimizer steps
    """
    if request["step"] == 1:
        yield "forward", bare.forward, 1
    if request["step"] == 3:
        yield "forward", bare.loss, 1
    if request["step"] != 4:
        return
    yield "forward and backward", bare.backward, 1
    if dtype == "float64" and not bare.added:
        yield "witness: forward and backward", bare.backward, 1
        yield "witness: forward", bare.forward, WITNESS_FORWARDS
    if driven is None:
        return
    for name in request["setups"]:
        update = bare.update(name)
        if name in driven:
            yield "optimizer steps: forward and backward", _driven(bare, update), request["steps"]
        else:
            yield "optimizer steps: updates", update, request["steps"]
        update = None
        gc.collect()  # an optimizer of Paddle's refers to itself, and so stays without this


def _driven(bare: Bare, update: Callable[[], None]) -> Callable[[], None]:
    def step():
        bare.side.clear_gradients(bare.model)
        bare.backward()
        update()

    return step


def _imported(side_name: str, model: str):
    import importlib

    from twincheck.common.pair.pairs import load_pair

    side = importlib.import_module(f"twincheck.common.sides.backend_{side_name}").side
    pair = load_pair(model)
    return side, pair.side(side_name), pair


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(f"error: a side and a request's path are needed\n\n{__doc__}")
    asked = json.loads(Path(sys.argv[2]).read_text())
    Path(asked["answer"]).write_text(json.dumps(run(sys.argv[1], asked)))
