"""Places: their readings, options, and what a module lacks there."""

import pytest
import torch
from torch import nn

from taiyi_fx.passes.ir import Site
from taiyi_fx.quantities import places
from taiyi_fx.quantities.places import NotApplicable, Unobservable, input_pick, previous
from taiyi_fx.reductions import Moments, Norm


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
