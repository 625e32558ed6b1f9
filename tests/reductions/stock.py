"""Reductions of the stock, and tensors to give them."""

import itertools
import math

import torch
from hypothesis import strategies as st

from taiyi_fx.reductions import (
    AbsMax,
    Activity,
    Count,
    FeatureMax,
    FeatureNorms,
    FourthMoment,
    Histogram,
    MatrixSingular,
    Moments,
    NonFinites,
    Norm,
    OutOfRange,
    Quantiles,
    Raw,
    SampleNorms,
    Sign,
    Singular,
    Spectrum,
    SpectrumValue,
    SquareSum,
)

STOCK = [
    Norm(), SquareSum(), Count(), Moments(), Moments(reduce="feature"), Spectrum(),
    Spectrum(centered=False), Singular(), FeatureMax(), FeatureNorms(), Raw(), Raw(max_elements=7), Sign(),
    AbsMax(), SampleNorms(), SampleNorms(normalize=True), Activity(eps=0.0), FourthMoment(),
    NonFinites(), Histogram(), OutOfRange(), OutOfRange(format="bfloat16"), Quantiles(q=(0.1, 0.5)),
    Quantiles(q=(0.1, 0.5), exact=True), MatrixSingular(),
]  # fmt: skip


def flat(value):
    if isinstance(value, SpectrumValue):
        value = (value.eigenvalues, value.trace, value.square_sum, value.n)
    parts = value if isinstance(value, tuple) else (value,)
    parts = [part for part in parts if torch.is_tensor(part)]
    return torch.cat([part.double().reshape(-1) for part in parts])


def split(x, cuts):
    edges = sorted({0, len(x), *(c % len(x) for c in cuts)})
    return [x[a:b] for a, b in itertools.pairwise(edges)]


# What is special comes in the first piece of a large tensor, in the last, and in none.
SPECIAL = (0.0, -0.0, 1e-40, -1e-44, math.inf, -math.inf, math.nan, 65504.0, 65520.0, -448.0, 3e38)
LARGE = 2**16 + 77
ALL_BITS = st.integers(-(2**31), 2**31 - 1)


def large(seed, specials, *, shift=0.0, scale=1.0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(LARGE, generator=generator) * scale + shift
    for place, special in specials:
        x[place] = special
    return x


SPECIALS = st.lists(
    st.tuples(
        st.integers(-LARGE, LARGE - 1),
        st.sampled_from(SPECIAL)
        | ALL_BITS.map(
            lambda bits: torch.tensor(bits, dtype=torch.int32).view(torch.float32).item()
        ),
    ),
    max_size=5,
)
