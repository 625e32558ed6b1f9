"""Counts by powers of two: the fast way and the careful one agree."""

import contextlib
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from taiyi_fx.passes.probes.compiling import for_compiled_code
from taiyi_fx.reductions import Histogram, OutOfRange
from tests.reductions.stock import LARGE, SPECIALS, large


@given(st.integers(0, 10_000), SPECIALS, st.sampled_from(["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"]))  # fmt: skip
def test_counts_in_pieces_are_those_of_a_closer_look(seed, specials, name):
    x = large(seed, specials, scale=100.0)
    x[::3] = x[::3].relu()
    with for_compiled_code():
        careful = [r.measure(x)[0] for r in (Histogram(), OutOfRange(format=name))]
    quick = [r.measure(x)[0] for r in (Histogram(), OutOfRange(format=name))]
    assert torch.equal(quick[0], careful[0])
    assert torch.equal(quick[1], careful[1])
    assert quick[0].sum() == quick[1].sum() == LARGE


@pytest.mark.parametrize("is_compiled", [False, True])
@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("name", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_float64_is_counted_on_its_own_side_of_a_formats_ends(name, sign, is_compiled):
    ends = torch.finfo(getattr(torch, name))
    smallest, largest = ends.smallest_normal, ends.max
    beside = [smallest * (1 - 1e-12), smallest * (1 + 1e-12), largest * (1 - 1e-12), largest * (1 + 1e-12)]  # fmt: skip
    x = sign * torch.tensor([0.0, 1e-300, *beside, smallest, largest, 1e300, math.nan], dtype=torch.float64)  # fmt: skip
    with for_compiled_code() if is_compiled else contextlib.nullcontext():
        found = OutOfRange(format=name).finish(OutOfRange(format=name).measure(x))
        counts = Histogram().measure(sign * torch.tensor([2 - 1e-12, 2.0], dtype=torch.float64))[0]
    assert [int(n) for n in found] == [8, 2, 2, 1]
    assert counts.nonzero().flatten().diff().tolist() == [1]
