"""Modules whose settings are not those of their siblings."""

from itertools import pairwise

import pytest
import torch
from torch import nn

import taiyi_fx
from taiyi_fx.findings.facts.attributes import attributes_of
from taiyi_fx.findings.rules.structure.odd_attributes import odd_attributes
from tests.findings.given import evidence, knowing

N = 5


def found_in(*layers):
    model = nn.Module()
    model.add_module("layers", nn.ModuleList(layers))
    known = evidence({(f"layers.{i}", "OutputRMS"): 1.0 for i in range(len(layers))})
    known = knowing(known, attributes=attributes_of(dict(model.named_modules())))
    return [*odd_attributes(known)]


def slopes(*of):
    return [nn.LeakyReLU(slope) for slope in of]


def test_one_with_another_setting_is_named_with_both():
    (found,) = found_in(*slopes(0.01, 0.01, 0.9, 0.01, 0.01))
    assert (found.kind, found.severity, found.module) == ("odd_layer", "warning", "layers.2")
    assert "negative_slope=0.9, and not 0.01" in found.text


@pytest.mark.parametrize(
    "layers",
    [
        slopes(0.01, 0.01, 0.02, 0.01, 0.01),
        slopes(0.9, 0.01, 0.01, 0.01, 0.01),
        slopes(0.01, 0.01, 0.01, 0.01, 0.9),
        slopes(0.01, 0.9, 0.01),
        slopes(0.01, 0.9, 0.9, 0.01, 0.01),
        slopes(0.1, 0.2, 0.5, 0.9, 2.0),
        [*slopes(0.01, 0.01), nn.ReLU(), *slopes(0.01, 0.01)],
        [nn.Linear(4 + i, 5 + i) for i in range(N)],
    ],
    ids=["near", "first", "last", "few", "two", "all apart", "of another class", "sizes"],
)
def test_ends_of_few_or_near_ones_are_none(layers):
    assert found_in(*layers) == []


class Block(nn.Module):
    """Two layers, with a shortcut where what it is given is as wide as what it returns."""

    def __init__(self, given, returned):
        super().__init__()
        self.has_shortcut = given == returned
        self.fc = nn.Linear(given, returned)


def test_settings_that_follow_from_sizes_are_none():
    widths = [4, 5, 6, 6, 7, 8]
    assert found_in(*(Block(a, b) for a, b in pairwise(widths))) == []
    blocks = [Block(4, 4) for _ in range(N)]
    blocks[2].has_shortcut = False
    (found,) = found_in(*blocks)
    assert "has_shortcut=False, and not True" in found.text


def test_a_layer_of_another_size_may_lack_a_bias():
    layers = [nn.Linear(4, 4) for _ in range(N)]
    assert found_in(*layers[:2], nn.Linear(4, 8, bias=False), nn.Linear(8, 4), *layers[2:]) == []


def test_a_lazy_layer_that_was_not_called_has_no_size():
    assert found_in(*(nn.LazyLinear(4) for _ in range(N))) == []


def test_one_in_another_mode_is_named():
    norms = [nn.BatchNorm1d(4) for _ in range(N)]
    norms[2].eval()
    (found,) = found_in(*norms)
    assert (found.module, "evaluation mode" in found.text) == ("layers.2", True)


@pytest.mark.parametrize("i", [2, N - 1])
def test_a_weight_that_is_no_parameter_is_named_wherever_it_is(i):
    layers = [nn.Linear(4, 4) for _ in range(N)]
    weight = layers[i].weight.detach()
    del layers[i].weight
    layers[i].register_buffer("weight", weight)
    (found,) = found_in(*layers)
    assert found.module == f"layers.{i}"
    assert "has the parameters bias, and not bias, weight" in found.text


def test_the_monitor_knows_the_attributes_of_its_model():
    model = nn.Sequential(*(part for _ in range(N) for part in (nn.Linear(3, 3), nn.ELU())))
    model[5].alpha = 9.0
    watched = taiyi_fx.instrument(model, {"ELU": ["OutputRMS"]})
    watched(torch.ones(2, 3)).sum().backward()
    watched.monitor.track(0)
    assert [(one.kind, one.module) for one in watched.monitor.findings] == [("odd_layer", "5")]
