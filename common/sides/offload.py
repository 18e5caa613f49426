"""Weights that are in memory only while their part of the model runs: --offload.

A part is an item of the model's list of blocks, or a layer outside of such a list.  Its weights are
read when its forward begins and let go when it has ended.  Where a gradient has to go back through
it, the part keeps its inputs alone and runs once more in the backward pass, with its weights in
memory until its own gradients are there.  What the model reads of a part that does not run, such as
the embedding that is also its head, stays till the end of the model's forward.
"""

import functools
import gc
from contextlib import contextmanager
from dataclasses import dataclass

from twincheck.common.sides.probes import hook_outputs
from twincheck.common.sides.session import current
from twincheck.common.system.reasons import Kind
from twincheck.common.system.tree import tree_leaves, tree_map
from twincheck.common.weights.layers import Entry
from twincheck.common.weights.layout import Layout
from twincheck.common.weights.round_trip import is_one_way, same_bits


def of_files(run, model, state):
    """Let each part of a run's model read its weights, this state, through the run's layout."""
    layout = run.layout if isinstance(run.layout, Layout) else None
    changed = run.notes.setdefault("read_back", [])
    one_way = run.notes.get("paddle_to_torch", [])

    def read(key):
        if layout is None:
            return state.get(key)
        entry = layout.entries.get(key)
        if isinstance(entry, Entry):
            return entry.seen_in(state)
        return entry and entry.from_torch(state)

    def check(key, found, values):
        if not same_bits(found, values):
            changed.extend(layout.entries[key].torch_keys if layout else [key])
        if layout is not None and run.request.certify and is_one_way(layout, key, found):
            one_way.append(key)

    gc.collect()  # a former model refers to itself, through what surrounds its parts
    return Offload(model, read, check, run.side)


@dataclass
class _Weight:
    """A parameter."""

    key: str
    value: object
    users: int = 0  # how many running parts it is in memory for
    seen: bool = False  # whether it ever was
    wanted: bool = True  # whether its gradient is kept


@dataclass
class _Part:
    """A module and its weights."""

    module: object
    weights: list
    again: bool  # whether it can run again
    kept: bool = False  # whether its weights stay in memory


class Offload:
    """The weights of a model that lie in files; those of buffers are read at once.

    model   without weights; its parameters are let go here
    read    key of its state dict -> array with its values; None for what stays as it was built
    check   is told of each, once: its key, what its parameter holds now, what was read
    """

    def __init__(self, model, read, check, side):
        _watch_parameters(side)
        self._read, self._check, self.side = read, check, side
        self._weights = {}
        learned = {id(value) for value in model.parameters() if side.wants_gradient(value)}
        for key, value in side.entries(model):
            if id(value) in self._weights:
                continue
            weight = _Weight(key, value)
            if id(value) in learned:
                self._weights[id(value)] = weight
                side.let_go(value)
            elif read(key) is not None:
                self._fill(weight)
        self.parts = []
        self._find_parts(model, set())
        for part in self.parts:
            self._surround(part)
        self._lasting = []  # in memory till the model's forward ends
        for _, module in side.modules(model):
            vars(module)["_offload"] = self
        hook_outputs(model, self._end)

    @property
    def absent(self):
        """The parameters whose values are not in memory now."""
        return [weight.value for weight in self._weights.values() if not weight.users]

    def keep(self, keys):
        """Keep the gradients of these weights; the parts that have some stay in memory.

        No layer's weight is frozen for that: Paddle's LayerNorm on a CPU then gives its input a
        wrong gradient, and its GRU none.
        """
        for weight in self._weights.values():
            weight.wanted = weight.key in keys
        for part in self.parts:
            part.kept = any(weight.wanted for weight in part.weights)
            if part.kept:
                self._bring(part.weights)
            elif not part.again:
                for weight in part.weights:
                    self.side.want_gradient(weight.value, False)
        self._bring([w for w in self._weights.values() if w.wanted and not w.users])

    def is_wanted(self, value):
        """Return whether the gradient of a parameter is kept."""
        weight = self._weights.get(id(value))
        return weight is None or weight.wanted

    # ---- which parts there are ------------------------------------------------------------------

    def _find_parts(self, module, seen):
        """Add the parts of a module, each with the weights that are in it."""
        if id(module) in seen:
            return
        seen.add(id(module))
        children = [child for child in module.children() if child is not None]
        # A list of parameters does not run: they are those of the module that has it.
        lists = [
            child for child in children if self.side.is_container(child) and not [*child.children()]
        ]
        children = [child for child in children if child not in lists]
        layer = self.side.of_framework(module) and not self.side.is_container(module)
        if layer or not children:
            self._add_part(module, module.parameters(), True)
            return
        own = [value for value in module._parameters.values() if value is not None]
        own += [value for child in lists for value in child.parameters()]
        self._add_part(module, [] if self.side.is_container(module) else own, False)
        blocks = self.side.is_container(module) and len({type(child) for child in children}) == 1
        for child in children:
            if blocks and len(children) > 1 and not self.side.is_container(child):
                seen.add(id(child))
                self._add_part(child, child.parameters(), True)
            else:
                self._find_parts(child, seen)

    def _add_part(self, module, parameters, again):
        weights = [self._weights[id(v)] for v in parameters if id(v) in self._weights]
        if weights:
            self.parts.append(_Part(module, weights, again))

    # ---- in and out -----------------------------------------------------------------------------

    def _fill(self, weight):
        values = self._read(weight.key)
        self.side.fill(weight.value, self.side.like(values, weight.value))
        if not weight.seen:
            self._check(weight.key, self.side.array(weight.value), values)
        weight.seen = True

    def _bring(self, weights):
        for weight in weights:
            weight.users += 1
            if weight.users == 1:
                self._fill(weight)

    def _release(self, weights):
        for weight in weights:
            weight.users -= 1
            if weight.users == 0:
                self.side.let_go(weight.value)

    @contextmanager
    def present(self, part):
        """Inside, the weights of a part are in memory."""
        self._bring(part.weights)
        try:
            yield
        finally:
            self._release(part.weights)

    def _surround(self, part):
        """Let a module's forward begin with reading its weights."""
        own = part.module.forward

        @functools.wraps(own)
        def forward(*inputs, **keywords):
            graded = self.side.lib.is_grad_enabled() and not part.kept
            if graded and not part.again:
                self._last(part.weights)
            if part.kept or graded and not part.again:
                return own(*inputs, **keywords)
            leaves = tree_leaves((inputs, keywords), self.side.is_tensor)
            if graded and any(self.wants_gradient(value) for _, value in leaves):
                return _Recomputation(self, part, own, inputs, keywords).outputs
            with self.side.no_grad(), self.present(part):
                return own(*inputs, **keywords)

        vars(part.module)["forward"] = forward  # past a __setattr__ of the model's own

    def wants_gradient(self, value):
        """Return whether a gradient goes back through a tensor."""
        return self.side.is_float(value) and self.side.wants_gradient(value)

    def _last(self, weights):
        """Bring these in, where they are not, till the model's forward ends."""
        absent = [weight for weight in weights if not weight.users]
        self._bring(absent)
        self._lasting += absent

    def _end(self, module, inputs, outputs):
        """The model's forward has ended."""
        if not self.side.lib.is_grad_enabled():
            self._release(self._lasting)
            self._lasting = []

    def asked_for(self, value):
        """A module's attribute that is a parameter: in memory from now on."""
        weight = self._weights.get(id(value))
        if weight is not None and not weight.users:
            self._last([weight])


@functools.cache
def _watch_parameters(side):
    """Let every module's way to its parameters tell its offload of each."""
    own = side.MODULE.__getattr__

    @functools.wraps(own)
    def __getattr__(self, name):
        value = own(self, name)
        offload = vars(self).get("_offload")
        if offload is not None and name in self._parameters:
            offload.asked_for(value)
        return value

    side.MODULE.__getattr__ = __getattr__


# ---- gradients -----------------------------------------------------------------------------------


@functools.cache
def _recomputed(side):
    class Recomputed(side.FUNCTION):
        """See _Recomputation; the tensors are those of its inputs that want a gradient."""

        @staticmethod
        def forward(ctx, call, *tensors):
            ctx.call = call
            return call.first()

        @staticmethod
        def backward(ctx, *gradients):
            return *side.OF_NO_TENSOR, *ctx.call.again(gradients)

    return Recomputed


class _Recomputation:
    """A call of a part whose gradients are computed by calling it again."""

    def __init__(self, offload, part, forward, inputs, keywords):
        self._offload, self._part, self._forward = offload, part, forward
        self._side = offload.side
        self._given = inputs, keywords
        self._session = current()
        self._names = self._session.snapshot()
        leaves = [value for _, value in tree_leaves(self._given, self._side.is_tensor)]
        self._tensors = [value for value in leaves if offload.wants_gradient(value)]
        made = _recomputed(self._side).apply(self, *self._tensors)
        made = iter(made if isinstance(made, tuple | list) else [made])
        self.outputs = tree_map(
            self._made,
            lambda _, value: next(made) if self._side.is_float(value) else value,
            self._side.is_tensor,
        )
        del self._made

    def _floats(self, made):
        leaves = (value for _, value in tree_leaves(made, self._side.is_tensor))
        return filter(self._side.is_float, leaves)

    def first(self):
        """The outputs that are floats; nothing is kept for the gradients."""
        with self._side.no_grad(), self._offload.present(self._part):
            inputs, keywords = self._given
            self._made = self._forward(*inputs, **keywords)
        same, floats = {id(value) for value in self._tensors}, self._floats(self._made)
        return tuple(value.clone() if id(value) in same else value for value in floats)

    def again(self, gradients):
        """The gradients of the inputs that want one, from those of the outputs.

        Raises RuntimeError where the model or its loss asks: it would go on with their gradients.
        """
        if not self._session.in_backward:
            raise RuntimeError(Kind.GRADIENTS_ASKED_FOR())
        copies = {id(value): self._side.watch(value.detach()) for value in self._tensors}
        inputs, keywords = tree_map(
            self._given, lambda _, value: copies.get(id(value), value), self._side.is_tensor
        )
        repeat, present = self._session.repeat(self._names), self._offload.present(self._part)
        with repeat, present, self._side.lib.enable_grad():
            made = self._forward(*inputs, **keywords)
            pairs = zip(self._floats(made), gradients, strict=True)
            pairs = [pair for pair in pairs if self._offload.wants_gradient(pair[0])]
            self._side.lib.autograd.backward(*map(list, zip(*pairs, strict=True)))
        for weight in self._part.weights:
            if not weight.wanted:
                self._side.forget_gradient(weight.value)
        found = (copies[id(value)] for value in self._tensors)
        return tuple(self._side.lib.zeros_like(v) if v.grad is None else v.grad for v in found)
