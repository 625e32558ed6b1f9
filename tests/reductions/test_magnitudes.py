"""Counts by powers of two: the fast way and the careful one agree."""

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
