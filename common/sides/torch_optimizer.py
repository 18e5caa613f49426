"""The optimizers of steps 4 and 5: torch_optimizer.py and paddle_optimizer.py are twins."""

import numpy as np
import torch

from common.sides.torch_tensors import array, tensor, trainable, view


def sgd_step(model, lr):
    """One step of the framework's own plain SGD, for the witness of step 4."""
    values = [value for _, value in trainable(model)]
    torch.optim.SGD(values, lr=lr).step()  # twin: arguments


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
            self.rule = torch.optim.Adam(values, lr=lr, betas=betas)  # twin: arguments
        if kind == "adamw":
            undecayed = [v for n, v in parameters if n not in decayed]  # twin: decay
            values = [v for n, v in parameters if n in decayed]  # twin: decay
            groups = [{"params": values}, {"params": undecayed, "weight_decay": 0.0}]  # twin: decay
            self.rule = torch.optim.AdamW(groups, lr, betas, 1e-8, weight_decay)  # twin: decay

    def lr(self):
        """The learning rate of the next step."""
        return self.base_lr * self.factor(self.step_count)

    def clip(self):
        """Scale all gradients by min(1, clip_norm / (global norm + 1e-6)), as torch does."""
        reached = [value for _, value in self.parameters if value.grad is not None]
        total = sum((value.grad * value.grad).sum() for value in reached)
        scale = torch.clip(self.clip_norm / (torch.sqrt(total) + 1e-6), max=1.0)
        for value in reached:
            value.grad = value.grad * scale

    def step(self):
        """Update the parameters from their gradients."""
        with torch.no_grad():
            if self.clip_norm is not None:
                self.clip()
            if self.rule is None:
                for name, value in self.parameters:
                    if value.grad is not None:
                        if name not in self.velocities:
                            self.velocities[name] = torch.zeros_like(value)
                        velocity = self.velocities[name]
                        velocity.mul_(self.momentum)  # twin: another name
                        velocity.add_(value.grad)
                        value.subtract_(velocity * self.lr())
        if self.rule is not None:
            for group in self.rule.param_groups:  # twin: where the learning rate is kept
                group["lr"] = self.lr()  # twin: where the learning rate is kept
            self.rule.step()
        self.step_count += 1

    def moments(self, kind):
        """(name, array) of what the rule remembers: moment1, moment2 or velocity."""
        if kind == "velocity":
            yield from ((name, view(value)) for name, value in self.velocities.items())
            return
        own = {"moment1": "exp_avg", "moment2": "exp_avg_sq"}[kind]  # twin: names
        for name, value in self.parameters:
            kept = {} if self.rule is None else self.rule.state.get(value, {})  # twin: where
            if own in kept:  # twin: where
                yield name, view(kept[own])  # twin: where

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
    own = rule.state.get(parameter, {})  # twin: its names
    return dict(own)  # twin: its names


def _remind(rule, remembered):
    """Give the framework's optimizer back what it kept: (parameter, kind -> tensor) pairs."""
    own = rule.state  # twin: itself, or a copy
    for parameter, kept in remembered:
        own[parameter] = kept  # twin: its names
    rule.state = own  # twin: itself, or a copy
