"""A loss, over micro-batches, and what is none."""

import pytest
import torch
from torch import nn

import taiyi_fx


def test_the_loss_of_several_micro_batches_is_their_mean():
    loss = taiyi_fx.instrument(nn.MSELoss(), {"": ["Loss"]})
    loss(torch.ones(4), torch.zeros(4))
    loss(3 * torch.ones(4), torch.zeros(4))
    loss.monitor.track(0)
    assert loss.monitor.get_output()[""]["Loss"] == {0: 5}


def test_an_output_that_is_no_scalar_is_told_with_its_shape():
    model = taiyi_fx.instrument(nn.Identity(), {"": ["Loss"]})
    model(torch.ones(4))
    with pytest.warns(taiyi_fx.MonitorWarning, match=r"the tensor has the shape \(4,\)"):
        model.monitor.track(0)
    assert not model.monitor.get_output().get("", {}).get("Loss")


def test_in_compiled_code_an_output_that_is_no_scalar_has_no_loss_and_no_nan():
    model = taiyi_fx.instrument(nn.Sequential(nn.Linear(4, 3)), {"0": ["Loss"]})
    torch.compile(model, backend="aot_eager", fullgraph=True)(torch.randn(2, 4)).sum().backward()
    model.monitor.track(0)
    assert not model.monitor.records
    assert "a scalar is read here" in model.monitor.explain("0", "Loss")
    assert model.monitor.findings == []
