"""A side's model as a graph of its framework: paddle.jit.to_static's, torch.compile's.

The graph is made of the same file with the same weights, when the model is first called.  Nothing
is seen inside of it: what it gives is compared, values and gradients.
"""

import importlib
from collections.abc import Callable
from functools import cache, partial

from twincheck.common.sides import instruments
from twincheck.common.sides.batch_norm import statistics_of_graph
from twincheck.common.sides.places import error_sentence
from twincheck.common.sides.session import Session, current
from twincheck.common.sides.upcast import upcasting, wanted
from twincheck.common.system.errors import UserError, is_ours
from twincheck.common.system.reasons import Kind

_GRAPH = "_graph_of_it"  # where a model keeps its own


def called(run, model) -> Callable:
    """Return what calls a model: itself, or its graph, which is made at the first call.

    A static graph keeps the numbers that were drawn for it: one that draws is made anew each time.
    Raises UserError where the framework cannot make one.
    """
    if not run.session.is_graph:
        return model
    is_static = run.side.NAME == "paddle"
    make = _static if is_static else _compiled

    def call(**tensors):
        session = current()
        before, saved, session.is_graph = session.snapshot(), session.is_graph, True
        try:
            with statistics_of_graph(run.side, model):
                return make(run.side, model)(tensors)
        except Exception as error:
            if isinstance(error, UserError) or is_ours(error):
                raise
            told = Kind.GRAPH_IMPOSSIBLE(backend=run.job.backend, error=error_sentence(error))
            raise UserError(told) from error
        finally:
            session.is_graph = saved
            if is_static and session.snapshot() != before:
                model.__dict__.pop(_GRAPH, None)

    return call


def _compiled(side, model) -> Callable:
    if _GRAPH not in model.__dict__:
        inductor = partial(_by_inductor, side)
        graph = side.lib.compile(lambda tensors: model(**tensors), backend=inductor)
        model.__dict__[_GRAPH] = graph
    return model.__dict__[_GRAPH]


def _by_inductor(side, graph, inputs) -> Callable:
    """Compile a graph as torch.compile does by default; nothing stands before torch meanwhile.

    Casts in it are upcast here: torch.compile does not see what stands before a tensor's methods.
    """
    inductor = importlib.import_module("torch._dynamo").lookup_backend("inductor")
    if wanted():
        _upcast(side, graph)
    with upcasting(False), current().draws.from_tape(False):
        return inductor(graph, inputs)


def _upcast(side, graph) -> None:
    fx, wide, called = side.lib.fx.node, side.WIDE, side.CALLED_AFTER_DTYPE
    for node in graph.graph.nodes:
        if node.op == "call_method" and node.target in called:
            node.target, node.args = "to", (node.args[0], wide[called[node.target]])
        for part in ("args", "kwargs"):
            widened = fx.map_aggregate(
                getattr(node, part), lambda a: wide.get(a, a) if type(a).__name__ == "dtype" else a
            )
            setattr(node, part, widened)
    graph.recompile()


def break_at_draws(side) -> None:
    """Let torch.compile end a graph where numbers of the tape come in, which it cannot trace."""
    apart = side.lib.compiler.disable
    instruments.keep_mask, Session.draw = apart(instruments.keep_mask), apart(Session.draw)


def _static(side, model) -> Callable:
    """A whole static graph, from the source; one of eval mode has no gradients by itself."""
    paddle = side.lib
    if _GRAPH not in model.__dict__:
        made = _layer_of(paddle)(model)
        model.__dict__[_GRAPH] = paddle.jit.to_static(made, full_graph=True, backend=None)
    graph = model.__dict__[_GRAPH]
    vars(graph)["training"] = model.training or paddle.is_grad_enabled()
    return graph


@cache
def _layer_of(paddle) -> type:
    class Graph(paddle.nn.Layer):
        def __init__(self, model):
            super().__init__()
            self.model = model

        def forward(self, tensors):
            return self.model(**tensors)

    return Graph
