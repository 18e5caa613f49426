"""One half of the instruments: torch_side.py and paddle_side.py are twins, line for line.

Models use `tap`, `dropout`, `choose`, `draw_normal`, `cross_entropy` and `named`; the scripts of
the steps use the rest.  B batch, T tokens, C classes.
"""

from contextlib import contextmanager

import numpy as np
import paddle
from paddle import nn
from paddle.nn import functional as F

from common.logs.sidecar import IN_PLACE, OWN
from common.sides.hooks import hook_inputs
from common.sides.margins import margins
from common.sides.session import current
from common.system.errors import UserError
from common.system.tree import tree_map
from common.weights.layers import Owner

NAME = "paddle"
VERSION = paddle.__version__
FILE = paddle.__file__
_argmax, _argsort = paddle.argmax, paddle.argsort  # as they are before paddle_choices.py's patch


# ---- arrays and tensors -------------------------------------------------------------------------


def array(tensor):
    """A tensor's values as an array of the same dtype; bfloat16, which NumPy lacks, in float32."""
    if tensor.dtype == paddle.bfloat16:
        tensor = tensor.astype(paddle.float32)
    return tensor.detach().cpu().numpy()


def tensor(values):
    """A tensor of the values; floats take the run's dtype, other types stay."""
    values = np.asarray(values)
    if values.dtype.kind == "f":
        values = values.astype(str(paddle.get_default_dtype()).replace("paddle.", ""))
    return paddle.to_tensor(np.array(values))  # twin: how a tensor is made


def device():
    """The device that tensors are put on, as the framework writes it."""
    return str(paddle.get_device())  # twin: where the default device is kept


def set_up(dtype, device_name, seed):
    """Prepare this process for a run: `dtype` float32 or float64, `device_name` cpu or gpu."""
    if device_name == "gpu" and not paddle.device.is_compiled_with_cuda():  # twin: how to ask
        raise UserError("--device gpu: paddle finds no GPU here; use --device cpu")
    # On CPU torch needs no default device, which would slow every call.
    paddle.set_device(device_name)  # twin: how to choose
    if device_name == "gpu":
        paddle.set_flags({"FLAGS_cudnn_deterministic": True})  # twin: a flag in Paddle
    paddle.set_default_dtype(dtype)  # twin: Paddle takes the dtype's name
    paddle.seed(seed)
    paddle.disable_static()  # twin: one way to run, with gradients or not


def is_tensor(value):
    """True for this side's tensors."""
    return paddle.is_tensor(value)


def is_float(value):
    """True for tensors that gradients can flow through."""
    return paddle.is_tensor(value) and paddle.is_floating_point(value)


# ---- what models use ----------------------------------------------------------------------------


def named(model):
    """Give every submodule its qualified name, the site of its draws and probes."""
    for name, module in model.named_sublayers(include_self=True):
        module._site = name
    return model


def tap(module, name, value):
    """Log a named intermediate; use what it returns: in single-step mode the reference's value."""
    session = current()
    if not session.probing:
        return value
    return _observe(session, session.label(_join(module._site, name)), value)


def dropout(module, name, value, p, mask_shape=None):
    """Inverted dropout with a mask from the tape; the identity in eval mode or for p = 0.

    `mask_shape` broadcasts to the value's (all ones but the batch and channels: dropout2d).
    """
    if not module.training or p == 0.0:
        return value
    keep = keep_mask(_join(module._site, name), value, p, mask_shape)
    return value * keep / (1.0 - p)


def keep_mask(site, value, p, mask_shape=None):
    """A draw from the tape, 1 = keep, with the dtype of `value`; its rate p is a row of the log."""
    session = current()
    label = session.label(site)
    if session.record is not None and not session.recomputing:
        key = f"{session.prefix}{label}:p"
        session.record(key, np.array(p, str(value.dtype).replace("paddle.", "")))
        session.note_place(key)
    shape = tuple(value.shape if mask_shape is None else mask_shape)
    return tensor(session.tape.keep_mask(label, session.step, shape, p)).astype(value.dtype)


def choose(module, name, scores):
    """The index of the largest score along the last axis, int64, no gradient: a discrete choice.

    Recorded in the ledger with its margin, and forced to the reference's where the session says so.
    A recomputation's scores differ by rounding: the model must keep its choices for it.
    """
    label = _choice_label(module, name)
    return enter_choice(label, scores.detach(), _argmax(scores.detach(), axis=-1))


def choose_top_k(module, name, scores, k):
    """Indices (..., k) of the k largest scores along the last axis, largest first, int64.

    Among equal scores the lower index comes first, on both sides.  A discrete choice as in
    `choose`; a score's margin is that to its neighbours, the k-th's also that over the (k+1)-th.
    Raises ValueError for a k that is not from 1 to the number of scores.
    """
    label = _choice_label(module, name)
    count = scores.shape[-1]
    if not 1 <= k <= count:
        raise ValueError(f"{label}: k is {k}; allowed: 1 to {count}, as many as there are scores")
    order = _argsort(scores.detach(), axis=-1, descending=True, stable=True)
    return enter_choice(label, scores.detach(), order[..., :k])


def choose_order(module, name, scores):
    """Indices (..., N) that sort the scores along the last axis, largest first, int64.

    Equal scores keep their order.  A discrete choice as in `choose_top_k`, with all N of them.
    """
    return choose_top_k(module, name, scores, scores.shape[-1])


def enter_choice(label, scores, choice, kind=""):
    """Enter a choice (...) or (..., k) among scores (..., N) in the ledger; what to go on with.

    The largest scores are meant to be chosen, the larger first.  `kind` marks what was not asked
    for by name (common/sides/paddle_choices.py): one side alone may have it.
    """
    session = current()
    key = session.prefix + label
    own = array(choice)
    if session.record is not None and not session.recomputing:
        session.record(f"{key}:scores", array(scores))
        session.record(f"{key}:margin", margins(array(scores), own))
        session.record(key, own)
        for row in (key, f"{key}:margin", f"{key}:scores"):
            session.note_place(row, kind)
        session.ledger[key] = {"margin": f"{key}:margin", "scores": f"{key}:scores"}
        session.choices[key] = own
    given = session.choices if session.recomputing else session.forced
    forced = None if given is None else given.get(key)
    if forced is None or forced.shape != own.shape:
        return choice
    if not np.array_equal(own, forced):
        session.flips.append(key)
    return tensor(forced)


def _choice_label(module, name):
    """The label of a choice that the model asks for by name."""
    label = current().label(_join(module._site, name))
    if current().recomputing:
        raise RuntimeError(f"{label} is chosen again in a recomputation; keep the first choice")
    return label


def draw_normal(module, name, shape, like):
    """N(0, 1) from the tape, with the dtype of `like`."""
    session = current()
    label = session.label(_join(module._site, name))
    return tensor(session.tape.normal(label, session.step, tuple(shape))).astype(like.dtype)


def cross_entropy(
    logits, labels, weight=None, label_smoothing=0.0, ignore_index=-100, reduction="mean"
):
    """Cross-entropy with torch's meaning of every option, written out so that both sides share it.

    logits (..., C) float; labels (...) integer; weight (C) or None; reduction none, mean or sum.
    The mean is over the weights of the labels that are not ignored.
    """
    classes = logits.shape[-1]
    log_probs = F.log_softmax(logits.reshape([-1, classes]), axis=-1)  # (N, C)
    labels = labels.reshape([-1])  # (N)
    kept = labels != ignore_index
    index = paddle.where(kept, labels, paddle.zeros_like(labels))
    weight = paddle.ones([classes], dtype=logits.dtype) if weight is None else weight
    mass = weight[index] * kept.astype(logits.dtype)  # (N)
    picked = paddle.take_along_axis(log_probs, index.unsqueeze(1), axis=1).squeeze(1)
    losses = -picked * mass * (1.0 - label_smoothing)
    if label_smoothing > 0.0:
        spread = -(log_probs * weight).sum(axis=-1) * kept.astype(logits.dtype)
        losses = losses + spread * (label_smoothing / classes)
    if reduction == "none":
        return losses
    if reduction == "sum":
        return losses.sum()
    return losses.sum() / mass.sum()


# ---- probes -------------------------------------------------------------------------------------


class _Replace(paddle.autograd.PyLayer):
    """Put the reference's value in a tensor's place; the gradient goes through unchanged."""

    @staticmethod
    def forward(ctx, value, reference):
        return reference.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None


def _replace(value, reference):
    """See _Replace.  Paddle ignores what a hook returns on a PyLayer's own output: hence the 1."""
    return _Replace.apply(value, reference) * 1.0


def with_values(value, values):
    """The tensor with these values (an array) in its own's place; the gradient goes through."""
    return _replace(value, tensor(values).astype(value.dtype))


def _join(site, name):
    """Path of a name inside a site; the root module's site is empty."""
    return f"{site}.{name}" if site else name


def _observe(session, label, value, class_name="", replace=True):
    """Record one probe; in single-step mode return the reference's value in its place.

    Without `replace` the tensor itself comes back, and its gradient is that of all its uses.
    """
    if not is_tensor(value):
        return value
    key = session.prefix + label
    if not session.recomputing:
        session.record(key, array(value))
        session.note_place(key, class_name)
    if class_name.endswith(IN_PLACE):
        return value
    reference = None if session.reference is None else session.reference.get(key)
    if is_float(value) and str(value.dtype) not in ("paddle.float32", "paddle.float64"):
        session.half = True
    if not is_float(value):
        replaced = reference is not None and list(reference.shape) == list(value.shape)
        return tensor(reference).astype(value.dtype) if replaced else value
    differentiable = session.gradients and not value.stop_gradient and paddle.is_grad_enabled()
    if reference is not None and list(reference.shape) == list(value.shape):
        value = with_values(value, reference)
    elif differentiable and replace:
        # A tensor of its own, so that the gradient is this use's, not that of a residual beside it.
        value = _replace(value, value.detach())
    if differentiable:
        value.register_hook(lambda gradient: _observe_gradient(session, label, gradient))
    return value


def _observe_gradient(session, label, gradient):
    """Record the gradient at a probe; in single-step mode return the reference's in its place."""
    key = f"{session.prefix}grad_of/{label}"
    session.record(key, array(gradient))
    session.places.setdefault(key, session.places.get(session.prefix + label, ""))
    session.classes.setdefault(key, session.classes.get(session.prefix + label, ""))
    if session.reference is not None and key in session.reference:
        return tensor(session.reference[key]).astype(gradient.dtype)
    return gradient


def _observe_nested(session, site, values, class_name, replace=True):
    """Record every tensor of a module's inputs or outputs; returns the same structure.

    A first element has its container's own name: `name`, `name/1`, ...
    """

    def change(path, value):
        label = session.label("/".join([site, *(str(key) for key in path if key != 0)]))
        return _observe(session, label, value, class_name, replace)

    return tree_map(values, change, is_tensor)


def of_framework(module):
    """True for the framework's own layers, which are probed as a whole and not descended into."""
    return type(module).__module__.startswith("paddle.nn")


_CONTAINERS = (nn.Sequential, nn.LayerList, nn.LayerDict, nn.ParameterList)
_CONTAINERS += tuple(getattr(nn, n) for n in ("ParameterDict",) if hasattr(nn, n))  # newer
_RECURRENT = nn.layer.rnn.RNNBase  # twin: where it is
_CELLS = nn.layer.rnn.RNNCellBase  # twin: these give their output and their states
_ATTENTION = nn.MultiHeadAttention  # twin: another name


def probed_modules(model):
    """(name, module) of every probe: the framework's layers and the model's own, containers not."""
    skipped = []
    for name, module in model.named_sublayers(include_self=True):
        if name == "" or any(name.startswith(f"{outer}.") for outer in skipped):
            continue
        container = isinstance(module, _CONTAINERS) and not isinstance(module, _RECURRENT)
        if of_framework(module) and not container:
            skipped.append(name)
        if not container:
            yield name, module


def _works_in_place(module, session):
    """True for a module that writes into its own input, as ReLU(inplace=True) does.

    Its tensors must stay what they are, or the writing would be lost on whoever else holds them; in
    single-step mode everyone is given the reference's values anyway.
    """
    told = getattr(module, "inplace", False) or getattr(module, "_inplace", False)
    return bool(told) and session.reference is None


def _observe_inputs(session, name, kind, module, inputs, keywords):
    """Record a module's inputs: `name:in/0` by place, `name:in/KEYWORD` by keyword.

    Of a keyword of the framework's own layers only floats, since masks mean other things there.
    No gradient is asked for at what is written into in place: other uses would be in it.
    """
    kind = f"{kind} {IN_PLACE}" if _works_in_place(module, session) else kind

    def seen(key, value):
        return _observe_nested(session, f"{name}:in/{key}", value, kind)

    placed = []
    for i, value in enumerate(inputs):
        same = _index(value, inputs[:i]) if isinstance(module, _ATTENTION) else None
        placed.append(seen(i, value) if same is None else placed[same])
    logged = {
        key: seen(key, value)
        for key, value in keywords.items()
        if is_float(value) or not of_framework(module)
    }
    return tuple(placed), {**keywords, **logged}


@contextmanager
def probing(model):
    """Log the inputs (`name:in/0`) and outputs (`name`) of every probed module while it runs.

    Attention's keys and values are left out where they are an earlier argument (Paddle's may be
    left out by the caller too), and so are its weights (a mean over heads on one side alone).
    """
    session = current()
    handles = []
    for name, module in probed_modules(model):
        kind = type(module).__name__
        kind = kind if of_framework(module) else f"{OWN} {kind}"

        def before(module, inputs, keywords, name=name, kind=kind):
            if not session.probing:
                return None
            return _observe_inputs(session, name, kind, module, inputs, keywords)

        def after(module, inputs, outputs, name=name, kind=kind):
            if not session.probing:
                return None
            shown, put_back = _results(module, outputs)
            replace = not _works_in_place(module, session)
            with session.at(None if of_framework(module) else type(module).forward):
                return put_back(_observe_nested(session, name, shown, kind, replace))

        handles.append(hook_inputs(module, before))
        handles.append(module.register_forward_post_hook(after))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _results(module, outputs):
    """What a probe shows of a module's outputs, and how that is put back among them."""
    if isinstance(module, _ATTENTION) and isinstance(outputs, tuple):
        return outputs[0], lambda seen: (seen, *outputs[1:])
    if isinstance(module, _CELLS):
        states = outputs[1]  # the output is the first of them
        return states, lambda seen: (seen[0] if isinstance(seen, tuple) else seen, seen)
    return outputs, lambda seen: seen


def _index(value, values):
    """Where a tensor itself is among values; None where it is not."""
    return next((i for i, other in enumerate(values) if other is value), None)


def fix_recurrent_dropout(model, training):
    """Put recurrent layers in train mode with dropout 0 in every mode; name -> dropout it had.

    In eval mode Paddle cannot differentiate them on CPU ("holder_ should not be null"), and what
    they draw inside is not on the tape.  In training their rate is a row of the log.
    """
    rates = {}
    for name, module in model.named_sublayers(include_self=True):
        if isinstance(module, _RECURRENT):
            rates[name] = float(module.dropout)
            module.dropout = 0.0
            module.training = True
            if training:
                _log_rate(name, module, rates[name])
    return {name: rate for name, rate in rates.items() if rate}


def _log_rate(name, module, rate):
    """Log a recurrent layer's dropout, which is not drawn, whenever it runs."""

    def before(module, inputs):
        session = current()
        if session.probing:
            _observe(session, session.label(f"{name}:p"), tensor(rate))

    module.register_forward_pre_hook(before)


# ---- weights ------------------------------------------------------------------------------------


def framework_class(module):
    """The framework's class that a module is or derives from; "" for the model's own."""
    for kind in type(module).__mro__:
        if kind.__module__.startswith("paddle.nn") and kind is not nn.Layer:
            return kind.__name__
    return ""


def owners(model):
    """Key -> Owner of every entry of the state dict; a shared layer's entries have one owner."""
    modules = dict(model.named_sublayers(include_self=True))
    kinds = {name: framework_class(module) for name, module in modules.items()}
    probes = {name for name, _ in probed_modules(model)}
    parameters = {id(parameter) for parameter in model.parameters()}
    first = {}
    found = {}
    for key, value in model.state_dict().items():  # twin: Paddle keeps them
        path, _, local = key.rpartition(".")
        same_as = first.setdefault(id(value), key)
        parts = path.split(".") if path else []
        above = [".".join(parts[:i]) for i in range(len(parts) + 1)]  # the root's name is empty
        if path not in modules and same_as in found:
            found[key] = found[same_as]
            continue
        found[key] = Owner(
            kinds.get(path, ""),
            local,
            tuple(value.shape),
            id(value) in parameters,
            same_as,
            tuple(kinds.get(name, "") for name in above[:-1]),
            next((name for name in reversed(above) if name in probes), ""),
            _padding(modules.get(path)),
        )
    return found


def _padding(module):
    """The row of an Embedding that is padding; None where there is none."""
    if not isinstance(module, nn.Embedding):
        return None
    row = module._padding_idx  # twin: where it is
    return None if row is None or row < 0 else int(row)


def state(model):
    """The state dict as arrays, aliases of one tensor under each of their names."""
    return {key: array(value) for key, value in model.state_dict().items()}


def load_state(model, arrays):
    """Put the arrays in; the caller has checked that every key is there, and no other."""
    own = model.state_dict()
    values = {key: tensor(value).astype(own[key].dtype) for key, value in arrays.items()}
    model.set_state_dict(values)


def save_arrays(path, arrays, names):
    """Write the framework's own file of weights: each of `names` under the array that it names."""
    tensors = {key: paddle.to_tensor(values) for key, values in arrays.items()}  # twin: how
    paddle.save({name: tensors[key] for name, key in names.items()}, str(path))


def watch(value):
    """Ask for the gradient of an input, where it is a float; returns the input."""
    if is_float(value):
        value.stop_gradient = False  # twin: the opposite flag
    return value


def trainable(model):
    """(name, parameter) of every parameter that a gradient is wanted for."""
    return [(name, value) for name, value in model.named_parameters() if not value.stop_gradient]


def gradient(parameter):
    """The parameter's gradient as an array; zeros where the loss does not reach it."""
    if parameter.grad is None:
        return np.zeros(tuple(parameter.shape), str(parameter.dtype).replace("paddle.", ""))
    return array(parameter.grad)


def clear_gradients(model):
    """Forget all gradients."""
    for value in model.parameters():
        value.clear_gradient(False)  # twin: an attribute here, a call there


def assign(parameter, values):
    """Overwrite a parameter's values."""
    with paddle.no_grad():
        parameter.copy_(tensor(values), False)


def assign_gradient(parameter, values):
    """Overwrite a parameter's gradient; one that the loss does not reach has none, not zeros."""
    if parameter.grad is None and not np.any(values):
        return
    parameter.grad = tensor(values)


# ---- optimizers ---------------------------------------------------------------------------------


def sgd_step(model, lr):
    """One step of the framework's own plain SGD, for the witness of step 4."""
    values = [value for _, value in trainable(model)]
    paddle.optimizer.SGD(lr, parameters=values).step()  # twin: arguments


class Optimizer:
    """One of the set-ups of step 4 over named parameters, with its schedule.

    kind            "adam", "adamw" (decoupled decay, none on biases and norms) or "sgd" (momentum)
    schedule        step number -> factor on the learning rate
    clip_norm       gradients are scaled down to this global norm first; None: not
    decayed         names of what decays; None: all parameters with more than one axis
    Momentum and clipping are written out: Paddle keeps its momentum in float32, and torch adds
    1e-6 to the norm that it clips by, so the frameworks' own do not mean the same.
    """

    def __init__(
        self,
        parameters,
        kind,
        lr,
        schedule,
        weight_decay=0.0,
        momentum=0.9,
        clip_norm=None,
        decayed=None,
    ):
        self.parameters = parameters
        self.clip_norm = clip_norm
        self.momentum = momentum
        self.velocities = {}
        self.step_count = 0
        self.base_lr = lr
        self.factor = schedule
        self.rule = None
        if decayed is None:
            decayed = {name for name, value in parameters if value.ndim > 1}
        values = [value for _, value in parameters]
        if kind == "adam":
            self.rule = paddle.optimizer.Adam(lr, parameters=values)  # twin: arguments
        if kind == "adamw":
            decayed = {value.name for n, value in parameters if n in decayed}  # twin: decay
            rule = {"parameters": values, "weight_decay": weight_decay}  # twin: decay
            rule["apply_decay_param_fun"] = decayed.__contains__  # twin: decay
            self.rule = paddle.optimizer.AdamW(lr, **rule)  # twin: decay

    def lr(self):
        """The learning rate of the next step."""
        return self.base_lr * self.factor(self.step_count)

    def clip(self):
        """Scale all gradients by min(1, clip_norm / (global norm + 1e-6)), as torch does."""
        reached = [value for _, value in self.parameters if value.grad is not None]
        total = sum((value.grad * value.grad).sum() for value in reached)
        scale = paddle.clip(self.clip_norm / (paddle.sqrt(total) + 1e-6), max=1.0)
        for value in reached:
            value.grad = value.grad * scale

    def step(self):
        """Update the parameters from their gradients."""
        with paddle.no_grad():
            if self.clip_norm is not None:
                self.clip()
            if self.rule is None:
                for name, value in self.parameters:
                    if value.grad is not None:
                        velocity = self.velocities.get(name, paddle.zeros_like(value))
                        velocity = velocity * self.momentum + value.grad
                        self.velocities[name] = velocity
                        value.copy_(value - velocity * self.lr(), False)
        if self.rule is not None:
            rate = self.lr()  # twin: where the learning rate is kept
            self.rule.set_lr(rate)  # twin: where the learning rate is kept
            self.rule.step()
        self.step_count += 1

    def moments(self, kind):
        """(name, array) of what the rule remembers: moment1, moment2 or velocity."""
        if kind == "velocity":
            yield from ((name, array(value)) for name, value in self.velocities.items())
            return
        own = kind  # twin: names
        for name, value in self.parameters:
            kept = {} if self.rule is None else self.rule._accumulators[own]  # twin: where
            if value.name in kept:  # twin: where
                yield name, array(kept[value.name])  # twin: where

    def state(self):
        """Name -> array of all that the next steps depend on, for `load_state`."""
        found = {"steps": np.int64(self.step_count)}
        found |= {f"velocity/{name}": array(value) for name, value in self.velocities.items()}
        for name, value in self.parameters if self.rule is not None else ():
            kept = _remembered(self.rule, value)
            found |= {f"rule/{name}/{kind}": array(held) for kind, held in kept.items()}
        return found

    def load_state(self, arrays):
        """Go on as the optimizer did whose `state` this is; the parameters are the caller's."""
        self.step_count = int(arrays["steps"])
        remembered = []
        for name, value in self.parameters:
            if f"velocity/{name}" in arrays:
                self.velocities[name] = tensor(arrays[f"velocity/{name}"])
            path = f"rule/{name}/"
            kept = {k[len(path) :]: tensor(v) for k, v in arrays.items() if k.startswith(path)}
            remembered += [(value, kept)] if kept else []
        if self.rule is not None:
            _remind(self.rule, remembered)


def _remembered(rule, parameter):
    """Kind -> tensor of what the framework's optimizer keeps for a parameter."""
    own, start = rule.state_dict(), f"{parameter.name}_"  # twin: its names
    return {k[len(start) :]: v for k, v in own.items() if k.startswith(start)}  # twin: its names


def _remind(rule, remembered):
    """Give the framework's optimizer back what it kept: (parameter, kind -> tensor) pairs."""
    own = rule.state_dict()  # twin: itself, or a copy
    for parameter, kept in remembered:
        own |= {f"{parameter.name}_{kind}": v for kind, v in kept.items()}  # twin: its names
    rule.set_state_dict(own)  # twin: itself, or a copy
