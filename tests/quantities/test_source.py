"""Sources: their readings at a module, their options, and what a module lacks."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from taiyi_fx.passes.ir import Site
from taiyi_fx.quantities import places
from taiyi_fx.quantities.function_call import FunctionCall
from taiyi_fx.quantities.heads import ATTENTION
from taiyi_fx.quantities.source import NotApplicable, Unobservable, input_pick
from taiyi_fx.reductions import AttentionWeights, Moments


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
