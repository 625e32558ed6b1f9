"""One pass over a tensor on a GPU tells what float64 tells, and serves all who ask."""

import math
import warnings

import pytest
import torch
from torch import nn

import taiyi_fx
from taiyi_fx.passes.probes import one_pass
from tests.cuda.conftest import on_cuda

pytestmark = on_cuda

DTYPES = [torch.float32, torch.float16, torch.bfloat16]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2048, 2049, 100_003, 2**21 + 1, 50_000_017])
@pytest.mark.parametrize("odd", [(), (math.nan,), (math.inf, -math.inf), (math.nan, math.inf)])
def test_numbers_are_those_of_float64(n, dtype, odd):
    x = (3 * torch.randn(n, device="cuda") + 1).to(dtype)
    odd = odd[:n]
    for i, value in enumerate(odd):
        x[-1 if i == 0 else n // 2] = value
    told = one_pass.elements_of(x)
    wide = x.double()
    kept = wide[wide.isfinite()]
    finite, total, norm, most = told.finite
    assert finite == n - len(odd) == kept.numel()
    assert told.nan == wide.isnan().sum()
    assert told.bad == len(odd)

    def near(found, expected, slack=0.0):
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=slack, equal_nan=True)

    near(told.norm, wide.norm())
    near(one_pass.norm_of(x), wide.norm())
    near(told.square_sum, wide.square().sum())
    near(told.abs_max, wide.abs().amax())
    near(total, kept.sum(), slack=1e-12 * float(kept.abs().sum()))
    near(norm, kept.norm())
    near(most, kept.abs().amax() if kept.numel() else wide.new_zeros(()))


@pytest.mark.parametrize("power", [-44, -30, 30, 38])
def test_no_square_leaves_the_range(power):
    x = torch.full((3000,), 10.0**power, device="cuda")
    told = one_pass.elements_of(x)
    torch.testing.assert_close(told.norm, x.double().norm(), rtol=1e-12, atol=0)
    assert told.norm == one_pass.norm_of(x)
    assert told.abs_max == x[0].double()


@pytest.mark.parametrize(
    "way",
    [
        lambda x: x[:, ::2],
        lambda x: x.t(),
        lambda x: x[1:],
        lambda x: x.expand(3, *x.shape),
        lambda x: x.view(torch.complex64).conj().imag,
        lambda x: x.reshape(2, 6, 10, -1).to(memory_format=torch.channels_last),
    ],
)
def test_any_layout(way):
    x = way(torch.randn(60, 34, device="cuda"))
    told = one_pass.elements_of(x)
    finite, total, *_ = told.finite
    assert finite == x.numel()
    torch.testing.assert_close(told.norm, x.double().norm(), rtol=1e-12, atol=0)
    torch.testing.assert_close(one_pass.norm_of(x), told.norm, rtol=1e-12, atol=0)
    torch.testing.assert_close(total, x.double().sum(), rtol=1e-9, atol=1e-9)


def test_equal_runs_have_equal_bits():
    x = torch.randn(10_000_019, device="cuda")
    first, second = one_pass.elements_of(x), one_pass.elements_of(x.clone())
    assert torch.equal(first.vector, second.vector)
    assert torch.equal(one_pass.norm_of(x), one_pass.norm_of(x.clone()))


def test_streams_have_no_room_in_common():
    xs = [torch.randn(3_000_017, device="cuda") for _ in range(8)]
    streams = [torch.cuda.Stream() for _ in xs]
    torch.cuda.synchronize()
    found = []
    for _ in range(20):
        for x, stream in zip(xs, streams, strict=True):
            with torch.cuda.stream(stream):
                found.append((x, one_pass.elements_of(x).norm))
                found.append((x, one_pass.norm_of(x)))
    torch.cuda.synchronize()
    for x, norm in found:
        torch.testing.assert_close(norm, x.double().norm(), rtol=1e-12, atol=0)


def test_a_captured_graph_replays_it():
    x = torch.randn(3_000_017, device="cuda")
    one_pass.elements_of(x), one_pass.norm_of(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        told, norm = one_pass.elements_of(x), one_pass.norm_of(x)
    for _ in range(3):
        x.normal_()
        graph.replay()
        torch.testing.assert_close(told.norm, x.double().norm(), rtol=1e-12, atol=0)
        torch.testing.assert_close(norm, told.norm, rtol=1e-12, atol=0)
        assert torch.equal(one_pass.elements_of(x).vector, told.vector)


QUANTITIES = ["NonFinite", "OutputRMS", "OutputAbsMax", "InputSndNorm"]


def values(model, x):
    """What two steps record of a linear layer, whatever it finds."""
    model = taiyi_fx.instrument(model, {"0": QUANTITIES})
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "step .: the first NaN", taiyi_fx.MonitorWarning)
        for step in range(2):
            model(x).square().sum().backward()
            model.monitor.track(step)
            model.zero_grad()
    return {(r.quantity, r.step): float(r.value) for r in model.monitor.records}


def test_it_serves_all_who_ask(monkeypatch):
    told, norms = [], []
    one_pass.elements_of(torch.ones(3, device="cuda"))
    of_all, of_one = one_pass._FOUND[0]
    kernels = one_pass._Kernels(
        lambda x: told.append(x.numel()) or of_all(x),
        lambda x: norms.append(x.numel()) or of_one(x),
    )
    monkeypatch.setattr(one_pass, "_FOUND", [kernels])
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(inplace=True)).cuda()
    values(model, torch.randn(5, 6, device="cuda"))
    assert (told, norms) == ([40, 40], [30, 30])  # the input has one reduction alone


@pytest.mark.parametrize("odd", [1.0, math.inf, math.nan])
def test_without_it_calls_of_torch_tell_the_same(monkeypatch, odd):
    model, x = nn.Sequential(nn.Linear(6, 8)).cuda(), torch.randn(500, 6, device="cuda")
    x[0, 0] = odd
    with_it = values(model, x)
    model.zero_grad()

    def fails(_):
        raise RuntimeError("no compiler is here")

    monkeypatch.setattr(one_pass, "_FOUND", [one_pass._Kernels(fails, fails)])
    with pytest.warns(taiyi_fx.MonitorWarning, match="Triton cannot run here.*no compiler is here"):
        without = values(model, x)
    assert with_it.keys() == without.keys()
    for key, value in with_it.items():
        assert without[key] == pytest.approx(value, rel=1e-6, nan_ok=True), key
