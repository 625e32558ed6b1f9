"""Modules, parameters and buffers of a model, as torch names them."""

import pytest
import torch
from torch import nn

import taiyi_fx
from taiyi_fx.passes import module_tree as tree


def model():
    tied, shared = nn.Linear(2, 2), nn.Sequential(nn.BatchNorm1d(2), nn.ReLU())
    made = nn.ModuleDict(
        {"a": shared, "b": nn.Sequential(tied, shared, tied), "c": nn.Linear(2, 2)}
    )
    made["c"].weight, made["c"].bias = tied.weight, None
    made["b"].register_module("nothing", None)
    made["b"].register_buffer("table", torch.ones(2), persistent=False)
    made["a"].register_buffer("table", made["b"].table)
    return made


def traced():
    return nn.Sequential(torch.jit.trace(nn.Sequential(nn.Linear(2, 2)), torch.ones(1, 2)))


PAIRS = {
    "modules": (lambda m: m.named_modules(), tree.named_modules),
    "modules by all names": (
        lambda m: m.named_modules(remove_duplicate=False),
        lambda m: tree.named_modules(m, remove_duplicate=False),
    ),
    "modules without names": (lambda m: m.modules(), tree.modules_of),
    "children": (lambda m: m.named_children(), tree.named_children),
    "children without names": (lambda m: m.children(), tree.children_of),
    "parameters": (lambda m: m.named_parameters(), tree.named_parameters),
    "own parameters": (
        lambda m: m.named_parameters(recurse=False),
        lambda m: tree.named_parameters(m, recurse=False),
    ),
    "parameters without names": (lambda m: m.parameters(), tree.parameters_of),
    "buffers": (lambda m: m.named_buffers(), tree.named_buffers),
    "buffers without names": (lambda m: m.buffers(), tree.buffers_of),
}


@pytest.mark.parametrize("make", [model, traced])
@pytest.mark.parametrize("what", PAIRS)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_they_are_those_of_torch_in_its_order(what, make):
    of_torch, ours = PAIRS[what]
    whole = make()
    for part in whole.modules():
        expected, found = [*of_torch(part)], [*ours(part)]
        assert len(expected) == len(found)
        assert all(a is b or a == b for a, b in zip(expected, found, strict=True))


def test_a_part_has_its_dotted_name():
    whole = model()
    for name, part in whole.named_modules(remove_duplicate=False):
        assert tree.submodule(whole, name) is part
    with pytest.raises(AttributeError, match="Sequential has no part '7', of 'b.7.x'"):
        tree.submodule(whole, "b.7.x")


def test_a_module_may_have_no_children():
    assert tree.has_children(model())
    assert not tree.has_children(nn.Linear(2, 2))


def refuse(self, *args, **kwargs):
    raise AssertionError


class Own(nn.Module):
    named_modules = modules = named_children = children = get_submodule = refuse
    named_parameters = parameters = named_buffers = buffers = __eq__ = __hash__ = refuse

    def __init__(self, *parts):
        super().__init__()
        for i, part in enumerate(parts):
            self.add_module(str(i), part)


def test_no_code_of_the_models_own_is_run():
    whole = Own(Own(nn.Linear(2, 2)), Own(nn.BatchNorm1d(2)))
    assert [name for name, _ in tree.named_modules(whole)] == ["", "0", "0.0", "1", "1.0"]
    assert len([*tree.parameters_of(whole)]) == 4
    assert len([*tree.buffers_of(whole)]) == 3
    assert tree.submodule(whole, "1.0") is vars(tree.submodule(whole, "1"))["_modules"]["0"]


class Equal(nn.Module):
    """Equal to all of its class."""

    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def __eq__(self, other):
        return isinstance(other, Equal)

    def __hash__(self):
        return 1

    def forward(self, x):
        return torch.relu(x) * self.factor


class InPython(Equal):
    def forward(self, x):
        try:
            return torch.relu(x) * self.factor
        finally:
            pass


class OfEqual(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.a, self.b, self.c = kind(2.0), kind(3.0), kind(5.0)

    def forward(self, x):
        return self.b(self.c(self.a(x)))


def largest_of(instrumented, step):
    instrumented(torch.ones(1, requires_grad=True)).sum().backward()
    instrumented.monitor.track(step)
    every = instrumented.monitor.get_output()
    return {
        name: of["OutputAbsMax"][step] for name, of in every.items() if step in of["OutputAbsMax"]
    }


@pytest.mark.parametrize("kind", [Equal, InPython])
def test_parts_that_are_equal_are_not_mixed_up(kind):
    model = OfEqual(kind)
    cfg = {kind: ["OutputAbsMax"], torch.relu: ["OutputAbsMax"]}
    instrumented = taiyi_fx.instrument(model, cfg)
    of_functions = {"a.relu()": 1, "c.relu()": 2, "b.relu()": 10}
    assert largest_of(instrumented, 0) == {"a": 2, "c": 10, "b": 30} | of_functions
    model.c = kind(7.0)  # counts at once, though it is equal to the one before
    assert instrumented(torch.ones(1)) == 42
    instrumented.monitor.pause()
    assert instrumented(torch.ones(1)) == 42
