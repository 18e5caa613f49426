"""A Paddle model as a static graph: paddle.jit.to_static's.

The graph is made of the same file with the same weights, when the model is first called.  Nothing
is seen inside of it: what it gives is compared, values and gradients.
"""

from collections.abc import Callable
from functools import cache

from twincheck.common.sides.batch_norm import statistics_of_graph
from twincheck.common.sides.places import error_sentence
from twincheck.common.sides.session import current
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

    def call(**tensors):
        session = current()
        before, saved, session.is_graph = session.snapshot(), session.is_graph, True
        try:
            with statistics_of_graph(run.side, model):
                return _static(run.side, model)(tensors)
        except Exception as error:
            if isinstance(error, UserError) or is_ours(error):
                raise
            told = Kind.GRAPH_IMPOSSIBLE(backend=run.job.backend, error=error_sentence(error))
            raise UserError(told) from error
        finally:
            session.is_graph = saved
            if session.snapshot() != before:
                model.__dict__.pop(_GRAPH, None)

    return call


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
