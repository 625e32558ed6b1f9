"""NaN of tensors and parameters without elements."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import taiyi_fx
from taiyi_fx.findings import of_elements
from tests.findings.given import evidence

GAP = np.where(np.arange(10) == 4, np.nan, 1.0)


def bad(numbers):
    return {s.quantity for s, _ in evidence(numbers).bad}


@pytest.mark.parametrize("count", ["NonFinite", "OutputAbsMax"])
@pytest.mark.parametrize(("in_gap", "is_bad"), [(0, False), (3, True)])
def test_the_size_of_no_elements_is_no_number_and_not_bad(count, in_gap, is_bad):
    """As where a graph has no edges, or an expert no token; nor are gradients of it."""
    sizes = ("OutputRMS", "InputRMS", "OutputGradRMS")
    numbers = {("a", size): GAP for size in sizes}
    numbers["a", count] = np.where(np.arange(10) == 4, in_gap, float(count != "NonFinite"))
    assert (bad(numbers) - {count} == {*sizes}) == is_bad
    assert bool(bad(numbers)) == is_bad


def test_nan_in_other_numbers_at_such_a_step_and_at_others_is_bad():
    numbers = {("a", "OutputRMS"): GAP, ("a", "NonFinite"): 0 * np.ones(10)}
    assert bad(numbers | {("a", "WeightGradNorm"): GAP}) == {"WeightGradNorm"}
    assert bad(numbers | {("b", "OutputGradRMS"): GAP}) == {"OutputGradRMS"}
    assert bad(numbers | {("a", "OutputGradRMS"): GAP[::-1]}) == {"OutputGradRMS"}


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
