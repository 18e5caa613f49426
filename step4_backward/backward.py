"""Step 4, both sides: every gradient, the witnesses, then ten steps of each optimizer set-up."""

import gc
from functools import partial

import numpy as np

from twincheck.common.pair.case_hooks import data_preset
from twincheck.common.pair.data import LABELS
from twincheck.common.pair.task import Again, Noise, TeacherForced, Traced, Whole
from twincheck.common.sides.job import Unsuited
from twincheck.common.sides.lines_run import heard
from twincheck.common.sides.optimizer import Optimizer
from twincheck.common.sides.probes import probing
from twincheck.common.sides.session import Session, using
from twincheck.common.system.errors import UserError
from twincheck.common.system.half import HALF
from twincheck.common.system.reasons import Kind
from twincheck.common.weights.states import load_owners
from twincheck.step4_backward.given import SCALES, normalised
from twincheck.step4_backward.rates import FACTORS, Watch, moved_in_float32
from twincheck.step4_backward.setups import GIVEN, IN_TRAIN_MODE, SETUPS, STEPS, setups_of

WITNESS_LR = 0.1
# Of the finite difference, along a direction of norm 1: the usual one, then those for a loss that
# bends more, or that rounding blurs more.
WITNESS_STEPS = (1e-5, 1e-3, 1e-4, 1e-6, 1e-7, 1e-8)
# Of what tells rounding from slope; the longer ones see that of a model which casts to float32.
NOISE_STEPS = (1e-11, 3e-11, 1e-10, 1e-9, 1e-8, 1e-7)


def backward(run):
    """Log one case's gradients and its witnesses; the model's first case also takes the steps."""
    reached = gradients(run)
    if isinstance(run.request.task, Whole | Traced):
        return
    closer = isinstance(run.request.task, Noise | Again)
    usual = run.session.reference is None and not closer
    if run.dtype == "float64" and usual and run.case.like is None:
        with run.unclipped():
            seen = witnesses(run)
        # JSON has no word for a float that is not finite.
        endless = {k for k, v in seen.items() if isinstance(v, float) and not np.isfinite(v)}
        run.notes["witness"] = {k: None if k in endless else v for k, v in seen.items()}
    if takes_steps(run):
        chosen = run.suited.given.get(run.case.name or "main", {}).get("setups", ())
        setups = [IN_TRAIN_MODE] if run.case.like is not None else taken(run)
        if closer:
            setups = [setup for setup in setups if setup in run.request.task.setups]
        given = [setup for setup in setups if setup in chosen]
        if given:
            given_steps(run, given, reached)
        for setup in (setup for setup in setups if setup not in given):
            run.progress(f"{run.case.name or 'main'} {setup}")
            optimizer_steps(run, setup)
        if not run.is_suited:
            raise Unsuited


def gradients(run):
    """The gradient at every probe, in the order of the backward pass, and of every parameter.

    Returns the names of the parameters that have one: the loss may not reach all.  Raises UserError
    where no gradient can come back from the loss.
    """
    model = run.build()
    tensors = {key: run.side.watch(value) for key, value in run.tensors().items()}
    own = {key: value.clone() for key, value in tensors.items()}  # it may write into them
    arrived = watch_inputs(run, run.of_forward(model, own))
    run.session.gradients, run.session.half = True, False
    with probing(run.side, model):
        outputs = run.call(model, own)
        outputs = run.log_nested("", outputs)
        loss = run.loss(outputs, tensors)
        run.log("loss", loss)
        if not (run.side.wants_gradient(loss) and run.parameters(model)):
            raise UserError(Kind.GRADIENT_COMES_NOT_BACK())
        run.session.in_backward = True
        with heard():
            loss.backward()
    run.session.gradients = run.session.in_backward = False
    log_gradients(run, model, outputs, arrived)
    return {name for name, value in run.parameters(model) if value.grad is not None}


def takes_steps(run):
    """True for the case that the optimizers' steps are taken of.

    Not of weights in half precision, in whose rounding an update is lost; and not where each
    would have to be fed with the reference's weights, and its log has sums of them.
    """
    if run.case.name != run.job.first_case and run.case.like is None:
        return False
    teacher_forced = run.request.teacher_forced
    asked = teacher_forced or TeacherForced()
    if asked.stepping and (run.case.name or "main") not in asked.stepping:
        return False
    if asked.feed or run.request.stored_dtype in HALF:
        return False
    fed = teacher_forced and not asked.free
    return not (fed and run.is_large and run.request.keep != "all")


def parts(pair, case, request):
    """Return how many parts of a run the steps are, as `Run.progress` tells them."""
    return len(setups_of(pair, case.config, data_preset(pair, request.preset), request.thorough))


def taken(run):
    """The set-ups whose steps are taken of the first case; on Paddle's side the reference's."""
    case, suited = run.case.name or "main", run.suited
    known = {*suited.rates.get(case, ()), *suited.given.get(case, {}).get("setups", ())}
    if known and not run.job.is_reference:
        return [setup for setup in SETUPS if setup in known]
    return setups_of(run.pair, run.case.config, run.data_preset, run.request.thorough)


def log_gradients(run, model, outputs, arrived):
    """Log the gradient of every parameter, the model's last first, and of every input.

    arrived   of `watch_inputs`
    The sidecar says which is the bias of the model's logits, if its gradient comes first of those
    with as many values as there are classes.
    """
    pairs = reversed(run.parameters(model))
    gradients = ((name, run.side.gradient(value)) for name, value in pairs)
    shapes = {}
    for name, values in run.as_reference(gradients):
        run.log(f"grad/{name}", values)
        shapes[name] = values.shape
    for key, values in arrived.items():
        run.log(f"grad/inputs/{key}", values)
    if isinstance(outputs, dict) and "logits" in outputs:
        classes = outputs["logits"].shape[-1]
        ends = [name for name, shape in shapes.items() if shape == (classes,)]
        run.notes["last_bias"] = ends[0] if ends and ends[0].endswith("bias") else None
    hand_over(run, model)


def hand_over(run, model):
    """Leave a large model's gradients for the set-ups that do not run it, on either side.

    Those of the float64 run; of the float32 run where there is no other.
    """
    case = run.case.name
    if not (run.chooses and takes_steps(run) and run.is_large and run.case.like is None):
        return
    given = [setup for setup in taken(run) if setup in GIVEN]
    if (case or "main") in run.suited.given or not given:
        return
    reached = [(name, value) for name, value in run.parameters(model) if value.grad is not None]
    run.stored_gradients.parent.mkdir(exist_ok=True)
    found = {name: run.side.gradient(value) for name, value in reached}
    run.job.states.save(run.stored_gradients, normalised(found))
    chosen = {"values": run.job.values(run.case), "setups": given}
    run.suited.choose("given_gradients", case, chosen)


def watch_inputs(run, inputs):
    """Name -> the gradient that comes back to a model's input, once there is one; zeros till then.

    A label that is a float gets one from the loss, in some losses of one framework alone: it says
    nothing of the model, and is left out.
    """
    arrived = {}

    def keep(key, gradient):
        if run.session.in_backward:
            arrived[key] = run.side.array(gradient)

    for key, value in inputs.items():
        if run.side.is_float(value) and key != LABELS:
            arrived[key] = np.zeros_like(run.side.array(value))
            value.register_hook(partial(keep, key))
    return arrived


def witnesses(run):
    """Check the gradient by two other ways: one SGD step, and a finite difference."""
    session = Session(run.session.tape.seed, reference=run.session.choices)
    session.rename = run.session.rename
    model = run.build()
    parameters, tensors = run.parameters(model), run.tensors()

    def loss():
        session.begin(prefix=run.prefix)
        return run.loss(run.call(model, tensors), tensors)

    def loss_at(shift):
        for name, value in parameters:
            run.side.shift(value, start[name], direction[name], shift)
        with run.no_gradients(), using(session):
            return float(loss())

    with using(session):
        loss().backward()
    start = {name: v.detach().clone() for name, v in parameters}  # a forward may write weights
    direction = direction_of_norm_1(run, start)
    slope = {name: run.side.gradient(value) for name, value in parameters}
    run.side.sgd([value for _, value in parameters], WITNESS_LR).step()
    gaps = (
        (name, (run.side.array(start[name]) - run.side.array(value)) / WITNESS_LR - slope[name])
        for name, value in parameters
    )
    off = {name: float(np.abs(gap).max()) for name, gap in run.as_reference(gaps)}
    seen = {
        "sgd_worst": max(off, key=off.get),
        "sgd_off": max(off.values()),
        "largest_gradient": max(float(np.abs(value).max()) for value in slope.values()),
        "gradient_norm": norm_of(slope.values()),
        "largest_weight": max(float(np.abs(run.side.array(v)).max()) for v in start.values()),
    }
    rises = ((slope[name] * direction[name]).sum() for name, _ in parameters)
    seen["directional"] = float(sum(rises))
    direction = {name: run.side.like(direction[name], value) for name, value in parameters}
    del slope
    run.side.clear_gradients(model)
    if run.session.half:
        return seen | {"half": True}  # steps of half precision hide any slope
    return seen | finite_difference(loss_at, seen["directional"], seen["gradient_norm"])


def direction_of_norm_1(run, start):
    """Name -> array of a random direction for this side's parameters, the same on both sides."""
    arrays = ((name, run.side.array(value)) for name, value in start.items())
    shapes = {name: values.shape for name, values in run.as_reference(arrays)}
    draws = {n: run.session.tape.normal(f"direction/{n}", 0, s) for n, s in shapes.items()}
    for name, row in run.padding().items():
        draws[name][row] = 0.0  # the loss may depend on it, but it gets no gradient
    norm = norm_of(draws.values())
    draws = {name: values / norm for name, values in draws.items()}
    return {name: run.layout.from_torch(name, draws.get) for name in start}


def finite_difference(loss_at, slope, norm):
    """By how much the loss rises along a direction, at the step that brings it nearest to a slope.

    norm  the gradient's
    And the rounding of the loss, where no step did.
    """
    rises, near = {}, 1e-7 * abs(slope) + 1e-10 * norm  # a tenth of what check_step4.py allows
    for shift in WITNESS_STEPS:
        rises[shift] = (loss_at(shift) - loss_at(-shift)) / (2.0 * shift)
        if abs(rises[shift] - slope) <= near:
            return {"finite_difference": rises[shift], "finite_step": shift}
    # Rounding of the loss: shifts too small to bend it leave nothing else.
    middle = loss_at(0.0)
    bends = [loss_at(h) + loss_at(-h) - 2.0 * middle for h in NOISE_STEPS]
    noise = max(2.0**-52 * abs(middle), *map(abs, bends))
    off = {shift: abs(rise - slope) - 2.0 * noise / shift for shift, rise in rises.items()}
    best = min(off, key=lambda shift: np.nan_to_num(off[shift], nan=np.inf))
    return {"finite_difference": rises[best], "finite_step": best, "loss_noise": noise}


def norm_of(arrays):
    """The norm of all values together."""
    return float(np.sqrt(sum((values**2).sum() for values in arrays)))


def optimizer_steps(run, setup):
    """Ten steps of one set-up; torch's first run lowers its learning rate where the model needs it.

    What was logged of a rate that does not suit the model is taken back out of the log.
    """
    case, first = run.case.name, run.job.first_case or "main"
    factor = run.suited.rates.get(case or "main", {}).get(setup, {}).get("factor")
    if factor is None and run.chooses:
        because, most = "", FACTORS[0]
        suits_eval = run.suited.rates.get(first, {}).get(setup)
        if run.case.like is not None and suits_eval and suits_eval["factor"] < most:
            # Where float32 shows that a rate does not suit, both precisions run again.
            because, most = Kind.STEPS_OF_CASE_TOO_LONG(case=first), suits_eval["factor"]
        for factor in FACTORS:
            if factor > most and factor != FACTORS[-1]:
                continue
            watch = Watch()
            with run.writer.trying() as take_back:
                steps(run, setup, factor, watch, to_the_end=factor == FACTORS[-1])
                for again in (1, 2):  # one start may miss a non-smooth point: 1 of 16 did
                    if watch.overshoots:
                        watch.compare(losses_nearby(run, setup, factor, again))
                because, most = because or watch.problem, factor * watch.part
                if not watch.problem or factor == FACTORS[-1]:
                    break
                take_back()
        run.suited.choose_rate(case, setup, factor, because)
        run.notes["rates"] = run.suited.rates[case or "main"]
        run.job.losses[case, setup] = watch.losses
        return
    losses = steps(run, setup, factor or 1.0)
    if run.chooses and run.dtype == "float64":
        run.job.losses[case, setup] = losses
    elif run.chooses and run.session.forced is not None and (case, setup) in run.job.losses:
        because = moved_in_float32(losses, run.job.losses[case, setup])
        if because and factor > FACTORS[-1]:
            # Rounding that moves one of Adam's set-ups moves all, though one run may not show it.
            rates = run.suited.rates[case or "main"]
            for one in GIVEN if setup in GIVEN else (setup,):
                if one in rates and rates[one]["factor"] > factor * FACTORS[1]:
                    run.suited.choose_rate(case, one, factor * FACTORS[1], because)
            run.is_suited = False


def losses_nearby(run, setup, factor, again):
    """The losses of the same steps from the start of a repeated run; logs nothing."""
    own, run.again = run.session, again
    run.session = Session(own.tape.seed, forced=own.choices)
    run.session.rename = own.rename
    with using(run.session):
        losses = steps(run, setup, factor)
    run.session, run.again = own, 0
    return losses


def steps(run, setup, factor, watch=None, to_the_end=True):
    """Losses, learning rates, gradients, weights and moments of ten steps of one set-up.

    watch  is shown the losses; where it has a problem no further step is taken, unless `to_the_end`
    Returns the losses.
    """
    model = run.build()
    parameters = run.parameters(model)
    settings = SETUPS[setup] | {"lr": SETUPS[setup]["lr"] * factor}
    optimizer = Optimizer(run.side, parameters, **settings, decayed=run.decayed(model))
    before = run.buffers(model)
    tensors = run.tensors()
    run.session.probing = False
    whole = not run.is_large
    losses = []
    for step in range(STEPS):
        path = f"{setup}/{step:03d}"
        run.session.begin(step, prefix=f"{run.prefix}{path}/")
        loss = run.loss(run.call(model, tensors), tensors)
        losses.append(float(loss.detach()))
        if watch is not None:
            watch.see(losses[-1])
            if watch.problem and not to_the_end:
                break
        loss.backward()
        if watch is not None and step == 0 and not whole:
            slope = norm_of(run.side.gradient(value) for _, value in parameters)
            watch.see_slope(optimizer.lr() * slope**2)
            if watch.problem and not to_the_end:
                break
        run.log(f"{path}/loss", loss)
        run.log(f"{path}/lr", optimizer.lr())
        gradients = ((name, run.side.gradient(value)) for name, value in parameters)
        run.log_as_reference(f"{path}/grad/", gradients, whole)
        for name, value in parameters:
            reference = run.reference_parameter(f"{path}/grad", name)
            # No gradient at all is not a gradient of zeros: weight decay tells them apart.
            if reference is not None and (value.grad is not None or reference.any()):
                run.side.assign_gradient(value, reference)
        take_step(run, path, parameters, optimizer)
        run.side.clear_gradients(model)
    run.log_buffers(model, before, f"{setup}/{STEPS - 1:03d}/")
    run.session.begin(prefix=run.prefix)
    run.session.probing = True
    return losses


def take_step(run, path, parameters, optimizer):
    """One step on the gradients that are there, and the weights and moments behind it."""
    whole = not run.is_large
    with run.session.unmoved("constants"):  # Paddle keeps no optimizer's numbers in float32
        optimizer.step()
    weights = ((name, run.side.view(value)) for name, value in parameters)
    run.log_as_reference(f"{path}/weight/", weights, whole)
    for name, value in parameters:
        reference = run.reference_parameter(f"{path}/weight", name)
        if reference is not None:
            run.side.assign(value, reference)
    for kind in ("velocity", "moment1", "moment2"):
        run.log_as_reference(f"{path}/{kind}/", optimizer.moments(kind), whole)


# ---- a large model -------------------------------------------------------------------------------


def given_steps(run, setups, reached):
    """Ten steps on given gradients (given.py): the model is not run, and so there is no loss.

    reached  names of the parameters that get one: those that have one by themselves
    """
    model = run.build()
    parameters = run.parameters(model)
    given = given_gradients(run, parameters, reached)
    for setup in setups:
        run.progress(f"{run.case.name or 'main'} {setup}")
        if setup != setups[0]:
            run.load(model, run.start())
        optimizer = None  # not two at a time; Paddle's refer to themselves
        gc.collect()
        optimizer = Optimizer(run.side, parameters, **SETUPS[setup], decayed=run.decayed(model))
        for step, scale in enumerate(SCALES):
            path = f"{setup}/{step:03d}"
            for name, value in parameters:
                value.grad = given[name] * scale if name in given else None
            run.log(f"{path}/lr", optimizer.lr())
            take_step(run, path, parameters, optimizer)
    run.notes["given_gradients"] = run.suited.given[run.case.name or "main"]


def given_gradients(run, parameters, reached):
    """Name -> tensor of what the reference has left, for the parameters that get a gradient."""
    try:
        stored = run.job.states.load(run.stored_gradients)
    except UserError:
        told = Kind.GRADIENTS_NOT_HANDED_OVER(path=str(run.stored_gradients))
        raise UserError(told) from None
    owners = load_owners(run.stored_weights)

    def of_reference(name):
        """Of a part that the reference's loss does not reach 0."""
        return stored[name] if name in stored else np.zeros(owners[name].shape, np.float32)

    return {
        name: run.side.like(run.layout.from_torch(name, of_reference), value)
        for name, value in parameters
        if name in reached
    }
