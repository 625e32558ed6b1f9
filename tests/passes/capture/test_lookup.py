"""What names and attributes stand for, by a path of guards."""

import types

import pytest
import torch
from torch import nn

from taiyi_fx.passes.capture.captured import TraceTargets
from taiyi_fx.passes.capture.guards import MISSING, TENSOR, Guard, Submodule
from taiyi_fx.passes.capture.lookup import FLOWING_ATTRIBUTES, TENSOR_METHODS, in_class, of_module
from taiyi_fx.passes.capture.trace import trace
from taiyi_fx.passes.capture.values import Known, Method
from tests.passes.capture.given import (
    Base,
    Point,
    assert_same,
    graph_of,
    graph_writer_of,
    made,
    reason,
)

FACTOR, TENSORS = 3.0, torch.ones(4)
space = types.SimpleNamespace(factor=2.0)
home = types.ModuleType("home")
home.factor = 4.0


def closing(factor):
    return lambda self, x: x * factor


FORWARDS = {
    "global": lambda self, x: x * FACTOR,
    "module of Python": lambda self, x: x * home.factor,
    "closure": closing(5.0),
    "builtin": lambda self, x: x * abs(-2),
    "attribute": lambda self, x: x * self.scale,
    "class's": lambda self, x: x * self.level * type(self.fc).__name__.count("Lin"),
    "property": lambda self, x: x * self.doubled,
    "own method": lambda self, x: self.helper(x),
    "parameter": lambda self, x: x @ self.fc.weight,
    "tensor's": lambda self, x: x.T * x.ndim,
    "field of a named tuple": lambda self, x: Point(x, 2).x * Point(x, 2).y,
    "name of a class": lambda self, x: {self.fc.__class__.__name__: x},
}
FORWARDS["class's"] = lambda self, x: x * self.level * self.__class__.level


@pytest.mark.parametrize("name", FORWARDS)
def test_a_name_means_what_it_means_in_python(name):
    assert_same(FORWARDS[name])


def guards_of(name):
    return list(graph_of(FORWARDS[name]).guards)


def test_each_step_of_a_path_is_a_guard():
    assert Guard(globals(), "FACTOR", 3.0) in guards_of("global")
    assert Guard(home, "factor", 4.0) in guards_of("module of Python")
    assert Guard("", "scale", 2.0) in guards_of("attribute")
    cell = FORWARDS["closure"].__closure__[0]
    assert Guard(cell, "cell_contents", 5.0) in guards_of("closure")


def test_a_module_and_a_tensor_are_guarded_by_where_they_are_not_by_what_they_are():
    found = guards_of("parameter")
    assert Guard("", "fc", Submodule("fc"), "_modules") in found
    assert Guard("fc", "weight", TENSOR, "_parameters") in found
    assert Guard("", "fc", MISSING) in found  # an attribute of that name would come before


def test_a_builtin_is_guarded_against_a_global_of_its_name():
    assert Guard(globals(), "abs", MISSING) in guards_of("builtin")


@pytest.mark.parametrize(
    ("why", "forward"),
    [
        (
            "reads the global variable 'space', a types.SimpleNamespace",
            lambda s, x: x * space.factor,
        ),
        ("reads the global variable 'TENSORS', a tensor", lambda self, x: x * TENSORS),
        ("reads 'nowhere', which does not exist", lambda self, x: x * nowhere),  # noqa: F821
        ("reads `self.nowhere`, which does not exist", lambda self, x: self.nowhere(x)),
        ("reads `x.grad_fn` of a value that flows in", lambda self, x: x.grad_fn),
        ("reads `x.is_cuda` of a value that flows in", lambda self, x: x.is_cuda),
        ("reads `self._modules`, torch's own", lambda self, x: self._modules),
        ("reads `self.__dict__`", lambda self, x: self.__dict__),
    ],
)
def test_what_no_path_leads_to_keeps_the_forward_python(why, forward):
    assert why in reason(forward)


class Answers:
    """A descriptor that counts how often it is asked."""

    asked = 0

    def __get__(self, owner, kind):
        Answers.asked += 1
        return 2.0


class Asked(type):
    def __getattr__(cls, name):
        Answers.asked += 1
        raise AttributeError(name)


class Odd(metaclass=Asked):
    factor = 2.0


class Answering:
    factor = Answers()


class Described(Base):
    factor = Answers()


class Shadowing(Described):
    def __init__(self):
        super().__init__()
        vars(self)["factor"] = 3.0


@pytest.mark.parametrize(
    ("base", "forward"),
    [
        (Described, lambda self, x: x * self.factor),
        (Shadowing, lambda self, x: x * self.factor),
        (Described, lambda self, x: x if hasattr(self, "factor") else -x),
        (Base, lambda self, x: x * Answering.factor),
        (Base, lambda self, x: x * Odd.factor),
    ],
    ids=["its class's", "one behind its own", "hasattr", "a global class's", "a metaclass's"],
)
def test_what_answers_in_a_way_of_its_own_is_not_asked(base, forward):
    model = made(forward, base)
    Answers.asked = 0
    assert trace(model, TraceTargets([])).python.keys() == {""}
    assert not Answers.asked


def test_what_a_class_holds_is_given_as_it_is_there():
    assert isinstance(in_class(Base, "doubled"), property)
    assert in_class(nn.Linear, "train") is vars(nn.Module)["train"]
    assert in_class(Base, "nowhere") is MISSING


def test_an_attribute_of_a_module_is_looked_for_in_torchs_order():
    model = Base()
    writer = graph_writer_of(model)
    assert of_module(writer, model, "scale", "self.scale").value == 2.0
    assert of_module(writer, model, "fc", "self.fc").value is model.fc
    assert of_module(writer, model, "training", "self.training").value is True
    method = of_module(writer, model, "helper", "self.helper")
    assert isinstance(method, Method)
    assert isinstance(method.owner, Known)
    assert method.function is Base.helper


def test_methods_of_tensors_neither_ask_for_values_nor_leave_anything_behind():
    assert {"view", "add_", "sum", "to"} <= TENSOR_METHODS
    assert not TENSOR_METHODS & {"item", "tolist", "backward", "register_hook", "is_cuda", "grad"}
    assert "grad" not in FLOWING_ATTRIBUTES
