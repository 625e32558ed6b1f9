"""Tensors and parameters without elements."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import taiyi_fx
from taiyi_fx.findings import of_elements
from tests.findings.given import evidence


@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors")
def test_parameters_without_elements_have_no_numbers():
    layer = nn.LazyLinear(3)
    layer.register_parameter("gamma", nn.Parameter(torch.zeros(0)))
    modules = {"a": layer, "b": nn.Linear(0, 2), "c": nn.Linear(2, 2)}
    quantities = ("ParameterRMS.weight", "ParameterRMS.gamma", "ParameterRMS.bias", "InputRMS")
    every = evidence({(name, q): 1.0 for name in modules for q in quantities}).series
    left = {(s.module, s.quantity) for s in every} - {
        (s.module, s.quantity) for s in of_elements(every, modules)
    }
    assert left == {("a", "ParameterRMS.gamma")} | {("b", q) for q in quantities}


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.router = nn.Linear(20, 4)
        self.experts = nn.ModuleList(nn.Linear(20, 5) for _ in range(4))
        self.none = nn.Parameter(torch.zeros(0))

    def forward(self, x):
        weight, chosen = self.router(x).softmax(-1).max(-1)
        out = x.new_zeros(len(x), 5) + self.none.sum()
        for i, expert in enumerate(self.experts):
            rows = (chosen == i).nonzero().squeeze(1)
            out = out.index_add(0, rows, expert(x[rows]) * weight[rows, None])
        return out


def test_experts_without_a_token_and_an_empty_parameter_bring_no_finding():
    torch.manual_seed(0)
    net = Experts()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    model = taiyi_fx.instrument(net, optimizer=optimizer)
    for step in range(60):
        optimizer.zero_grad()
        F.cross_entropy(model(torch.randn(4, 20)), torch.randint(5, (4,))).backward()
        model.monitor.track(step)
        optimizer.step()
    assert model.monitor.findings == []
