"""Settings of single layers."""

import torch
from torch import nn

from taiyi_fx.findings.facts.of_layers import LayerSettings, settings_of


def of(**layers):
    return settings_of(layers)


def test_dropouts_and_norms_have_settings_and_other_layers_none():
    found = of(a=nn.Dropout(0.3), b=nn.LayerNorm(4, eps=0.1), c=nn.Linear(2, 2), d=nn.Dropout(0.0))
    assert found == {
        "a": LayerSettings(drops=0.3),
        "b": LayerSettings(epsilon=0.1, kind="LayerNorm"),
    }


def test_a_momentum_is_that_of_running_statistics():
    found = of(a=nn.BatchNorm1d(2, momentum=0.7), b=nn.InstanceNorm1d(2), c=nn.BatchNorm1d(2))
    assert {name: own.momentum for name, own in found.items()} == {"a": 0.7, "b": 0.0, "c": 0.1}
    assert of(a=nn.BatchNorm1d(2, momentum=None))["a"].momentum == 0


def test_a_norm_moves_that_is_frozen_and_in_training_mode():
    norm = nn.BatchNorm1d(2)
    assert not of(a=norm)["a"].is_moving
    norm.requires_grad_(False)
    assert of(a=norm)["a"].is_moving
    assert not of(a=norm.eval())["a"].is_moving


def test_a_norm_in_evaluation_mode_is_unfed_until_a_batch_has_passed_it_or_it_is_loaded():
    norm = nn.BatchNorm1d(2)
    assert not of(a=norm)["a"].is_unfed
    assert of(a=norm.eval())["a"].is_unfed
    norm.train()(torch.randn(4, 2))
    assert not of(a=norm.eval())["a"].is_unfed
    converted = nn.BatchNorm1d(2).eval()
    converted.get_buffer("running_var").mul_(2)
    assert not of(a=converted)["a"].is_unfed
    assert not of(a=nn.BatchNorm1d(2, device="meta").eval())["a"].is_unfed


def test_activations_and_norms_of_torch_have_their_class_and_attention_has_none():
    own = type("Gelu", (nn.GELU,), {})()
    layers = (nn.ReLU(), nn.Identity(), nn.GELU(), own, nn.MultiheadAttention(4, 1), nn.PReLU())
    found = of(**{f"l{i}": layer for i, layer in enumerate(layers)})
    assert {name: one.kind for name, one in found.items()} == {
        "l0": "ReLU",
        "l1": "Identity",
        "l2": "GELU",
    }
    assert of(a=nn.LayerNorm(4))["a"].kind == "LayerNorm"
