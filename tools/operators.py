"""The frameworks' operators that are inexact or wrong, measured on the installed versions.

    python -m tools.operators     writes common/verdict/operators.json and docs/faults.md

Each operator of tools/operators.toml runs in float64 on the same numbers as torch's, and its result
and its gradients are compared; what is measured is the largest difference as a part of the largest
value.  The forms that models use are measured in each state: weights that are trained, frozen one
by one or all, a gradient that is asked of the first input alone, the gradient of a gradient.  Where
another version of a framework computes something else, git diff shows what.
"""

import argparse
import multiprocessing
import time
import tomllib
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np

from tools.readme import fill
from twincheck.common.system.checkout import ROOT
from twincheck.common.system.files import write_text
from twincheck.common.system.json_file import write_json
from twincheck.common.verdict.operators import TABLE, Operator

NOTHING = 1e-14  # below it a result is exact
WRONG = 1e-6  # beyond it a form's result or gradient is no constant's: those make 5e-7 at most
CALLS = Path(__file__).with_suffix(".toml")
PAGE = ROOT / "docs" / "faults.md"

_RNG = np.random.default_rng(0)
MATRIX = _RNG.normal(size=(6, 10))
OTHER = _RNG.normal(size=(6, 10))
POSITIVE = np.abs(MATRIX) + 0.1
IMAGES = _RNG.normal(size=(2, 3, 8, 8))
WIDE = 40.0 * MATRIX
LABELS = _RNG.integers(0, 10, 6)
ARRAYS = {
    **{"MATRIX": MATRIX, "OTHER": OTHER, "POSITIVE": POSITIVE, "IMAGES": IMAGES, "WIDE": WIDE},
    **{"LABELS": LABELS, "EYE": np.eye(6), "ONE_HOT": np.eye(10)[LABELS]},
    **{"PAIRS": MATRIX.reshape(6, 5, 2), "FAR": np.array([[0.0, -100.0]]), "np": np},
}


def _frameworks():
    import paddle
    import torch

    paddle.set_device("cpu")
    return torch, paddle


def off_by(own: object, exact: object) -> float:
    """The largest difference, as a part of the exact result's largest value."""
    own, exact = (np.asarray(values, np.float64) for values in (own, exact))
    largest = np.abs(exact).max(initial=0.0)
    return float(np.abs(own - exact).max(initial=0.0) / (largest or 1.0))


# ---- one call of both frameworks -----------------------------------------------------------------


def _arrays(given: Mapping[str, str]) -> dict[str, np.ndarray]:
    """Name -> array, as a call of the TOML gives them."""
    made = {}
    for name, text in given.items():
        rng = np.random.default_rng(zlib.crc32(f"{name}{text}".encode()))

        def shares(*shape, rng=rng):
            values = rng.uniform(0.1, 1.0, shape)
            return values / values.sum(-1, keepdims=True)

        ways = {
            "normal": lambda *shape, rng=rng: rng.normal(size=shape),
            "positive": lambda *shape, rng=rng: rng.uniform(0.5, 1.5, shape),
            "integers": lambda *shape, rng=rng: rng.integers(0, 3, shape),
            **{"shares": shares, "zeros": lambda n: np.zeros(n), "ones": lambda n: np.ones(n)},
        }
        made[name] = np.array(eval(text, ways | ARRAYS))
    return made


def _exact_functions(torch) -> dict[str, Callable]:
    """Torch's operators that are inexact themselves, computed exactly."""

    def digamma(x):
        """Its gradient is the sum of 1 / (x + k) ** 2, and what Euler and Maclaurin leave."""
        far = x.detach() + 40
        slope = sum(1.0 / (x.detach() + k) ** 2 for k in range(40))
        slope = slope + 1 / far + 1 / (2 * far**2) + 1 / (6 * far**3) - 1 / (30 * far**5)
        return torch.digamma(x.detach()) + slope * (x - x.detach())

    return {
        "digamma": digamma,
        "hardsigmoid": lambda x: torch.clamp(x / 6.0 + 0.5, 0.0, 1.0),
        "celu": lambda x, a: torch.where(x > 0, x, a * torch.expm1(torch.clamp(x, max=0.0) / a)),
    }


def _batch_norm(framework, x, momentum):
    """The result, and the running mean after one update."""
    like = {"dtype": x.dtype}
    mean, variance = framework.zeros([3], **like), framework.ones([3], **like)
    rest = framework.ones([3], **like), framework.zeros([3], **like), True, momentum, 1e-3
    return framework.nn.functional.batch_norm(x, mean, variance, *rest), mean


def _with_weights(layer, frozen: bool):
    """A layer with float64 weights that both frameworks' have, by their order."""
    layer.to(dtype="float64") if hasattr(layer, "set_state_dict") else layer.double()
    for number, weight in enumerate(layer.parameters()):
        values = np.random.default_rng(number).normal(size=tuple(weight.shape))
        if hasattr(weight, "stop_gradient"):
            weight.set_value(values)
            weight.stop_gradient = frozen
        else:
            weight.data.copy_(weight.new_tensor(values))
            weight.requires_grad_(not frozen)
    return layer


def _is_trained(tensor) -> bool:
    return not tensor.stop_gradient if hasattr(tensor, "stop_gradient") else tensor.requires_grad


def called(framework, text: str, arrays: Mapping, wanted: Sequence[str], alone=False, second=False):
    """What a call gives: results, the wanted gradients, their own; None for one that is not there.

    alone    the first of the wanted gradients is asked for by itself
    second   the gradients of the gradients too
    """
    is_torch = framework.__name__ == "torch"
    new = framework.tensor if is_torch else framework.to_tensor
    tensors = {name: new(values) for name, values in arrays.items()}
    for name, tensor in tensors.items():
        if is_torch:
            tensor.requires_grad_(name in wanted)
        else:
            tensor.stop_gradient = name not in wanted
    functions = _exact_functions(framework) if is_torch else {}
    tools = {"p": framework, "F": framework.nn.functional, "batch_norm": _batch_norm}
    found = eval(text, tools | functions | {"with_weights": _with_weights} | tensors)
    results = found if isinstance(found, tuple) else (found,)
    rng = np.random.default_rng(1)
    ends = [tensors[name] for name in wanted][: 1 if alone else None]
    grad = framework.autograd.grad if is_torch else framework.grad
    given = new(rng.normal(size=tuple(results[0].shape)))
    gradients = grad(results[:1], ends, [given], create_graph=second, allow_unused=True)
    if second:
        made = [g for g in gradients if g is not None and _is_trained(g)]
        given = [new(rng.normal(size=tuple(g.shape))) for g in made]
        gradients = grad(made, ends, given, allow_unused=True) if made else [None] * len(ends)
    if not (alone or second) and not is_torch:  # as a training has them
        found = eval(text, tools | functions | {"with_weights": _with_weights} | tensors)
        (found if isinstance(found, tuple) else (found,))[0].backward(given)
        gradients = [end.grad for end in ends]
    return [
        [None if value is None else value.detach().numpy() for value in values]
        for values in (results, gradients)
    ]


def compared(torchs, paddles) -> tuple[float, float]:
    """How far results and gradients are off; no gradient counts as zeros."""
    offs = []
    for exact, own in zip(torchs, paddles, strict=True):
        pairs = [pair for pair in zip(exact, own, strict=True) if pair[0] is not None]
        offs.append(max((off_by(0.0 if o is None else o, e) for e, o in pairs), default=0.0))
    return offs[0], offs[1]


# ---- operators that are inexact ------------------------------------------------------------------


@dataclass(frozen=True)
class Measured:
    """An operator to measure; `measure` gives its differences in value and in gradient."""

    name: str
    keeps: str
    measure: Callable[[], tuple[float, float]]
    classes: tuple[str, ...] = ()
    framework: str = "paddle"
    excuses: bool = True

    def line(self) -> dict[str, object]:
        """Its line of the table, as it is measured now."""
        value, gradient = (0.0 if off < NOTHING else float(f"{off:.3g}") for off in self.measure())
        told = self.framework, self.keeps, self.classes, value, gradient, self.excuses
        entry = asdict(Operator(self.name, *told))
        del entry["name"]
        return entry


def differences_of(given: Mapping[str, str], torch: str, paddle: str = "", other: str = ""):
    """How far the value and the gradient of a call are off.

    other   torch's own, which is off the exact call of torch's
    """
    of_torch, of_paddle = _frameworks()
    arrays = _arrays(given)
    wanted = ["x"]
    exact = called(of_torch, torch, arrays, wanted)
    own = called(of_torch, other, arrays, wanted) if other else None
    return compared(exact, own or called(of_paddle, paddle, arrays, wanted))


# ---- optimizers, ten steps in a row --------------------------------------------------------------

STEPS, LR = 10, 1e-3


def _gradients() -> list[np.ndarray]:
    rng = np.random.default_rng(2)
    return [rng.normal(size=50).astype(np.float32).astype(np.float64) for _ in range(STEPS)]


def _run_paddle(rule: Callable, dtype: str, gradients: Iterable[np.ndarray]) -> np.ndarray:
    """Where zeros are after Paddle's optimizer has seen these gradients."""
    _, paddle = _frameworks()
    values = paddle.to_tensor(np.zeros(50, dtype), stop_gradient=False)
    weight = paddle.create_parameter([50], dtype)
    weight.set_value(values)
    optimizer = rule(paddle, [weight])
    for gradient in gradients:
        weight.grad = paddle.to_tensor(gradient.astype(dtype))
        optimizer.step()
    return weight.numpy()


def _run_torch(rule: Callable, dtype: str, gradients: Iterable[np.ndarray]) -> np.ndarray:
    """The same of torch's."""
    torch, _ = _frameworks()
    weight = torch.nn.Parameter(torch.zeros(50, dtype=getattr(torch, dtype)))
    optimizer = rule(torch, [weight])
    for gradient in gradients:
        weight.grad = torch.tensor(gradient.astype(dtype))
        optimizer.step()
    return weight.detach().numpy()


def _adam(run: Callable) -> Callable:
    """The noise of a framework's float32 Adam, against the same in float64."""

    def rule(framework, weights):
        if framework.__name__ == "torch":
            return framework.optim.Adam(weights, LR)
        return framework.optimizer.Adam(LR, parameters=weights)

    return lambda: (
        off_by(run(rule, "float32", _gradients()), _run_torch(rule, "float64", _gradients())),
        0.0,
    )


def _momentum():
    own = _run_paddle(
        lambda paddle, weights: paddle.optimizer.Momentum(LR, 0.9, weights), "float64", _gradients()
    )
    theirs = _run_torch(
        lambda torch, weights: torch.optim.SGD(weights, LR, momentum=0.9), "float64", _gradients()
    )
    return off_by(own, theirs), 0.0


def _clip_by_global_norm():
    torch, paddle = _frameworks()
    gradient = _gradients()[0]
    weight = torch.nn.Parameter(torch.zeros(50, dtype=torch.float64))
    weight.grad = torch.tensor(gradient)
    torch.nn.utils.clip_grad_norm_([weight], 0.1)
    clip = paddle.nn.ClipGradByGlobalNorm(0.1)
    clipped = clip([(paddle.create_parameter([50], "float64"), paddle.to_tensor(gradient))])
    return off_by(clipped[0][1].numpy(), weight.grad.numpy()), 0.0


def _lines() -> Iterator[Measured]:
    for line in tomllib.loads(CALLS.read_text(encoding="utf-8"))["inexact"]:
        calls = {name: line.pop(name) for name in ("torch", "paddle", "other") if name in line}
        measured = partial(differences_of, line.pop("given"), **calls)
        yield Measured(measure=measured, **line | {"classes": tuple(line.get("classes", ()))})


OPERATORS = (
    *_lines(),
    Measured("Adam", "is noisier in float32 than torch's", _adam(_run_paddle), excuses=False),
    Measured(
        "Adam of torch",
        "rounds its steps in float32",
        _adam(_run_torch),
        framework="torch",
        excuses=False,
    ),
    Measured("Momentum", "keeps its coefficient in float32", _momentum, excuses=False),
    Measured(
        "ClipGradByGlobalNorm",
        "clips by a norm to which torch adds 1e-6",
        _clip_by_global_norm,
        excuses=False,
    ),
)


# ---- operators that are wrong --------------------------------------------------------------------


@dataclass(frozen=True)
class Form:
    """A form of an operator that models use."""

    operator: str
    form: str
    given: dict[str, str]
    torch: str
    paddle: str
    fixed: tuple[str, ...] = ()  # of what is given, what has no gradient
    instead: str = ""  # what a port can write where it is wrong

    def states(self) -> Iterator[tuple[str, list[str], dict[str, bool]]]:
        """Each state in words, with what has a gradient, and how that is asked for."""
        floats = [n for n, a in _arrays(self.given).items() if a.dtype.kind == "f"]
        wanted = [name for name in floats if name not in self.fixed]
        yield "", wanted, {}
        yield "the gradient of a gradient", wanted, {"second": True}
        if len(wanted) > 1:
            yield "paddle.grad of the first input alone", wanted, {"alone": True}
            yield "all weights frozen", wanted[:1], {}
        for name in wanted if len(wanted) > 2 else wanted[:1] if len(wanted) == 2 else ():
            yield f"{name} frozen", [other for other in wanted if other != name], {}

    def measure(self, paddle: str = "") -> Iterator[tuple[str, str, float | str]]:
        """State, part and how far off it is, of each that is wrong; or why it stops.

        paddle   the call that is measured: its own, or what stands instead of it
        """
        for state, *how in self.states():
            found = _APART.asked(self, paddle or self.paddle, *how)
            if isinstance(found, str):
                yield state, "gradient", found
                continue
            for part, off in zip(("result", "gradient"), found, strict=True):
                if off > WRONG:
                    yield state, part, float(f"{off:.2g}")


class _Apart:
    """A process that measures, another one where a fault of Paddle's own has ended it."""

    def __init__(self):
        self._pool = None

    def asked(self, *what):
        self._pool = self._pool or ProcessPoolExecutor(1, multiprocessing.get_context("spawn"))
        try:
            return self._pool.submit(_measured, *what).result()
        except BrokenProcessPool:
            self._pool = None
            return "the process ends: segmentation fault"


_APART = _Apart()


def _measured(form: Form, call: str, wanted: Sequence[str], how: Mapping):
    """How far result and gradient of a form are off, 0 where a side has none; or why it stops."""
    torch, paddle = _frameworks()
    arrays = _arrays(form.given)
    try:
        exact = called(torch, form.torch, arrays, wanted, **how)
    except RuntimeError:  # a gradient that torch does not have either
        return 0.0, 0.0
    try:
        return compared(exact, called(paddle, call, arrays, wanted, **how))
    except Exception as error:
        if "doesn't have any grad op" in str(error):
            return 0.0, 0.0
        said = str(error).strip().splitlines()[-1].partition(" (at ")[0].strip()
        return said.removeprefix("[Hint: ").removesuffix("]")


def forms() -> list[Form]:
    """All forms of the TOML."""
    return [Form(**line) for line in tomllib.loads(CALLS.read_text(encoding="utf-8"))["form"]]


def wrong(names: Sequence[str] = ()) -> dict[str, list[dict]]:
    """Operator -> its forms that are wrong: each with state, part, how far off, what to write.

    What is to be written instead is measured too: a state that is wrong of both has none.
    """
    found: dict[str, list[dict]] = {}
    for form in (form for form in forms() if not names or form.operator in names):
        off = list(form.measure())
        still = {state for state, *_ in form.measure(form.instead)} if off and form.instead else ()
        for state, part, size in off:
            line = {"form": form.form, "state": state, "part": part, "off": size}
            line["instead"] = "" if state in still else form.instead
            found.setdefault(form.operator, []).append(line)
    return found


def page(lines: Mapping[str, Sequence[Mapping]]) -> str:
    """The table of docs/faults.md: a row for states that are wrong alike."""
    alike: dict[tuple, list[str]] = {}
    for name, found in lines.items():
        for line in found:
            off, instead = line["off"], f"`{line['instead']}`" if line["instead"] else ""
            said = f"stops: {off}"
            if isinstance(off, float):
                said = f"its {line['part']}, by {off:g} of the largest value"
            row = f"`{name}`", line["form"], said, instead
            alike.setdefault(row, []).append(line["state"] or "any")
    rows = ["| operator | form | state | wrong | instead |", "|---|---|---|---|---|"]
    for (name, form, said, instead), states in alike.items():
        rows.append(f"| {name} | {form} | {', '.join(states)} | {said} | {instead} |")
    return "\n".join(rows) + "\n"


def measure(names: Sequence[str] = ()) -> dict[str, dict]:
    """Name -> line of the table, of all operators or of these."""
    return {one.name: one.line() for one in OPERATORS if not names or one.name in names}


def document(lines: Mapping[str, Mapping], forms_off: Mapping[str, list]) -> dict[str, object]:
    """The table's JSON: who was measured, where, when, and what was found."""
    torch, paddle = _frameworks()
    return {
        "versions": {"torch": torch.__version__.split("+")[0], "paddle": paddle.__version__},
        "device": "cpu",
        "date": time.strftime("%Y-%m-%d"),
        "operators": dict(lines),
        "wrong": dict(forms_off),
    }


def main() -> None:
    """See the module's docstring."""
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    off = wrong()
    write_json(TABLE, document(measure(), off))
    text = PAGE.read_text(encoding="utf-8")
    write_text(PAGE, fill(text, {"wrong operators": page(off)}))
    print(f"written: {TABLE}, {PAGE}")


if __name__ == "__main__":
    main()
