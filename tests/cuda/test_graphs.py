"""CUDA graphs: of compiled code, and of a whole step where the plain model allows it."""

import warnings

import pytest
import torch
from torch._dynamo.utils import counters

import taiyi_fx
from tests.cuda.models import CFG, assert_same_bits, instrumented, pair, records_of, trained


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_what_inductor_compiles_trains_as_the_plain_model(device, mode):
    if mode == "default" and not device.is_cuda:
        pytest.skip("a CPU has no CUDA graphs, so that both are the same")
    plain, model, xs = pair("rows", device)
    eager = instrumented(pair("rows", device)[0], CFG)
    eager.load_state_dict(model.state_dict())
    skips = []
    left = []
    for each in (plain, model):
        counters.clear()
        left.append(trained(each, marked(torch.compile(each, mode=mode, fullgraph=True)), xs))
        skips.append(counters["inductor"]["cudagraph_skips"])
    assert skips[1] == 0 or skips[0] > 0  # on a CPU all are skipped
    for a, b in zip(*left, strict=True):  # fused otherwise, sums may be rounded otherwise
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
    trained(eager, eager, xs)
    expected, found = records_of(eager), records_of(model)
    assert set(expected) == set(found)
    for key, value in found.items():
        assert value == pytest.approx(expected[key], rel=1e-3, abs=1e-4), key


def marked(run):
    """Says where a step begins, and copies what the next one's graphs would overwrite."""

    def step(x):
        torch.compiler.cudagraph_mark_step_begin()
        return run(x).clone()

    return step


def test_a_captured_step_trains_as_the_plain_one(device):
    """Its Python does not run again, so nothing is read of it after the capture."""
    plain, model, xs = pair("rows", device)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", taiyi_fx.MonitorWarning)
        expected = captured_training(device, plain, xs)
        found = captured_training(device, model, xs)
    assert_same_bits(expected, found)


def captured_training(device, model, xs):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    static = xs[0].clone()

    def step():
        optimizer.zero_grad(set_to_none=True)
        model(static).square().sum().backward()

    with device.side_stream():  # as torch asks for, before a capture
        for _ in range(3):
            step()
    tracked(model, 0)
    optimizer.zero_grad(set_to_none=True)
    replay = device.captured(step)
    left = []
    for i, x in enumerate(xs, 1):
        static.copy_(x)
        replay()
        tracked(model, i)
        left += [p.grad.clone() for p in model.parameters()]
        optimizer.step()
    return [*left, *model.parameters()]


def tracked(model, step):
    if isinstance(model, taiyi_fx.InstrumentedModule):
        model.monitor.track(step)
        _ = model.monitor.records
