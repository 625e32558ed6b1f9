"""Places: their readings, options, and what a module lacks there."""

from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import taiyi_fx
from taiyi_fx.passes.ir import Site
from taiyi_fx.quantities import places
from taiyi_fx.quantities.function_call import FunctionCall
from taiyi_fx.quantities.heads import ATTENTION
from taiyi_fx.quantities.places import NotApplicable, Unobservable, input_pick, previous
from taiyi_fx.reductions import AttentionWeights, Moments, Norm


def test_a_reading_is_a_site_and_a_reduction_with_the_modules_axis():
    reading = places.output.moments(reduce="feature").reading(nn.Conv2d(2, 2, 1), {})
    assert reading.site == Site("output")
    assert reading.reduction == Moments(reduce="feature", feature_axis=-3)
    assert places.weight.norm.reading(nn.Linear(2, 2), {}).site == Site("parameter", "weight")


def test_open_parameters_are_options_and_fixed_ones_are_not():
    assert set(places.input.moments.options) == {"reduce", "feature_axis", "tensor"}
    assert set(places.input.moments(reduce="all").options) == {"feature_axis", "tensor"}
    assert set(places.weight.norm.options) == {"param"}
    assert set(places.buffer("mean").raw.options) == {"max_elements"}
    assert set(places.pair.noise.options) == {"tensor"}
    assert set(places.call.reduce(AttentionWeights).options) == {"queries"}


def test_a_source_of_an_earlier_step_counts_its_steps():
    assert previous(previous(places.output.raw)).ago == 2


def test_an_argument_is_known_by_position_and_by_name():
    class Two(nn.Module):
        def forward(self, x, mask=None):
            return x

    assert input_pick(Two(), 1) == (1, "mask")
    assert input_pick(Two(), "mask") == (1, "mask")
    assert input_pick(Two(), "other") == (None, "other")
    assert input_pick(Two(), 5) == (5, "")


@pytest.mark.parametrize(("source", "module", "why"), [
    (places.weight.norm, nn.ReLU(), "has no weight"),
    (places.input.norm, nn.ModuleList([nn.ReLU()]), "only holds its parts"),
    (places.input.norm, nn.ModuleList(), "has no forward, and is never called"),
    (places.input_grad.norm, nn.ReLU(inplace=True), "changes its input in place"),
    (places.pair.noise, nn.ReLU(), "has no weight"),
])  # fmt: skip
def test_what_a_module_lacks_is_said(source, module, why):
    with pytest.raises(NotApplicable, match=why):
        source.reading(module, {})


@pytest.mark.filterwarnings("ignore:.*torch.jit")
def test_a_script_module_cannot_be_observed():
    with pytest.raises(Unobservable, match="is a ScriptModule"):
        places.output.norm.reading(torch.jit.script(nn.Linear(2, 2)), {})


def test_a_reduction_is_a_class_with_all_methods():
    with pytest.raises(TypeError, match="give the reduction's class, Norm"):
        places.output.reduce(Norm())
    with pytest.raises(TypeError, match="the reduction Norm has no measure_pair"):
        places.pair.reduce(Norm)
    with pytest.raises(TypeError, match="the reduction Norm has no measure_call"):
        places.call.reduce(Norm)


def test_calls_of_a_group_of_functions_know_the_heads_of_their_module():
    source = places.CallPlace(ATTENTION).reduce(AttentionWeights)
    attention = nn.MultiheadAttention(8, 4)
    for function in (ATTENTION, F.softmax, F.scaled_dot_product_attention):
        reading = source.reading(FunctionCall(function, caller=attention), {"queries": 5})
        assert reading.site == Site("call")
        assert reading.reduction == AttentionWeights(queries=5, heads=4)
    for module in (attention, FunctionCall(torch.relu), FunctionCall(F.softmax)):
        with pytest.raises(NotApplicable, match="is not a call of attention"):
            source.reading(module, {})


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
