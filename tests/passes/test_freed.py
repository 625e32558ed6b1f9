"""Tensors whose memory was given back."""

import pytest
import torch
from torch import nn

import taiyi_fx
from taiyi_fx.passes.freed import LOW, address_of, is_freed


def freed(x):
    x.untyped_storage().resize_(0)
    return x


def test_a_tensor_with_elements_and_no_memory_is_freed():
    assert is_freed(freed(torch.ones(3)))
    rest = torch.ones(2, 3)[1:]
    assert is_freed(freed(rest))
    assert address_of(rest) < LOW


@pytest.mark.parametrize(
    "x",
    [
        torch.ones(3),
        torch.ones(0),
        torch.ones(3, 0)[:, :0],
        torch.ones(3, device="meta"),
        torch.ones(3).to_sparse(),
        torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged),
    ],
    ids=["dense", "empty", "view", "meta", "sparse", "nested"],
)
def test_others_are_not(x):
    assert not is_freed(x)


class Frees(nn.Module):
    """Frees an activation that autograd does not need, as code that offloads does."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        y = self.first(x)
        z = y * 1
        freed(y)
        return self.second(z)


@pytest.mark.filterwarnings("ignore::taiyi_fx.MonitorWarning")
@pytest.mark.parametrize(
    "quantity", ["WeightNorm", "ParameterRMS", "EffectiveStep", "WeightStableRank"]
)
def test_a_freed_weight_has_no_reading_and_the_reason(quantity):
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    optimizer = torch.optim.Adam(model.parameters())
    instrumented = taiyi_fx.instrument(model, {"*": [quantity]}, optimizer=optimizer)
    for step in range(2):
        instrumented(torch.randn(2, 4)).sum().backward()
        optimizer.step()
        if step:
            freed(model[0].weight)
        instrumented.monitor.track(step)
    instrumented.monitor.flush()
    assert any("memory was given back" in why for why in instrumented.monitor.missing.values())


@pytest.mark.filterwarnings("ignore::taiyi_fx.MonitorWarning")
def test_a_freed_activation_ends_nothing():
    instrumented = taiyi_fx.instrument(nn.Sequential(Frees()), {"*": ["OutputRMS", "InputRMS"]})
    x = torch.randn(2, 4)
    for step in range(3):
        instrumented(x).sum().backward()
        instrumented.monitor.track(step)
    assert instrumented.monitor.get_output()["0.second"]["OutputRMS"].keys() == {0, 1, 2}
