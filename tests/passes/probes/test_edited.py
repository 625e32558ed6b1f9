"""Edits: what changes a value or its gradient, as nodes of a graph."""

import pytest
import torch
from torch import fx

from taiyi_fx.passes.ir import Change, Site
from taiyi_fx.passes.probes.edited import (
    Edited,
    GradientEdit,
    has_edit,
    hook_first,
    is_edit,
    own_copy,
)


def double(x):
    return 2 * x


def test_a_value_is_changed_for_whoever_comes_later():
    edited = Edited("fc", [Change(Site("output", 1), double)])
    x = torch.ones(2)
    first, second = edited((x, x))
    assert first is x
    assert torch.equal(second, 2 * x)


@pytest.mark.parametrize("is_fresh", [True, False])
@pytest.mark.parametrize("port", ["output_grad", "input_grad"])
def test_a_gradient_is_changed_on_its_way_back(port, is_fresh):
    edited = Edited("fc", [Change(Site(port), double)], is_fresh=is_fresh)
    x = torch.ones(2, requires_grad=True)
    edited(x * 3).sum().backward()
    assert torch.equal(x.grad, torch.full((2,), 6.0))


def test_several_are_made_in_order_and_going_back_in_reverse():
    order = []
    changes = [
        Change(Site("output_grad"), lambda g, i=i: (order.append(i), g)[1]) for i in range(3)
    ]
    x = torch.ones(1, requires_grad=True)
    Edited("fc", changes)(x * 1).sum().backward()
    assert order == [0, 1, 2]


WRONG = {
    "None": (lambda g: None, TypeError, "returned None for a tensor of shape \\(2,\\)"),
    "shape": (lambda g: g[:1], ValueError, "both need the same shape, dtype and device"),
    "in place": (lambda g: g.add_(1), ValueError, "changed the gradient in place"),
}


@pytest.mark.parametrize(("function", "kind", "text"), WRONG.values(), ids=WRONG)
def test_a_function_of_a_gradient_that_is_none_is_refused_by_name(function, kind, text):
    with pytest.raises(kind, match=f"the edit of the gradient at here.*{text}"):
        GradientEdit("here", function).changed(torch.ones(2))


def test_what_finds_no_tensor_says_what_passes():
    edited = Edited("", [Change(Site("output", "logits"), double)])
    with pytest.raises(LookupError, match="the output of 'the model' finds no tensor at 'logits'"):
        edited({"loss": torch.ones(1)})


def test_a_later_hook_of_ours_comes_before_those_that_are_there():
    order = []
    x = torch.ones(1, requires_grad=True)
    y = x * 2
    y.register_hook(lambda g: order.append("there"))
    hook_first(y, lambda g: order.append("first"))
    y.sum().backward()
    assert order == ["first", "there"]
    assert not has_edit(y)
    z = x * 2
    hook_first(z, GradientEdit("here", double))
    assert has_edit(z)


@pytest.mark.parametrize(
    "x",
    [torch.randn(2, 3), torch.randn(2, 3).t(), torch.ones(1, 3).expand(4, 3),
     torch.randn(2, 1, 3).as_strided((2, 1, 3), (3, 7, 1))],
)  # fmt: skip
def test_the_same_as_memory_of_its_own_has_the_strides(x):
    made = own_copy(x)
    assert torch.equal(made, x)
    assert made.stride() == x.stride()


def test_an_edit_is_told_from_other_nodes():
    graph = fx.Graph()
    x = graph.placeholder("x")
    assert is_edit(graph.call_function(Edited("fc", [Change(Site("output"), double)]), (x,)))
    assert not is_edit(graph.call_function(double, (x,)))
