"""The frameworks' operators that are inexact, measured on the installed versions.

    python -m tools.operators                 what they are, against the table; writes nothing
    python -m tools.operators --write         measure all, and write common/verdict/operators.json
    python -m tools.operators --only selu     some of them

Each operator runs in float64 on the same numbers as torch's, or as a formula in NumPy, and its
result and its gradient are compared.  What is measured is the largest difference as a part of the
largest value.  Exit status 1 where an installed operator is not as the table says: another version
has another constant, and the table is to be measured again.
"""

import sys
from pathlib import Path

if __name__ == "__main__":  # by its path too, and under a Python that will not do
    sys.path[0] = sys.path[0] if __package__ else str(Path(__file__).resolve().parent.parent)
    from twincheck.common.system.start import begin

    begin("numpy", "rich")

import argparse
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from twincheck.common.check.guard import guarded
from twincheck.common.system.errors import UserError
from twincheck.common.system.files import write_text
from twincheck.common.system.json_file import load_json
from twincheck.common.verdict.operators import TABLE, Operator, read_table

SAME = 1e-2  # of a size: how far two measurements of one operator may part
NOTHING = 1e-14  # below it a result is exact

_RNG = np.random.default_rng(0)
MATRIX = _RNG.normal(size=(6, 10))
OTHER = _RNG.normal(size=(6, 10))
POSITIVE = np.abs(MATRIX) + 0.1
IMAGES = _RNG.normal(size=(2, 3, 8, 8))
WIDE = 40.0 * MATRIX
LABELS = _RNG.integers(0, 10, 6)
EPSILON = 1e-3  # of the normalisations


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
        entry = asdict(
            Operator(
                self.name,
                self.framework,
                self.keeps,
                self.classes,
                value,
                gradient,
                self.excuses,
            )
        )
        del entry["name"]
        return entry


def _frameworks():
    import paddle
    import torch

    paddle.set_device("cpu")
    return torch, paddle


def off_by(own: object, exact: object) -> float:
    """The largest difference, as a part of the exact result's largest value."""
    own, exact = (np.asarray(values, np.float64) for values in (own, exact))
    return float(np.abs(own - exact).max() / np.abs(exact).max())


def sides(values: np.ndarray, by_torch: Callable, by_paddle: Callable) -> tuple[float, float]:
    """Paddle's result and gradient against torch's; the functions are given a tensor."""
    torch, paddle = _frameworks()
    x = torch.tensor(values, requires_grad=True)
    y = paddle.to_tensor(values, dtype="float64", stop_gradient=False)
    a, b = by_torch(x), by_paddle(y)
    weights = np.random.default_rng(1).normal(size=tuple(a.shape))
    (a * torch.tensor(weights)).sum().backward()
    (b * paddle.to_tensor(weights)).sum().backward()
    value = off_by(b.detach().numpy(), a.detach().numpy())
    return value, off_by(y.grad.numpy(), x.grad.numpy()) if y.grad is not None else 0.0


def _functional(name, *arguments, values=MATRIX, of_torch: Sequence = (), torch_name=""):
    """An operator that has one name and the same arguments in both nn.functional."""

    def measure():
        torch, paddle = _frameworks()
        theirs = getattr(torch.nn.functional, torch_name or name)
        ours = getattr(paddle.nn.functional, name)
        given = of_torch or arguments
        return sides(values, lambda x: theirs(x, *given), lambda x: ours(x, *arguments))

    return measure


def _layer_norm():
    torch, paddle = _frameworks()
    return sides(
        MATRIX,
        lambda x: torch.nn.functional.layer_norm(x, (10,), eps=EPSILON),
        lambda x: paddle.nn.functional.layer_norm(x, [10], epsilon=EPSILON),
    )


def _instance_norm():
    torch, paddle = _frameworks()
    return sides(
        IMAGES,
        lambda x: torch.nn.functional.instance_norm(x, eps=EPSILON),
        lambda x: paddle.nn.functional.instance_norm(x, eps=EPSILON),
    )


def _batch_norm():
    """The result, and the running mean after one update, for which the momentum counts."""
    torch, paddle = _frameworks()
    ones, zeros = np.ones(3), np.zeros(3)
    kept = []

    def by_torch(x):
        mean, variance, one, zero = (torch.tensor(v) for v in (zeros, ones, ones, zeros))
        y = torch.nn.functional.batch_norm(x, mean, variance, one, zero, True, 0.1, EPSILON)
        kept.append(mean.numpy())
        return y

    def by_paddle(x):
        mean, variance, one, zero = (paddle.to_tensor(v) for v in (zeros, ones, ones, zeros))
        y = paddle.nn.functional.batch_norm(x, mean, variance, one, zero, True, 0.9, EPSILON)
        kept.append(mean.numpy())
        return y

    value, gradient = sides(IMAGES, by_torch, by_paddle)
    return max(value, off_by(kept[1], kept[0])), gradient


def _group_norm():
    torch, paddle = _frameworks()
    return sides(
        IMAGES,
        lambda x: torch.nn.functional.group_norm(x, 1, eps=EPSILON),
        lambda x: paddle.nn.functional.group_norm(x, 1, EPSILON),
    )


def _pow():
    return sides(POSITIVE, lambda x: x**0.3, lambda x: x**0.3)


def _p_norm():
    torch, paddle = _frameworks()
    return sides(
        MATRIX,
        lambda x: torch.linalg.vector_norm(x, 3.3, -1),
        lambda x: paddle.linalg.norm(x, 3.3, axis=-1),
    )


def _label_smooth():
    _, paddle = _frameworks()
    return sides(
        np.eye(10)[LABELS],
        lambda x: 0.9 * x + 0.01,
        lambda x: paddle.nn.functional.label_smooth(x, epsilon=0.1),
    )


def _stanh():
    torch, paddle = _frameworks()
    return sides(MATRIX, lambda x: 1.7159 * torch.tanh(0.67 * x), paddle.stanh)


def _addmm():
    torch, paddle = _frameworks()
    eye, other = np.eye(6), OTHER.T.copy()
    return sides(
        MATRIX,
        lambda x: torch.addmm(torch.tensor(eye), x, torch.tensor(other), beta=0.3, alpha=0.7),
        lambda x: paddle.addmm(paddle.to_tensor(eye), x, paddle.to_tensor(other), 0.3, 0.7),
    )


def _cross_entropy():
    torch, paddle = _frameworks()
    return sides(
        WIDE,
        lambda x: torch.nn.functional.cross_entropy(x, torch.tensor(LABELS)),
        lambda x: paddle.nn.functional.cross_entropy(x, paddle.to_tensor(LABELS)),
    )


def _softmax():
    """What is left of exp(-100): Paddle leaves exp(-64)."""
    torch, paddle = _frameworks()
    values = np.array([[0.0, -100.0]])
    return sides(
        values,
        lambda x: torch.nn.functional.softmax(x, -1)[:, 1:],
        lambda x: paddle.nn.functional.softmax(x, -1)[:, 1:],
    )


def _smooth_l1_loss():
    torch, paddle = _frameworks()
    return sides(
        MATRIX,
        lambda x: torch.nn.functional.huber_loss(x, torch.tensor(OTHER), delta=0.3),
        lambda x: paddle.nn.functional.smooth_l1_loss(x, paddle.to_tensor(OTHER), delta=0.3),
    )


def _interpolate():
    torch, paddle = _frameworks()
    options = {"mode": "bilinear", "align_corners": False}
    return sides(
        IMAGES,
        lambda x: torch.nn.functional.interpolate(x, size=(13, 13), **options),
        lambda x: paddle.nn.functional.interpolate(x, size=[13, 13], **options),
    )


def _avg_pool():
    torch, paddle = _frameworks()
    return sides(
        IMAGES,
        lambda x: torch.nn.functional.avg_pool2d(x, 3, 2),
        lambda x: paddle.nn.functional.avg_pool2d(x, 3, 2),
    )


def _complex(name):
    """An operator on complex numbers, whose parts are given."""
    torch, paddle = _frameworks()
    theirs, ours = getattr(torch, name), getattr(paddle, name)
    return sides(
        MATRIX.reshape(6, 5, 2),
        lambda x: torch.view_as_real(theirs(torch.view_as_complex(x))),
        lambda x: paddle.as_real(ours(paddle.as_complex(x))),
    )


def _digamma():
    """Torch's gradient against the sum of 1 / (x + k) ** 2, and what Euler and Maclaurin leave."""
    torch, _ = _frameworks()
    x = torch.tensor(POSITIVE, requires_grad=True)
    torch.digamma(x).sum().backward()
    slope, far = sum(1.0 / (POSITIVE + k) ** 2 for k in range(40)), POSITIVE + 40
    slope += 1 / far + 1 / (2 * far**2) + 1 / (6 * far**3) - 1 / (30 * far**5)
    return 0.0, off_by(x.grad.numpy(), slope)


def _against(framework: str, name: str, exact: Callable, *arguments) -> Callable:
    """A framework's own value and gradient; `exact` gives both in NumPy."""

    def measure():
        torch, paddle = _frameworks()
        if framework == "torch":
            x = torch.tensor(MATRIX, requires_grad=True)
            y = getattr(torch.nn.functional, name)(x, *arguments)
        else:
            x = paddle.to_tensor(MATRIX, stop_gradient=False)
            y = getattr(paddle.nn.functional, name)(x, *arguments)
        y.sum().backward()
        value, slope = exact(MATRIX)
        return off_by(y.detach().numpy(), value), off_by(x.grad.numpy(), slope)

    return measure


def _hardsigmoid(x):
    return np.clip(x / 6.0 + 0.5, 0.0, 1.0), (np.abs(x) < 3.0) / 6.0


def _celu(x, alpha=0.7):
    below = np.minimum(x, 0.0) / alpha
    return np.where(x > 0, x, alpha * np.expm1(below)), np.where(x > 0, 1.0, np.exp(below))


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


_EPSILON = "keeps its epsilon in float32"
_CLIP = "takes no logit for more than 64 below the largest"
OPERATORS = (
    Measured("layer_norm", _EPSILON, _layer_norm, ("LayerNorm",)),
    Measured(
        "batch_norm",
        "keeps its epsilon and its momentum in float32",
        _batch_norm,
        ("BatchNorm", "BatchNorm1D", "BatchNorm2D", "BatchNorm3D"),
    ),
    Measured(
        "instance_norm",
        _EPSILON,
        _instance_norm,
        ("InstanceNorm1D", "InstanceNorm2D", "InstanceNorm3D"),
    ),
    Measured("pow", "keeps its exponent in float32", _pow),
    Measured(
        "p_norm", "keeps its order in float32, and adds 1e-12 to its gradient's norm", _p_norm
    ),
    Measured("label_smooth", "keeps its epsilon in float32", _label_smooth),
    Measured("selu", "keeps its scale and alpha in float32", _functional("selu"), ("SELU",)),
    Measured("elu", "keeps its alpha in float32", _functional("elu", 0.7), ("ELU",)),
    Measured(
        "celu", "keeps its alpha in float32", _against("paddle", "celu", _celu, 0.7), ("CELU",)
    ),
    Measured(
        "rrelu",
        "keeps its limits in float32",
        _functional("rrelu", 0.1, 0.7, False),
        ("RReLU",),
    ),
    Measured(
        "hardsigmoid",
        "has 0.1666667 for a slope of 1/6",
        _against("paddle", "hardsigmoid", _hardsigmoid),
        ("Hardsigmoid",),
    ),
    Measured(
        "hardtanh",
        "keeps its limits in float32",
        _functional("hardtanh", -0.3, 0.7),
        ("Hardtanh",),
    ),
    Measured(
        "softshrink",
        "keeps its threshold in float32",
        _functional("softshrink", 0.3),
        ("Softshrink",),
    ),
    Measured(
        "thresholded_relu",
        "keeps its threshold and its value in float32",
        _functional("thresholded_relu", 0.3, 0.1, torch_name="threshold"),
        ("ThresholdedReLU",),
    ),
    Measured("exp", "has float32's accuracy for complex numbers", lambda: _complex("exp")),
    Measured("sigmoid", "has float32's accuracy for complex numbers", lambda: _complex("sigmoid")),
    Measured("stanh", "keeps its scales in float32", _stanh),
    Measured("addmm", "keeps its alpha and beta in float32", _addmm),
    Measured("smooth_l1_loss", "keeps its delta in float32", _smooth_l1_loss, ("SmoothL1Loss",)),
    Measured(
        "interpolate",
        "computes its weights in float32",
        _interpolate,
        ("Upsample", "UpsamplingBilinear2D"),
    ),
    Measured(
        "avg_pool",
        "keeps a factor of its gradient in float32",
        _avg_pool,
        (
            *(f"{kind}AvgPool{n}D" for kind in ("", "Adaptive") for n in (1, 2, 3)),
            "LocalResponseNorm",
        ),
    ),
    Measured("log_softmax", _CLIP, _functional("log_softmax", -1, values=WIDE), ("LogSoftmax",)),
    Measured("cross_entropy", _CLIP, _cross_entropy, ("CrossEntropyLoss",)),
    Measured("softmax", _CLIP, _softmax, ("Softmax",)),
    # Below are operators whose difference excuses no row by itself.
    Measured(
        "group_norm",
        "has another gradient on a CPU where it has no weight, so that training goes elsewhere: "
        "give it a weight of ones",
        _group_norm,
        excuses=False,
    ),
    Measured(
        "hardsigmoid of torch",
        "keeps the 1/6 of its gradient in float32",
        _against("torch", "hardsigmoid", _hardsigmoid),
        framework="torch",
        excuses=False,
    ),
    Measured(
        "celu of torch",
        "keeps the alpha of its gradient in float32",
        _against("torch", "celu", _celu, 0.7),
        framework="torch",
        excuses=False,
    ),
    Measured(
        "digamma of torch",
        "has an inexact gradient",
        _digamma,
        framework="torch",
        excuses=False,
    ),
    Measured(
        "lp_pool",
        "takes its powers in float32, and is computed exactly in every float64 run",
        _functional("lp_pool2d", 2.0, 3, values=IMAGES),
        excuses=False,
    ),
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


def measure(names: Sequence[str] = ()) -> dict[str, dict]:
    """Name -> line of the table, of all operators or of these; UserError for one not known."""
    known = {operator.name: operator for operator in OPERATORS}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise UserError(f"{unknown[0]} is not measured; these are: {', '.join(known)}")
    return {name: known[name].line() for name in names or known}


def differences(lines: Mapping[str, Mapping], table: Mapping[str, Mapping]) -> list[str]:
    """Where measured lines and the table's are not the same, in sentences."""
    found = []
    for name, line in lines.items():
        entry = table.get(name)
        if entry is None:
            found.append(f"{name}: not in the table")
            continue
        for field, value in line.items():
            known = entry.get(field)
            if isinstance(value, tuple):
                value = list(value)
            if isinstance(value, float) and isinstance(known, float):
                same = abs(value - known) <= SAME * max(value, known)
            else:
                same = value == known
            if not same:
                found.append(f"{name}: {field} is {value} here, {known} in the table")
    return found


def document(lines: Mapping[str, Mapping]) -> dict[str, object]:
    """The table's JSON: who was measured, where, when, and what was found."""
    torch, paddle = _frameworks()
    return {
        "versions": {"torch": torch.__version__.split("+")[0], "paddle": paddle.__version__},
        "device": "cpu",
        "date": time.strftime("%Y-%m-%d"),
        "operators": dict(lines),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """See the module's docstring; returns the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", action="append", metavar="OPERATOR", help="measure this one")
    parser.add_argument("--write", action="store_true", help="write the table")
    parser.add_argument("--debug", action="store_true")
    options = parser.parse_args(arguments)
    return guarded(options.debug, lambda: _main(options))


def _main(options: argparse.Namespace) -> int:
    if options.write and options.only:
        raise UserError("--write measures all operators: leave out --only")
    lines = measure(options.only or ())
    for name, line in lines.items():
        print(f"{name:22s} value {line['value']:.1e}  gradient {line['gradient']:.1e}")
    if options.write:
        content = document(lines)
        read_table(json.loads(json.dumps(content)))
        write_text(TABLE, json.dumps(content, indent=1) + "\n")
        print(f"written: {TABLE}")
        return 0
    table = load_json(TABLE)
    found = differences(lines, table["operators"])
    for sentence in found:
        print(sentence)
    versions = ", ".join(f"{name} {version}" for name, version in table["versions"].items())
    print(f"{len(found)} differences from the table, which was measured with {versions}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
