"""Faults in the optimizer steps of a large model, which run the model in one of four set-ups alone.

The tests' small pair is taken for large: what is found does not depend on how large it is.
"""

from functools import partial

from faults.catalogue.training import BACKEND, BACKWARD, FIRST, OPTIMIZER
from faults.fault import SMALL_CNN, Fault

large = partial(
    Fault,
    model=SMALL_CNN,
    step=4,
    file=OPTIMIZER,
    area="optimizers",
    arguments=("--given-gradients-above", "1"),
)
STEP = "            self.rule.step()\n"
ADAM = "return paddle.optimizer.Adam(lr, *betas, parameters=values)"
# Changes a tensor in place by what NumPy makes of its values, behind the rule's step.
CHANGE = """            {when}:
                with self.side.no_grad():
                    for held in {tensors}:
                        values = held.numpy()
                        {change}
                        held.copy_(self.side.from_array(values), False)
"""


def changed(when: str, tensors: str, change: str) -> str:
    """The rule's step, and one change behind it."""
    return STEP + CHANGE.format(when=when, tensors=tensors, change=change)


FAULTS = [
    # ---- one element, one row, one step
    large(
        id="large-one-element-once",
        what="one element of one weight moved by a millionth of it, in the step of index 7 alone",
        old=STEP,
        new=changed(
            "if self.step_count == 7",
            "[dict(self.parameters)['square.weight']]",
            "values[2, 3] *= 1 + 1e-6",
        ),
        origin="adam/007/weight/square.weight",
    ),
    large(
        id="large-one-row-once",
        what="one row of a weight decayed twice, in the step of index 4 alone",
        old=STEP,
        new=changed(
            "if self.step_count == 4 and hasattr(self.rule, '_apply_decay_param_fun')",
            "[dict(self.parameters)['head.weight']]",
            "values[:, 1] *= 1 - 0.125e-3",
        ),
        origin="adamw/004/weight/head.weight",
    ),
    large(
        id="large-one-moment-once",
        what="one element of a second moment not decayed, in the step of index 5 alone",
        old=STEP,
        new=changed(
            "if self.step_count == 5 and self.clip_norm",
            "[self.rule._accumulators['moment2'][self.parameters[-1][1].name]]",
            "values[0] /= 0.999",
        ),
        origin="adam_clip_warmup/005/moment2/head.bias",
    ),
    large(
        id="large-step-left-out",
        what="no update in the step of index 7",
        old=STEP,
        new="            self.rule.step() if self.step_count != 7 else None\n",
        origin=f"adam/007/weight/{FIRST}",
    ),
    # ---- what decays
    large(
        id="large-decay-of-a-norm",
        what="a norm's gain decayed too",
        file=BACKEND,
        old="for name, value in parameters if name in decayed}",
        new="for name, value in parameters if name in decayed or name == 'norm.weight'}",
        origin="adamw/000/weight/norm.weight",
    ),
    # ---- clipping and warm-up
    large(
        id="large-clip-always",
        what="gradients brought to the clipping norm where they are below it too",
        old="self.side.lib.clip(self.clip_norm / (self.side.lib.sqrt(total) + 1e-6), max=1.0)",
        new="self.clip_norm / (self.side.lib.sqrt(total) + 1e-6)",
        origin=f"adam_clip_warmup/001/weight/{FIRST}",
    ),
    large(
        id="large-clip-without-a-tensor",
        what="global norm without the last parameter's gradient",
        old="total = sum((value.grad * value.grad).sum() for value in reached)",
        new="total = sum((value.grad * value.grad).sum() for value in reached[:-1])",
        origin=f"adam_clip_warmup/000/weight/{FIRST}",
    ),
    large(
        id="large-clip-each-tensor",
        what="each gradient clipped by its own norm",
        old="            value.grad = value.grad * scale",
        new="            scale = self.side.lib.sqrt((value.grad * value.grad).sum())\n"
        "            scale = self.side.lib.clip(self.clip_norm / (scale + 1e-6), max=1.0)\n"
        "            value.grad = value.grad * scale",
        origin=f"adam_clip_warmup/000/weight/{FIRST}",
    ),
    large(
        id="large-clip-by-value",
        what="gradients clipped by a tenth of the norm as their value",
        old="            value.grad = value.grad * scale",
        new="            most = 0.1 * self.clip_norm\n"
        "            value.grad = self.side.lib.clip(value.grad, -most, most)",
        origin=f"adam_clip_warmup/000/weight/{FIRST}",
    ),
    large(
        id="large-warm-up-off-by-one",
        what="warm-up that begins at 0",
        old="return self.base_lr * self.factor(self.step_count)",
        new="return self.base_lr * self.factor(self.step_count - 1)",
        origin="adam_clip_warmup/000/lr",
    ),
    # ---- Adam's own numbers
    large(
        id="large-adam-epsilon",
        what="Adam epsilon 1e-7 for 1e-8",
        file=BACKEND,
        old=ADAM,
        new="return paddle.optimizer.Adam(lr, *betas, parameters=values, epsilon=1e-7)",
        origin=f"adam/000/weight/{FIRST}",
    ),
    large(
        id="large-adam-beta2",
        what="Adam beta2 0.99 for 0.999",
        file=BACKEND,
        old=ADAM,
        new="return paddle.optimizer.Adam(lr, betas[0], 0.99, parameters=values)",
        origin=f"adam/000/moment2/{FIRST}",
    ),
    large(
        id="large-amsgrad",
        what="Adam that divides by the largest second moment so far",
        file=BACKEND,
        old=ADAM,
        new="return paddle.optimizer.Adam(lr, *betas, parameters=values, amsgrad=True)",
        origin=f"adam/005/weight/{FIRST}",
    ),
    large(
        id="large-no-bias-correction",
        what="Adam without the corrections of its moments",
        old="            self.side.set_rate(self.rule, self.lr())",
        new="            done = self.step_count + 1\n"
        "            factor = (1 - 0.9**done) / (1 - 0.999**done) ** 0.5\n"
        "            self.side.set_rate(self.rule, self.lr() * factor)",
        origin=f"adam/000/weight/{FIRST}",
    ),
    large(
        id="large-moments-in-half",
        what="first moments kept in float16",
        old=STEP,
        new=changed(
            "if True",
            "self.rule._accumulators['moment1'].values()",
            "values = values.astype('float16').astype(values.dtype)",
        ),
        origin=f"adam/000/moment1/{FIRST}",
    ),
    large(
        id="large-parameter-left-out",
        what="the last parameter not given to the optimizer",
        old="side.adam([value for _, value in parameters], lr, betas)",
        new="side.adam([value for _, value in parameters][:-1], lr, betas)",
        origin="adam/000/weight/head.bias",
    ),
    large(
        id="large-gradients-otherwise",
        what="given gradients times another number from the second step on",
        file=BACKWARD,
        old="value.grad = given[name] * scale if name in given else None",
        new="value.grad = given[name] * (scale + step) if name in given else None",
        origin=f"adam/001/weight/{FIRST}",
    ),
    # ---- the set-up that runs the model
    large(
        id="large-nesterov",
        what="Nesterov's momentum for momentum",
        old="value.subtract_(velocity * self.lr())",
        new="value.subtract_((value.grad + velocity * self.momentum) * self.lr())",
        origin=f"sgd/000/weight/{FIRST}",
    ),
]
