"""Settings that no model is meant to have."""

import numpy as np
import pytest

from taiyi_fx.findings import LayerSettings
from taiyi_fx.findings.rules.structure.layers import odd_layers
from tests.findings.given import evidence, knowing

NAMES = ("a", "b", "c", "d")


def of(frozen=(), given=1.0, **settings):
    numbers = {(name, "OutputRMS"): 1.0 for name in NAMES}
    numbers |= {(name, "InputRMS"): given for name in NAMES}
    numbers |= {(name, "WeightNorm"): 1.0 for name in NAMES}
    known = {name: LayerSettings(**own) for name, own in settings.items()}
    return [*odd_layers(knowing(evidence(numbers), settings=known, frozen=frozenset(frozen)))]


@pytest.mark.parametrize(
    ("settings", "kind", "says"),
    [
        ({"drops": 0.95}, "heavy_dropout", "0.95 of what passes it"),
        ({"epsilon": 100.0}, "large_epsilon", "100 to a variance of 1 "),
        ({"momentum": 0.99}, "large_momentum", "a momentum of 0.99"),
    ],
)
def test_a_setting_that_nobody_means_is_a_warning_at_the_first_layer(settings, kind, says):
    (found,) = of(b=settings, d=settings)
    assert (found.kind, found.severity, found.module) == (kind, "warning", "b")
    assert says in found.text
    assert found.text.endswith("1 more like it")


@pytest.mark.parametrize(
    "settings", [{"drops": 0.5}, {"epsilon": 1e-5}, {"epsilon": 0.5}, {"momentum": 0.1}]
)
def test_usual_ones_are_none(settings):
    assert of(b=settings) == []


def test_a_small_epsilon_is_none_however_small_the_input_is():
    assert of(b={"epsilon": 1e-3}, given=1e-6) == []


def test_statistics_that_move_in_a_frozen_backbone_are_a_note():
    moving = {"momentum": 0.1, "is_moving": True}
    (found,) = of(("a", "b", "c"), b=moving)
    assert (found.kind, found.severity, found.module) == ("moving_statistics", "note", "b")


@pytest.mark.parametrize("frozen", [("b",), NAMES], ids=["norms alone", "all"])
def test_norms_alone_that_are_frozen_and_models_that_do_not_learn_are_none(frozen):
    assert of(frozen, b={"momentum": 0.1, "is_moving": True}) == []


def test_a_layer_whose_forward_is_not_read_is_told_too():
    (found,) = of(z={"drops": 0.95})
    assert (found.kind, found.module) == ("heavy_dropout", "z")


def of_classes(*kinds, names="h.{}.act"):
    modules = [names.format(i) for i in range(len(kinds))]
    known = evidence({(name, "OutputRMS"): 1.0 for name in modules})
    settings = {name: LayerSettings(kind=kind) for name, kind in zip(modules, kinds, strict=True)}
    return knowing(known, settings=settings)


@pytest.mark.parametrize("kind", ["Identity", "Sigmoid"])
def test_the_one_layer_of_another_class_is_named(kind):
    (found,) = odd_layers(of_classes("ReLU", "ReLU", kind, "ReLU"))
    assert (found.kind, found.module, found.severity) == ("odd_layer", "h.2.act", "warning")
    assert f"is of class {kind}, where 3 others of its role are of class ReLU" in found.text


@pytest.mark.parametrize(
    "known",
    [
        of_classes("ReLU", "ReLU", "ReLU", "Tanh"),
        of_classes("Tanh", "ReLU", "ReLU", "ReLU"),
        of_classes("ReLU", "Tanh", "Tanh", "ReLU", "ReLU"),
        of_classes("Identity", "ReLU", "Identity", "Identity"),
        of_classes("ReLU", "Tanh", "ReLU"),
        of_classes("ReLU", "ReLU", "LayerNorm", "ReLU", "ReLU", names="{}"),
    ],
    ids=["last", "first", "two", "only here", "too few", "in a row of any layers"],
)
def test_layers_that_differ_on_purpose_are_none(known):
    assert [*odd_layers(known)] == []


def test_a_momentum_encoder_is_no_backbone():
    """Its weights are frozen and follow those that are trained, and its statistics do so, too."""
    numbers = {(name, "OutputRMS"): 1.0 for name in NAMES}
    numbers |= {(name, "WeightNorm"): np.linspace(1, 2, 40) for name in NAMES}
    settings = {"b": LayerSettings(momentum=0.1, is_moving=True)}
    known = knowing(evidence(numbers), settings=settings, frozen=frozenset("abc"))
    assert [*odd_layers(known)] == []
