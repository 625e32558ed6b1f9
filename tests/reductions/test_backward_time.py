"""The clocks at nodes of autograd's graph."""

import warnings
from types import SimpleNamespace

import pytest
import torch

from taiyi_fx.passes.ir import BackwardReduction, finishes_as_is
from taiyi_fx.reductions import BackwardSeconds, device_clock


@pytest.fixture
def ticking(monkeypatch):
    """A clock that goes on by a second at each look."""
    seen = []

    def look():
        seen.append(None)
        return len(seen) * 10**9

    monkeypatch.setattr(device_clock, "time", SimpleNamespace(perf_counter_ns=look))
    return seen


def watched(function, x):
    """The result of a function, the times that its backward will give, and why there are none."""
    reduction, times = BackwardSeconds(), []
    first = reduction.mark()
    y = function(x)
    why = reduction.watch(first, reduction.mark(), y, times.append)
    return y, times, why


def test_it_is_a_reduction_of_backwards_whose_sum_is_its_value():
    reduction = BackwardSeconds()
    assert isinstance(reduction, BackwardReduction)
    assert finishes_as_is(reduction)
    a, b = (torch.tensor(2.5),), (torch.tensor(4.0),)
    assert reduction.finish(reduction.merge(a, b)) == 6.5
    assert reduction.scale(a, 7.0) is a


def test_each_node_of_the_call_gives_one_time_and_others_none(ticking):
    x = torch.randn(3, requires_grad=True)
    y, times, why = watched(lambda y: y.sin() * y.cos(), x.exp())
    assert why is None
    y.exp().sum().backward()
    assert times == [(1.0,)] * 3


def test_a_node_of_several_calls_has_one_clock(ticking):
    x = torch.randn(3, requires_grad=True)
    inner = []

    def outer(x):
        y, times, _ = watched(torch.sin, x)
        inner.append(times)
        return y.exp()

    y, times, _ = watched(outer, x)
    y.sum().backward()
    assert inner == [[(1.0,)]]
    assert times == [(1.0,)] * 2
    assert len(ticking) == 4


def test_a_second_backward_adds_its_own(ticking):
    y, times, _ = watched(torch.exp, torch.randn(3, requires_grad=True))
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    assert times == [(1.0,)] * 2


@pytest.mark.parametrize("function", [lambda x: x, lambda x: x.detach().exp(), lambda x: None])
def test_a_call_that_makes_no_node_says_so(function):
    _, _, why = watched(function, torch.randn(3, requires_grad=True))
    assert why == "its call makes nothing that has a backward"


def test_a_device_without_a_clock_is_refused_by_name():
    with pytest.raises(ValueError, match="its result is on meta"):
        watched(lambda x: x.to("meta"), torch.randn(3, requires_grad=True))


def test_gradients_are_those_without_it_and_anomalies_are_found_as_without():
    x = torch.tensor([0.5, -1.0], requires_grad=True)
    y, times, _ = watched(lambda x: x.sin().exp(), x)
    (with_clock,) = torch.autograd.grad(y.sum(), x)
    (without,) = torch.autograd.grad(x.sin().exp().sum(), x)
    assert torch.equal(with_clock, without)
    assert len(times) == 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.autograd.detect_anomaly():
            y, _, _ = watched(torch.sqrt, x)
            with pytest.raises(RuntimeError, match="returned nan values"):
                y.sum().backward()
