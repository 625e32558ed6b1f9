"""How far a batch is from the statistics that inference uses."""

import pytest
import torch
from torch import nn

import taiyi_fx
from tests.quantities.stock.recorded import recorded


def test_a_window_is_the_mean_over_all_its_steps():
    layer = nn.BatchNorm1d(2, momentum=0.0)  # the running statistics stay 0 and 1
    batches = [torch.randn(8, 2) + shift for shift in (0.0, 1.0, 2.0)]
    found = recorded(layer, ["MeanTID", "linear(2, 0)"], *batches)
    each = [x.mean(0).norm().item() / 2**0.5 for x in batches]
    assert found[0] == pytest.approx(each[0], rel=1e-4)
    assert found[2] == pytest.approx(sum(each[1:]) / 2, rel=1e-4)


def test_micro_batches_are_batches_of_their_own():
    layer = nn.BatchNorm1d(2, momentum=0.0)
    model = taiyi_fx.instrument(
        nn.Sequential(layer), {"0": [["MeanTID", "linear(2, 1)"], "VarTID"]}
    )
    every = []
    for step, sizes in enumerate([(8, 3), (5,)]):
        every.append([torch.randn(n, 2) + n for n in sizes])
        for x in every[-1]:
            model(x).sum().backward()
        model.monitor.track(step)
    found = model.monitor.get_output()["0"]
    each = [x.mean(0).norm().item() / 2**0.5 for step in every for x in step]
    assert found["MeanTID"] == {1: pytest.approx(sum(each) / 3, rel=1e-6)}
    apart = [(x.std(0) - 1).norm().item() / 2**0.5 for x in every[0]]
    assert found["VarTID"][0] == pytest.approx(sum(apart) / 2, rel=1e-6)


def test_the_papers_variant_is_a_mean_over_channels():
    layer = nn.BatchNorm1d(2, momentum=0.0)
    x = torch.randn(8, 2)
    found = recorded(layer, ["VarTID", "every(1)", {"variant": "paper"}], x)
    expected = ((x.std(0) - 1).abs() / x.std(0)).mean().item()
    assert found[0] == pytest.approx(expected, rel=1e-4)


def test_a_window_of_due_steps_is_of_their_batches_alone():
    cfg = {"0": [["MeanTID", "every(2)", {"window": "due"}], ["VarTID", "every(2)"]]}
    plain = {"0": [["MeanTID", "every(1)"]]}
    found = []
    for asked in (cfg, plain):
        torch.manual_seed(0)
        model = taiyi_fx.instrument(nn.Sequential(nn.BatchNorm1d(3)), asked)
        for step in range(4):
            model(torch.randn(5, 3) + step).sum().backward()
            model.monitor.track(step)
        found.append(model.monitor.get_output()["0"])
    due, every = found
    assert due["MeanTID"] == {step: every["MeanTID"][step] for step in (0, 2)}
    assert list(due["VarTID"]) == [0, 2]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_statistics_of_half_precision_are_taken_in_a_wide_type(dtype):
    layer = nn.BatchNorm1d(5).to(dtype)
    x = (torch.randn(64, 5) * 3 + 1).to(dtype)
    model = taiyi_fx.instrument(nn.Sequential(layer), {"0": ["MeanTID", "VarTID"]})
    model(x).sum().backward()
    model.monitor.track(0)
    found = model.monitor.get_output()["0"]
    rows, sigma = x.double(), layer.running_var.double().sqrt()
    apart = (rows.mean(0) - layer.running_mean.double()).norm(), (rows.std(0) - sigma).norm()
    for name, size in zip(("MeanTID", "VarTID"), apart, strict=True):
        assert found[name][0] == pytest.approx((size / sigma.norm()).item(), rel=1e-6)
