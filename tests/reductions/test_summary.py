"""Norm, mean, largest magnitude and count, beside the same taken in float64 from what is finite."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from taiyi_fx.passes.probes.slots import in_tensors
from taiyi_fx.reductions import Summary
from taiyi_fx.reductions.summary import _in_one_loop
from tests.reductions.stock import SPECIALS, large

SUMMARY = Summary()


def reference(x):
    x = x.double().reshape(-1)
    finite = x[x.isfinite()]
    n = len(finite)
    return (
        math.hypot(*finite.tolist()),
        math.fsum(finite.tolist()) / n if n else math.nan,
        max(map(abs, finite.tolist()), default=0.0),
        len(x) - n,
    )


def check(value, x):
    norm, mean, most, bad = reference(x)
    size = max(norm / math.sqrt(max(x.numel(), 1)), 1e-45)  # a mean is as exact as its elements
    assert int(value.non_finite) == bad
    assert float(value.abs_max) == most
    assert float(value.norm) == pytest.approx(norm, rel=1e-5)
    assert float(value.mean) == pytest.approx(mean, rel=1e-5, abs=2e-5 * size, nan_ok=True)


def each_way(x):
    yield SUMMARY.measure(x)
    numbers = SUMMARY.measure_scalar(x)
    if numbers is not None:
        yield in_tensors(numbers)
    for part in zip(*SUMMARY.measure_many([x, x]), strict=True):
        yield in_tensors(part)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), SPECIALS, st.sampled_from([0.0, 1.0, 100.0]))
def test_it_is_that_of_what_is_finite_each_way(seed, specials, shift):
    x = large(seed, specials, shift=shift)
    for state in each_way(x):
        check(SUMMARY.finish(state), x)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(width=32), max_size=40))
def test_it_is_so_of_small_tensors(numbers):
    x = torch.tensor(numbers, dtype=torch.float32)
    for state in each_way(x):
        check(SUMMARY.finish(state), x)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64, torch.int64])
def test_it_is_so_of_other_types(dtype):
    x = (10 * torch.randn(33, 7)).to(dtype)
    for state in each_way(x):
        check(SUMMARY.finish(state), x)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000), SPECIALS, st.integers(1, 60_000))
def test_parts_merge_to_the_whole(seed, specials, cut):
    x = large(seed, specials)
    merged = SUMMARY.merge(SUMMARY.measure(x[:cut]), SUMMARY.measure(x[cut:]))
    check(SUMMARY.finish(merged), x)


def test_a_loss_scale_is_taken_out_and_counts_stay():
    x = torch.randn(100)
    x[3] = torch.inf
    found = SUMMARY.finish(SUMMARY.scale(SUMMARY.measure(x * 1024), 1 / 1024))
    check(found, x)


def test_negative_factors_turn_the_mean_alone():
    x = torch.randn(100) + 3
    check(SUMMARY.finish(SUMMARY.scale(SUMMARY.measure(x), -2.0)), -2 * x)


@pytest.mark.parametrize("shape", [(), (5,), (4, 64, 256), (3, 1000, 7)])
def test_compiled_code_finds_the_same(shape):
    x = torch.randn(shape)
    if x.numel() > 5:
        x.reshape(-1)[2:4] = torch.tensor([torch.nan, -torch.inf])
    compiled = torch.compile(SUMMARY.measure, backend="aot_eager", fullgraph=True)
    check(SUMMARY.finish(compiled(x)), x)
    torch._dynamo.reset()


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000), SPECIALS, st.sampled_from([1e-42, 1e-30, 1.0, 1e30, 1e38]))
def test_the_way_of_compiled_code_is_right_of_all_sizes(seed, specials, scale):
    x = large(seed, specials, scale=scale)[: 2**16].reshape(64, 1024)
    check(SUMMARY.finish(_in_one_loop(x)), x)
