"""Signal beside the noise of narrower formats, at every site, against tables in float64."""

import math

import pytest
import torch
from torch import nn

import taiyi_fx
from tests.quantities.references.precision import FORMATS, sqnr

ALL = ["InputSQNR", "OutputSQNR", "OutputGradSQNR", "WeightSQNR", "WeightGradSQNR"]


@pytest.mark.parametrize("name", sorted(FORMATS))
@pytest.mark.parametrize("micro_batches", [1, 2])
def test_each_site_has_that_of_its_tensors(name, micro_batches):
    torch.manual_seed(0)
    layer = nn.Linear(48, 40)
    watched = taiyi_fx.instrument(
        nn.Sequential(layer, nn.Tanh()), {"0": [[q, "every(1)", {"format": name}] for q in ALL]}
    )
    seen = {"InputSQNR": [], "OutputSQNR": [], "OutputGradSQNR": []}
    for _ in range(micro_batches):
        x = torch.randn(16, 48)
        y = layer(x).detach().requires_grad_()
        y.tanh().square().sum().backward()
        for quantity, tensor in zip(seen, (x, y.detach(), y.grad), strict=True):
            seen[quantity].append(tensor)
        watched(x).square().sum().backward()
    watched.monitor.track(0)
    found = {q: of[0] for q, of in watched.monitor.get_output()["0"].items()}
    own = {"WeightSQNR": [layer.weight.detach()], "WeightGradSQNR": [layer.weight.grad]}
    for quantity, tensors in {**seen, **own}.items():
        of_each = [(t.double().square().sum().item(), sqnr(t, name)) for t in tensors]
        signal = sum(s for s, _ in of_each)
        noise = sum(s / 10 ** (decibels / 10) for s, decibels in of_each)
        assert found[quantity] == pytest.approx(10 * math.log10(signal / noise), rel=1e-4), quantity


def test_two_formats_are_two_series_and_a_wrong_one_is_refused():
    cfg = {"0": [["OutputSQNR", "every(1)", {"format": f}] for f in ("mxfp4", "nvfp4")]}
    watched = taiyi_fx.instrument(nn.Sequential(nn.Linear(32, 32)), cfg)
    watched(torch.randn(64, 32)).sum().backward()
    watched.monitor.track(0)
    four = watched.monitor.get_output()["0"]
    assert {name.partition(".")[0] for name in four} == {
        "OutputSQNR(format='mxfp4')",
        "OutputSQNR(format='nvfp4')",
    }
    assert all(15 < of[0] < 25 for of in four.values())
    with pytest.raises(taiyi_fx.ConfigError, match="option 'format' must be 'float16' or"):
        taiyi_fx.instrument(nn.Linear(2, 2), {"": [["OutputSQNR", "every(1)", {"format": "fp8"}]]})


def test_what_outliers_do_to_the_features_beside_them_is_in_the_typical_one():
    x = torch.randn(64, 96)
    x[:, ::16] *= 20
    watched = taiyi_fx.instrument(
        nn.Linear(96, 2), {"": [["InputSQNR", "every(1)", {"format": "nvfp4"}]]}
    )
    for step, batch in enumerate((torch.randn(64, 96), x)):
        watched(batch).sum().backward()
        watched.monitor.track(step)
    found = watched.monitor.get_output()[""]
    assert found["InputSQNR"][1] > found["InputSQNR"][0] - 2
    assert found["InputSQNR.typical"][1] < found["InputSQNR.typical"][0] - 8
    signal = x.double()
    noise = torch.from_numpy(FORMATS["nvfp4"](signal.numpy())) - signal
    of_each = 20 * torch.log10(signal.norm(dim=0) / noise.norm(dim=0))
    assert found["InputSQNR.typical"][1] == pytest.approx(of_each.quantile(0.5).item(), rel=1e-4)


def test_nothing_lost_is_infinite_and_nothing_there_is_nan():
    watched = taiyi_fx.instrument(nn.Linear(4, 4), {"": ["WeightSQNR"]})
    for step, fill in enumerate((1.0, 0.0)):
        nn.init.constant_(watched.weight, fill)
        watched.monitor.track(step)
    typical = watched.monitor.get_output()[""]["WeightSQNR.typical"]
    assert typical[0] == math.inf
    assert math.isnan(typical[1])
    found = watched.monitor.get_output()[""]["WeightSQNR"]
    assert found[0] == math.inf
    assert math.isnan(found[1])


@pytest.mark.parametrize("norm", [nn.BatchNorm1d(6), nn.GroupNorm(2, 6)])
def test_a_weight_of_one_axis_has_one_whatever_the_axis_of_its_modules_features(norm):
    nn.init.normal_(norm.weight)
    watched = taiyi_fx.instrument(norm, {"": ["WeightSQNR", "WeightGradSQNR"]})
    watched(torch.randn(5, 6)).square().sum().backward()
    watched.monitor.track(0)
    found = watched.monitor.get_output()[""]
    for name, x in (("WeightSQNR", norm.weight), ("WeightGradSQNR", norm.weight.grad)):
        signal = x.detach().double()
        noise = torch.from_numpy(FORMATS["mxfp8_e4m3"](signal.numpy())) - signal
        expected = 20 * math.log10(signal.norm() / noise.norm())
        assert found[name][0] == pytest.approx(expected, rel=1e-4)
