"""Places: the reductions there, and calls with their arguments."""

from dataclasses import dataclass

import pytest
import torch
from torch import nn

import taiyi_fx
from taiyi_fx.quantities import places
from taiyi_fx.quantities.places import previous
from taiyi_fx.reductions import Norm


def test_a_source_of_an_earlier_step_counts_its_steps():
    assert previous(previous(places.output.raw)).ago == 2


def test_a_reduction_is_a_class_with_all_methods():
    with pytest.raises(TypeError, match="give the reduction's class, Norm"):
        places.output.reduce(Norm())
    with pytest.raises(TypeError, match="the reduction Norm has no measure_pair"):
        places.pair.reduce(Norm)
    with pytest.raises(TypeError, match="the reduction Norm has no measure_call"):
        places.call.reduce(Norm)


@dataclass(frozen=True)
class Agreement:
    """The product of a call's two arguments, beside the sum of its result."""

    def measure_call(self, call, result):
        a, b = (*call.args, *call.kwargs.values())
        return (a.detach() * b.detach()).sum(), result.detach().sum()

    def merge(self, a, b):
        return a[0] + b[0], a[1] + b[1]

    def scale(self, state, factor):
        return state

    def finish(self, state):
        return state


class Joined(nn.Module):
    def forward(self, a, b):
        return a + 2 * b


class Pairs(nn.Module):
    def __init__(self, stays_python):
        super().__init__()
        self.joined, self.stays_python = Joined(), stays_python

    def forward(self, x):
        if self.stays_python and x.sum() > 1e9:
            raise ValueError
        return self.joined(x, b=x.sin())


@pytest.mark.parametrize("stays_python", [False, True])
@pytest.mark.parametrize("backend", [None, "aot_eager"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_call_is_all_its_arguments_and_its_result(stays_python, backend):
    @taiyi_fx.quantity("agreement", found=places.call.reduce(Agreement))
    def agreement(found):
        return {"": found[0], "sum": found[1]}

    x = torch.linspace(0, 1, 6)
    watched = taiyi_fx.instrument(Pairs(stays_python), {"joined": [agreement, "OutputRMS"]})
    run = watched if backend is None else torch.compile(watched, backend=backend)
    for _ in range(2):
        run(x.requires_grad_()).sum().backward()
    watched.monitor.track(0)
    torch.compiler.reset()
    found = watched.monitor.get_output()["joined"]
    assert found["agreement"][0] == pytest.approx(2 * (x * x.sin()).sum().item())
    assert found["agreement.sum"][0] == pytest.approx(2 * (x + 2 * x.sin()).sum().item())
    assert len(found) == 3
