"""The optimizers of steps 4 and 5."""

import numpy as np


class Optimizer:
    """One of the set-ups of step 4 over named parameters, with its schedule.

    kind            "adam", "adamw" (decoupled decay, none on biases and norms) or "sgd" (momentum)
    schedule        step number -> factor on the learning rate
    clip_norm       gradients are scaled down to this global norm first; None: not
    decayed         names of what decays; None: all parameters with more than one axis
    betas           of Adam: how much of its two moments each step keeps
    Momentum and clipping are written out: Paddle keeps its momentum in float32, and torch adds
    1e-6 to the norm that it clips by, so the frameworks' own do not mean the same.
    """

    def __init__(
        self,
        side,
        parameters,
        kind,
        lr,
        schedule,
        weight_decay=0.0,
        momentum=0.9,
        clip_norm=None,
        decayed=None,
        betas=(0.9, 0.999),
    ):
        self.side = side
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
        if kind == "adam":
            self.rule = side.adam([value for _, value in parameters], lr, betas)
        if kind == "adamw":
            self.rule = side.adamw(parameters, decayed, lr, betas, weight_decay)

    def lr(self):
        """The learning rate of the next step."""
        return self.base_lr * self.factor(self.step_count)

    def clip(self):
        """Scale all gradients by min(1, clip_norm / (global norm + 1e-6)), as torch does."""
        reached = [value for _, value in self.parameters if value.grad is not None]
        total = sum((value.grad * value.grad).sum() for value in reached)
        scale = self.side.lib.clip(self.clip_norm / (self.side.lib.sqrt(total) + 1e-6), max=1.0)
        for value in reached:
            value.grad = value.grad * scale

    def step(self):
        """Update the parameters from their gradients."""
        with self.side.no_grad():
            if self.clip_norm is not None:
                self.clip()
            if self.rule is None:
                for name, value in self.parameters:
                    if value.grad is not None:
                        if name not in self.velocities:
                            self.velocities[name] = self.side.lib.zeros_like(value)
                        velocity = self.velocities[name]
                        self.side.scale_(velocity, self.momentum)
                        velocity.add_(value.grad)
                        value.subtract_(velocity * self.lr())
        if self.rule is not None:
            self.side.set_rate(self.rule, self.lr())
            self.rule.step()
        self.step_count += 1

    def moments(self, kind):
        """(name, array) of what the rule remembers: moment1, moment2 or velocity."""
        if kind == "velocity":
            yield from ((name, self.side.view(value)) for name, value in self.velocities.items())
            return
        for name, value in self.parameters if self.rule is not None else ():
            kept = self.side.moment(self.rule, value, kind)
            if kept is not None:
                yield name, self.side.view(kept)

    def state(self):
        """Name -> array of all that the next steps depend on, for `load_state`."""
        array, found = self.side.array, {"steps": np.int64(self.step_count)}
        found |= {f"velocity/{name}": array(value) for name, value in self.velocities.items()}
        for name, value in self.parameters if self.rule is not None else ():
            for kind, held in self.side.remembered(self.rule, value).items():
                found[f"rule/{name}/{kind}"] = array(held)
        return found

    def load_state(self, arrays):
        """Go on as the optimizer did whose `state` this is; the parameters are the caller's."""
        self.step_count = int(arrays["steps"])
        tensor, remembered = self.side.tensor, []
        for name, value in self.parameters:
            if f"velocity/{name}" in arrays:
                self.velocities[name] = tensor(arrays[f"velocity/{name}"])
            path = f"rule/{name}/"
            kept = {k[len(path) :]: tensor(v) for k, v in arrays.items() if k.startswith(path)}
            remembered += [(value, kept)] if kept else []
        if self.rule is not None:
            self.side.remind(self.rule, remembered)
