"""Autograd's notes."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from taiyi_fx.findings import owners_of
from taiyi_fx.findings.facts.autograd import (
    Uses,
    axis_of,
    is_released,
    maker_of,
    makers_of,
    name_of,
    shape_of,
)
from taiyi_fx.passes.probes.eager_taps import EagerTap

X = torch.randn(4, 3, requires_grad=True)


def test_a_function_has_a_name_and_a_shape():
    node = (X @ torch.randn(3, 2)).grad_fn
    assert (name_of(node), shape_of(node)) == ("Mm", (4, 2))
    assert [name_of(x) for x in makers_of(node)] == ["torch::autograd::AccumulateGrad"]
    assert shape_of(X.unbind(0)[0].grad_fn) == ()


@pytest.mark.parametrize("dim", [0, 1, 2, -1, -2, -3])
def test_a_saved_axis_is_counted_from_the_front(dim):
    saved = X.unsqueeze(0).log_softmax(dim).grad_fn._saved_dim
    assert axis_of(saved, 3) == dim % 3


def test_what_made_an_operand_is_behind_what_rearranges_it():
    node = F.relu((X @ torch.randn(3, 2)).T.unsqueeze(0)).grad_fn
    assert name_of(maker_of(node)) == "Mm"
    assert maker_of(maker_of(maker_of(node))) is None


def test_what_the_monitor_reads_gradients_by_hands_on_what_it_is_given():
    read = EagerTap.apply(X @ torch.randn(3, 2), ())
    assert name_of(maker_of(F.relu(read).grad_fn)) == "Mm"


def test_the_users_of_a_function_are_known_with_the_place_of_the_operand():
    made = X.exp()
    uses = Uses.of((torch.ones(4, 3) * made + made).sum())
    (node,) = (x for x in uses.nodes if name_of(x) == "Exp")
    users = sorted((name_of(user), place) for user, place in uses.users[id(node)])
    assert users == [("Add", 1), ("Mul", 1)]
    assert len({id(x) for x in uses.nodes}) == len(uses.nodes) == 5


@pytest.mark.parametrize("made", [3.0, torch.ones(2), None])
def test_what_has_no_graph_has_no_functions(made):
    assert Uses.of(made).nodes == []


def test_what_a_backward_has_freed_is_known():
    x = torch.randn(4, 3, requires_grad=True)
    loss = nn.functional.mse_loss(x.exp(), torch.zeros(4, 3))
    assert not is_released(loss)
    loss.backward(retain_graph=True)
    assert not is_released(loss)
    loss.backward()
    assert is_released(loss)
    assert not is_released(1.0)
    assert not is_released(x.sum())  # which saves nothing


@pytest.mark.parametrize("has_bias", [True, False])
def test_the_module_before_a_function_is_the_nearest_though_it_has_no_bias(has_bias):
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2, bias=has_bias))
    owners = owners_of(dict(model.named_modules()))
    assert Uses.of(model(X), owners).owner(model(X).topk(1).values.grad_fn) == "1"
