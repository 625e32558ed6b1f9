"""Weights that a loss uses in several ways."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from taiyi_fx.findings import loss_graph_of, owners_of

NETS = {
    "linear": (nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1, bias=False)), (5, 3)),
    "sequences": (nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1)), (2, 5, 3)),
    "images": (nn.Sequential(nn.Conv2d(1, 4, 3), nn.SiLU(), nn.Conv2d(4, 2, 3)), (2, 1, 8, 8)),
}


def several_ways(loss, net):
    return loss_graph_of(loss, owners_of(dict(net.named_modules()))).several_ways


@pytest.mark.parametrize("name", NETS)
def test_a_loss_of_a_derivative_uses_all_weights_once_more(name):
    net, shape = NETS[name]
    x = torch.randn(shape, requires_grad=True)
    (slope,) = torch.autograd.grad(net(x).sum(), x, create_graph=True)
    assert several_ways(slope.square().mean() + net(x).mean(), net) == {"0", "2"}


@pytest.mark.parametrize("name", NETS)
def test_calls_of_a_layer_use_its_weight_in_one_way(name):
    net, shape = NETS[name]
    loss = net(torch.randn(shape)).mean() + net(torch.randn(shape)).square().mean()
    assert several_ways(loss, net) == set()


def test_under_autocast_a_weight_is_used_in_one_way():
    net, shape = NETS["linear"]
    with torch.autocast("cpu", torch.bfloat16):
        loss = net(torch.randn(shape)).float().mean() + net(torch.randn(shape)).float().mean()
    assert several_ways(loss, net) == set()


def test_a_penalty_uses_its_weight_once_more():
    net, shape = NETS["linear"]
    loss = F.mse_loss(net(torch.randn(shape)), torch.zeros(5, 1)) + net[0].weight.norm()
    assert several_ways(loss, net) == {"0"}


def is_of_one_forward(loss, net):
    return loss_graph_of(loss, owners_of(dict(net.named_modules()))).is_of_one_forward


@pytest.mark.parametrize("name", NETS)
def test_a_loss_of_one_forward_takes_each_weight_once(name):
    net, shape = NETS[name]
    assert is_of_one_forward(net(torch.randn(shape)).mean(), net)
    twice = net(torch.randn(shape)).mean() + net(torch.randn(shape)).mean()
    assert not is_of_one_forward(twice, net)
    assert not is_of_one_forward(torch.ones(2, requires_grad=True).sum(), net)


def test_a_loss_of_what_a_step_made_of_the_weights_takes_none_as_it_is():
    net, shape = NETS["linear"]
    weights = dict(net.named_parameters())
    found = torch.autograd.grad(net(torch.randn(shape)).mean(), [*weights.values()])
    fast = {n: w - 0.1 * g for (n, w), g in zip(weights.items(), found, strict=True)}
    loss = torch.func.functional_call(net, fast, (torch.randn(shape),)).mean()
    assert not is_of_one_forward(loss, net)


def test_a_recurrent_layer_in_one_function_takes_its_weights_once():
    net = nn.ModuleDict({"words": nn.Embedding(5, 3), "lstm": nn.LSTM(3, 4, batch_first=True)})
    loss = net["lstm"](net["words"](torch.ones(2, 6, dtype=torch.long)))[0].mean()
    assert is_of_one_forward(loss, net)
