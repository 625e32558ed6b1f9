"""Quantities of each named parameter: their series, and what has none."""

import math
import warnings

import pytest
import torch
from torch import nn

import taiyi_fx


def test_each_parameter_of_a_module_has_a_series_named_after_it():
    model = taiyi_fx.instrument(
        nn.Sequential(nn.Linear(3, 2), nn.MultiheadAttention(4, 2)),
        {"0": ["ParameterNorm"], "1": [["ParameterRMS", "every(1)", {"param": "in_proj_weight"}]]},
    )
    model.monitor.track(0)
    output = model.monitor.get_output()
    assert output["0"] == {
        "ParameterNorm.weight": {0: pytest.approx(model[0].weight.norm().item())},
        "ParameterNorm.bias": {0: pytest.approx(model[0].bias.norm().item())},
    }
    assert list(output["1"]) == ["ParameterRMS.in_proj_weight"]


def test_a_container_has_none_of_its_own():
    with pytest.raises(taiyi_fx.ConfigError, match=r"no parameters of its own \(its parts may"):
        taiyi_fx.instrument(nn.Sequential(nn.Linear(2, 2)), {"": ["ParameterNorm"]})
    model = taiyi_fx.instrument(nn.Sequential(nn.Linear(2, 2)), {nn.Module: ["ParameterNorm"]})
    assert [s.module for s in model.monitor.subscriptions] == ["0", "0"]


def test_a_frozen_parameter_has_no_gradient_and_says_so_by_its_name():
    model = taiyi_fx.instrument(nn.Sequential(nn.Linear(3, 2)), {"0": ["ParameterGradNorm"]})
    model[0].bias.requires_grad_(False)
    model(torch.randn(4, 3)).sum().backward()
    with pytest.warns(
        taiyi_fx.MonitorWarning, match="ParameterGradNorm.bias of '0': bias is frozen"
    ):
        model.monitor.track(0)
    assert list(model.monitor.get_output()["0"]) == ["ParameterGradNorm.weight"]


def test_options_make_series_of_their_own():
    entries = ["ParameterGradDeathRate", ["ParameterGradDeathRate", "every(1)", {"eps": 0.5}]]
    model = taiyi_fx.instrument(nn.Sequential(nn.Linear(3, 2, bias=False)), {"0": entries})
    model[0].weight.grad = torch.tensor([[0.0, 0.0, 0.0], [0.1, 0.0, 0.0]])
    model.monitor.track(0)
    assert model.monitor.get_output()["0"] == {
        "ParameterGradDeathRate.weight": {0: 0.5},
        "ParameterGradDeathRate.weight(eps=0.5)": {0: 1.0},
    }


def test_many_norms_are_one_call_a_shape_and_equal_those_of_each(monkeypatch):
    calls = []
    of_rows = torch.linalg.vector_norm
    monkeypatch.setattr(
        "taiyi_fx.reductions.sums.vector_norm",
        lambda x, *a, **k: calls.append(tuple(x.shape)) or of_rows(x, *a, **k),
    )
    model = taiyi_fx.instrument(
        nn.Sequential(*[nn.Linear(4, 4) for _ in range(5)], nn.Linear(4, 4000)),
        {nn.Linear: ["ParameterNorm", "ParameterRMS", "WeightNorm"]},
    )
    model.monitor.track(0)
    assert {(5, 16), (5, 4)} <= set(calls)  # the two large ones are added up in blocks
    assert len(calls) < 10
    for name, values in model.monitor.get_output().items():
        weight = model.get_submodule(name).weight.detach().double()
        assert values["ParameterNorm.weight"][0] == pytest.approx(weight.norm().item(), rel=1e-6)
        assert values["WeightNorm"] == values["ParameterNorm.weight"]
        rms = weight.norm().item() / math.sqrt(weight.numel())
        assert values["ParameterRMS.weight"][0] == pytest.approx(rms, rel=1e-6)


def test_a_gradient_after_a_due_step_without_one_has_a_reason_of_its_own():
    layer = nn.Linear(3, 2)
    model = taiyi_fx.instrument(nn.Sequential(layer), {"0": ["ParameterGradCorrelation"]})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", taiyi_fx.MonitorWarning)
        for step in range(3):
            layer.zero_grad()
            loss = model(torch.randn(4, 3)).sum()
            if step != 1:
                loss.backward()
            model.monitor.track(step)
    why = model.monitor.explain("0", "ParameterGradCorrelation.weight")
    assert "there was no gradient at the one before" in why
