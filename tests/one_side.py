"""One side of a built-in pair in this process, for the tests of the models."""

import importlib
import inspect
from functools import cache

import numpy as np

from twincheck.common.sides.probes import probing
from twincheck.common.sides.session import Session, using

# torch's local names of a batch norm's averages -> Paddle's; "": Paddle has none.
AVERAGES = {"running_mean": "_mean", "running_var": "_variance", "num_batches_tracked": ""}


class Side:
    """One framework: its instruments, a model's file, and layouts that are torch's on both."""

    def __init__(self, name, model):
        self.name = name
        self.side = importlib.import_module(f"twincheck.common.sides.backend_{name}").side
        self.models = importlib.import_module(f"twincheck.common.models.{model}.{name}_model")
        self.framework = importlib.import_module(name)

    def build(self, config, state=None, dtype="float64", train=False, left=()):
        """A model with the given weights, which have torch's layout; left: those that it keeps."""
        self.side.set_up(dtype, "cpu", 0)
        model = self.models.build(config)
        if state is not None:
            own, given = self.side.state(model), self.own_names(state)
            assert set(own) - set(given) == set(left) and set(given) <= set(own)
            turned = {key: self.turn(model, key, value) for key, value in given.items()}
            self.side.load_state(model, own | turned)
        return model.train() or model if train else model.eval() or model

    def own_names(self, state):
        """A state dict under the framework's names of a batch norm's averages."""
        if self.name == "torch":
            return state
        split = {key: key.rpartition(".") for key in state}
        names = {key: AVERAGES.get(local, local) for key, (_, _, local) in split.items()}
        return {f"{split[key][0]}.{own}": state[key] for key, own in names.items() if own}

    def turn(self, model, key, values):
        """A parameter's values in the other layout: a Paddle Linear's weight is transposed."""
        linear = key.endswith(".weight") and self.side.owners(model)[key].kind == "Linear"
        return np.ascontiguousarray(values.T) if linear and self.name == "paddle" else values

    def shapes(self, config):
        """Key -> shape of a model's state dict, in torch's layout."""
        model = self.build(config)
        state = self.side.state(model)
        return {key: self.turn(model, key, value).shape for key, value in state.items()}

    def tensors(self, inputs):
        """Inputs as tensors; NAME/0, NAME/1 are a list."""
        found = {}
        for key, values in inputs.items():
            name, _, place = key.partition("/")
            if place:
                found.setdefault(name, []).append(self.side.tensor(values))
            else:
                found[name] = self.side.tensor(values)
        return found

    def call(self, model, inputs, **options):
        """The outputs, as tensors."""
        accepted = inspect.signature(model.forward).parameters
        inputs = {key: value for key, value in inputs.items() if key in accepted}
        return model(**inputs, **options)

    def outputs(self, config, state, inputs, dtype="float64", train=False):
        """The outputs of one forward pass, as arrays."""
        model = self.build(config, state, dtype, train)
        with using(Session(0)):
            outputs = self.call(model, self.tensors(inputs))
        return {key: self.side.array(value) for key, value in outputs.items()}

    def gradients(self, model):
        """Name -> gradient in torch's layout."""
        return {
            name: self.turn(model, name, self.side.gradient(value))
            for name, value in self.side.trainable(model)
        }

    def run(self, config, state, inputs, dtype="float64", train=False, seed=0, record=None):
        """Every array of one forward and backward pass."""
        model = self.build(config, state, dtype, train)
        inputs = self.tensors(inputs)
        with using(Session(seed, record=record)), probing(self.side, model):
            outputs = self.call(model, inputs)
            loss = self.models.loss(outputs, inputs)
            losses = self.models.losses(outputs, inputs)
            loss.backward()
        found = {f"out/{key}": self.side.array(value) for key, value in outputs.items()}
        found |= {f"losses/{key}": self.side.array(value) for key, value in losses.items()}
        found |= {f"grad/{key}": values for key, values in self.gradients(model).items()}
        return found | {"loss": self.side.array(loss)}


@cache
def load(name, model="reformer"):
    """The side of that name and a model's file; its framework is imported here."""
    return Side(name, model)
