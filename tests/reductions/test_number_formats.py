"""Narrow formats, against tables of all their numbers, and against torch's casts."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from taiyi_fx.reductions.number_formats import NUMBER_FORMATS, in_format
from tests.quantities.references.precision import FORMATS

SHAPES = [(40,), (3, 33), (2, 3, 16), (), (4, 1), (1, 70)]


@settings(deadline=None, max_examples=120)
@given(
    name=st.sampled_from(sorted(FORMATS)),
    shape=st.sampled_from(SHAPES),
    scale=st.sampled_from([1e-20, 1e-6, 1.0, 300.0, 1e5]),
    kind=st.sampled_from(["normal", "outliers", "powers", "sixths", "zeros"]),
    seed=st.integers(0, 999),
)
def test_each_number_becomes_the_nearest_of_its_table(name, shape, scale, kind, seed):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(shape, generator=generator, dtype=torch.float64)
    x = {
        "normal": x,
        "outliers": x.sign() * x.abs() ** 5,
        "powers": x.sign() * 2.0 ** x.mul(3).round(),
        "sixths": (6 * x).round() / 4,  # halfway between numbers of 4 bits
        "zeros": 0 * x,
    }[kind] * scale
    expected, x = FORMATS[name](x.numpy()), x.numpy()
    found = in_format(torch.from_numpy(x), name).numpy()
    # Of two that are as near, a last bit of the scale decides.
    atol = 1e-12 * np.abs(x).max()
    np.testing.assert_allclose(np.abs(found - x), np.abs(expected - x), rtol=1e-9, atol=atol)
    if kind in ("normal", "outliers"):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=atol)


@pytest.mark.parametrize("name", NUMBER_FORMATS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_types_and_shapes_stay_and_so_does_what_is_there_already(name, dtype):
    for shape in [*SHAPES, (0,), (3, 0)]:
        x = torch.randn(shape, dtype=dtype)
        once = in_format(x, name)
        assert once.shape == x.shape
        assert once.dtype == dtype
        if name != "nvfp4":  # whose scale of all is that of the largest before it was rounded
            torch.testing.assert_close(in_format(once, name), once, rtol=1e-6, atol=0)


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_what_needs_no_scale_is_torchs_cast(name):
    x = torch.randn(1000) * 100
    assert torch.equal(in_format(x, name), x.to(getattr(torch, name)).float())
    assert in_format(torch.tensor([1e39, -1e39]).double(), name).isfinite().all()


@pytest.mark.parametrize("name", NUMBER_FORMATS)
@pytest.mark.parametrize("what", [torch.nan, torch.inf])
def test_what_is_not_finite_is_not_hidden(name, what):
    x = torch.ones(2, 40)
    x[0, 3] = what
    found = in_format(x, name)
    is_cast = what == torch.inf and name in ("float16", "bfloat16")
    assert found[0, 3].isnan() or is_cast
