"""Step 4, paddle side: every gradient, the witnesses, then ten steps of each optimizer set-up.

python -m step4_backward.paddle.backward REQUEST.json
"""

import sys

import numpy as np
import paddle

from common.sides import paddle_side as side
from common.sides.session import Session, using
from common.sides.twin import main
from step4_backward.setups import SETUPS, STEPS

WITNESS_LR = 0.1
# Of the finite difference, along a direction of norm 1: the usual one, then those for a loss that
# bends more, or that rounding blurs more.
WITNESS_STEPS = (1e-5, 1e-3, 1e-4, 1e-6, 1e-7, 1e-8)
# Of what tells rounding from slope; the longer ones see that of a model which casts to float32.
NOISE_STEPS = (1e-11, 3e-11, 1e-10, 1e-9, 1e-8, 1e-7)


def backward(run):
    """Log one case's gradients; the model's first case also takes the optimizer steps."""
    gradients(run)
    if run.dtype == "float64" and run.session.reference is None:
        with run.unclipped():
            run.notes["witness"] = {key: finite(value) for key, value in witnesses(run).items()}
    if run.case.name == run.first_case:
        for setup in SETUPS:
            run.progress(f"{run.case.name} {setup}")
            optimizer_steps(run, setup)


def gradients(run):
    """The gradient at every probe, in the order of the backward pass, and of every parameter."""
    model = run.build()
    tensors = {key: side.watch(value) for key, value in run.tensors().items()}
    run.session.gradients, run.session.half = True, False
    with side.probing(model):
        outputs = run.call(model, tensors)
        outputs = run.log_nested("", outputs)
        loss = run.loss(outputs, tensors)
        run.log("loss", loss)
        loss.backward()
    run.session.gradients = False
    gradients = ((name, side.gradient(value)) for name, value in reversed(run.parameters(model)))
    shapes = {}
    for name, values in run.as_reference(gradients):
        run.log(f"grad/{name}", values)
        shapes[name] = values.shape
    for key, value in tensors.items():
        if side.is_float(value):
            run.log(f"grad/inputs/{key}", side.gradient(value))
    if isinstance(outputs, dict) and "logits" in outputs:
        classes = outputs["logits"].shape[-1]
        ends = [name for name, shape in shapes.items() if shape == (classes,)]
        run.notes["last_bias"] = ends[0] if ends and ends[0].endswith("bias") else None


def witnesses(run):
    """What checks the gradient by two other ways: one SGD step, and a finite difference."""
    session = Session(run.session.tape.seed, reference=run.session.choices)
    session.rename = run.session.rename
    model = run.build()
    tensors = run.tensors()

    def loss_at(shift):
        for name, value in run.parameters(model):
            side.assign(value, start[name] + shift * direction[name])
        session.begin(prefix=run.prefix)
        with paddle.no_grad(), using(session):
            return float(run.loss(run.call(model, tensors), tensors))

    start = {name: side.array(value).copy() for name, value in run.parameters(model)}
    shapes = {name: values.shape for name, values in run.as_reference(start.items())}
    draws = {n: run.session.tape.normal(f"direction/{n}", 0, s) for n, s in shapes.items()}
    for name, row in run.padding().items():
        draws[name][row] = 0.0  # the loss may depend on it, but it gets no gradient
    norm = norm_of(draws.values())
    direction = {name: run.from_reference(name, draws.get) / norm for name in start}
    session.begin(prefix=run.prefix)
    with using(session):
        run.loss(run.call(model, tensors), tensors).backward()
    slope = {name: side.gradient(value) for name, value in run.parameters(model)}
    side.sgd_step(model, WITNESS_LR)
    gaps = (
        (name, (start[name] - side.array(value)) / WITNESS_LR - slope[name])
        for name, value in run.parameters(model)
    )
    off = {name: float(np.abs(gap).max()) for name, gap in run.as_reference(gaps)}
    seen = {
        "sgd_worst": max(off, key=off.get),
        "sgd_off": max(off.values()),
        "largest_gradient": max(float(np.abs(value).max()) for value in slope.values()),
        "gradient_norm": norm_of(slope.values()),
        "largest_weight": max(float(np.abs(value).max()) for value in start.values()),
        "directional": float(sum((slope[n] * direction[n]).sum() for n in slope)),
    }
    if run.session.half:
        return seen | {"half": True}  # steps of half precision hide any slope
    best = np.inf
    for shift in WITNESS_STEPS:
        rise = (loss_at(shift) - loss_at(-shift)) / (2.0 * shift)
        off = abs(rise - seen["directional"])
        if shift != WITNESS_STEPS[0]:
            off -= 2.0 * seen["loss_noise"] / shift
        if off < best:
            best = off
            seen |= {"finite_difference": rise, "finite_step": shift}
        if off <= 1e-7 * abs(seen["directional"]):
            break  # as near as needed
        if shift == WITNESS_STEPS[0]:
            seen["loss_noise"] = noise_of(loss_at)
    return seen


def noise_of(loss_at):
    """Rounding of the loss: shifts too small to bend it leave nothing else."""
    middle = loss_at(0.0)
    bends = [loss_at(h) + loss_at(-h) - 2.0 * middle for h in NOISE_STEPS]
    return max(2.0**-52 * abs(middle), *map(abs, bends))


def finite(value):
    """The value, or None for a float that JSON has no word for."""
    return None if isinstance(value, float) and not np.isfinite(value) else value


def norm_of(arrays):
    """The norm of all values together."""
    return float(np.sqrt(sum((values**2).sum() for values in arrays)))


def optimizer_steps(run, setup):
    """Losses, learning rates, gradients, weights and moments of ten steps of one set-up."""
    model = run.build()
    tensors = run.tensors()
    parameters = run.parameters(model)
    optimizer = side.Optimizer(parameters, **SETUPS[setup], decayed=run.decayed(model))
    run.session.probing = False
    for step in range(STEPS):
        path = f"{setup}/{step:03d}"
        run.session.begin(step, prefix=f"{run.prefix}{path}/")
        loss = run.loss(run.call(model, tensors), tensors)
        loss.backward()
        run.log(f"{path}/loss", loss)
        run.log(f"{path}/lr", optimizer.lr())
        gradients = ((name, side.gradient(value)) for name, value in parameters)
        for name, values in run.as_reference(gradients):
            run.log(f"{path}/grad/{name}", values)
        for name, value in parameters:
            reference = run.reference_parameter(f"{path}/grad", name)
            # No gradient at all is not a gradient of zeros: weight decay tells them apart.
            if reference is not None and (value.grad is not None or reference.any()):
                side.assign_gradient(value, reference)
        optimizer.step()
        weights = ((name, side.array(value)) for name, value in parameters)
        for name, values in run.as_reference(weights):
            run.log(f"{path}/weight/{name}", values)
        for name, value in parameters:
            reference = run.reference_parameter(f"{path}/weight", name)
            if reference is not None:
                side.assign(value, reference)
        for kind in ("velocity", "moment1", "moment2"):
            for name, values in run.as_reference(optimizer.moments(kind)):
                run.log(f"{path}/{kind}/{name}", values)
        side.clear_gradients(model)
    run.session.begin(prefix=run.prefix)
    run.session.probing = True


if __name__ == "__main__":
    sys.exit(main(side, "bp_align", backward))
