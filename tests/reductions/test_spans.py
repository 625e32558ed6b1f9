"""What is measured between the begin and the end of a call."""

import pytest
import torch

from taiyi_fx.passes.ir import SpanReduction, finishes_as_is
from taiyi_fx.reductions import ForwardSeconds, SavedBytes, looks_at_saved_tensors

EVERY = [ForwardSeconds(), SavedBytes()]


def between(reduction, function, *args):
    """The finished statistic of one call of a function."""
    first = reduction.mark()
    result = function(*args)
    (number,) = reduction.measure_span(first, reduction.mark(), result)
    return number


@pytest.mark.parametrize("reduction", EVERY)
def test_both_are_spans_whose_sums_are_their_values(reduction):
    assert isinstance(reduction, SpanReduction)
    assert finishes_as_is(reduction)
    a, b = (torch.tensor(2.5),), (torch.tensor(4.0),)
    assert reduction.finish(reduction.merge(a, b)) == 6.5
    assert reduction.scale(a, 7.0) is a


def test_seconds_are_those_between_two_readings_of_a_clock_in_nanoseconds():
    assert ForwardSeconds().measure_span(5, 1_500_000_005, None) == (1.5,)
    reduction = ForwardSeconds()
    assert reduction.mark() <= reduction.mark()


def test_a_device_without_a_clock_is_refused_by_name():
    x = torch.empty(2, device="meta")
    with pytest.raises(ValueError, match="its result is on meta, which computes after"):
        ForwardSeconds().measure_span(0, 1, [x])


@pytest.mark.skipif(not looks_at_saved_tensors(), reason="this torch shows no saved tensors")
def test_bytes_are_those_of_the_call_alone_and_each_storage_is_once():
    x = torch.randn(6, requires_grad=True)
    y = x.exp().sin()
    reduction = SavedBytes()
    assert between(reduction, torch.exp, y) == 24
    assert between(reduction, lambda y: y.cos() * y.exp(), y) == 3 * 24
    assert between(reduction, lambda y: (y * y, y.sum()), y) == 24
    assert between(reduction, lambda y: y + 1, y) == 0
    assert between(reduction, lambda y: y.detach().exp(), y) == 0
    assert between(reduction, lambda y: None, y) == 0


@pytest.mark.skipif(not looks_at_saved_tensors(), reason="this torch shows no saved tensors")
def test_a_view_counts_with_all_of_its_storage_and_an_expanded_tensor_as_what_it_is():
    y = torch.randn(6, requires_grad=True) * 1
    assert between(SavedBytes(), lambda y: y[:1].sin(), y) == 24
    assert between(SavedBytes(), lambda y: y.expand(10, 6).sin(), y) == 24


@pytest.mark.skipif(not looks_at_saved_tensors(), reason="this torch shows no saved tensors")
def test_parameters_do_not_count():
    w = torch.nn.Parameter(torch.randn(4, 6))
    x = torch.randn(2, 6, requires_grad=True)
    assert between(SavedBytes(), lambda x: x @ w.T, x) == 2 * 6 * 4
    assert between(SavedBytes(), lambda x: x * w[0], x) == 2 * 6 * 4
