"""What stands before a framework's functions: who is asked, in which order, what is put back."""

import sys
import types

import pytest

from twincheck.common.system.checkout import ROOT
from twincheck.common.system.errors import is_ours
from twincheck.common.system.intercept import Intercept, as_handle


class Base:
    def method(self, x):
        return x


@pytest.fixture
def framework(monkeypatch):
    """A framework with a function, an alias of it, a tensor, and a module that has imported it."""
    root = types.ModuleType("framework")
    root.nn = types.ModuleType("framework.nn")
    root.double = root.nn.twice = lambda x, by=2: x * by
    root.Tensor = type("Tensor", (Base,), {})
    layers = types.ModuleType("framework.nn.layers")
    layers.double = root.double
    root.nn.layers = layers
    monkeypatch.setitem(sys.modules, layers.__name__, layers)
    return root


def adding(number):
    return as_handle(lambda own, *arguments, **options: own(*arguments, **options) + number)


def everything(framework):
    places = (framework, framework.nn, framework.nn.layers, framework.Tensor)
    return [dict(vars(place)) for place in places]


def test_a_call_that_is_wrong_by_itself_fails_as_it_would_alone(framework):
    """It does, whatever a handler of ours makes of it; an error of the handler stays."""
    said = "lambda own, given, options: given[0].shape"
    handle = eval(compile(said, f"{ROOT}/common/sides/mine.py", "eval"))
    with Intercept(framework, {"double": handle}):
        with pytest.raises(TypeError, match="unsupported operand"):
            framework.double(None)
        with pytest.raises(AttributeError, match="shape") as ours:
            framework.double(3)
        assert is_ours(ours.value)


def test_it_stands_before_functions_aliases_and_methods_and_leaves_no_trace(framework):
    before = everything(framework)
    handles = {"double": adding(1), "nn.twice": adding(7), "Tensor.method": adding(1)}
    with Intercept(framework, {**handles, "not.there": adding(1)}, ("framework.nn.",)):
        assert framework.double is framework.nn.twice is framework.nn.layers.double
        assert framework.double(3, by=3) == 10
        assert framework.Tensor().method(3) == 4 and Base().method(3) == 3
        kept = framework.double
    assert everything(framework) == before
    assert kept(3) == 6  # what somebody has kept does nothing any more


def test_the_last_is_asked_first_and_leads_to_those_before(framework):
    first = Intercept(framework, {"double": as_handle(lambda own, x: f"1({own(x)})")})
    second = Intercept(framework, {"double": as_handle(lambda own, x: f"2({own(x)})")})
    first.put()
    second.put()
    assert framework.double(3) == "2(1(6))"
    with first.off():
        assert framework.double(3) == "2(6)"
    assert framework.double(3) == "2(1(6))"
    second.on = False
    assert framework.double(3) == "1(6)"
