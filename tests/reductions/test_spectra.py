"""Spectra: digits, and micro-batches without a row."""

import pytest
import torch

from taiyi_fx.passes.probes.compiling import for_compiled_code
from taiyi_fx.reductions import Singular, Spectrum


def test_a_mean_far_above_the_spread_costs_no_digits():
    x = torch.randn(1000, 3, dtype=torch.float64) + 1e6
    truth = torch.linalg.eigvalsh(torch.cov(x.T)).flip(0)
    x32 = x.float()
    quantised = torch.linalg.eigvalsh(torch.cov(x32.double().T)).flip(0)
    parts = [Spectrum().measure(part) for part in x32.split(100)]
    state = parts[0]
    for part in parts[1:]:
        state = Spectrum().merge(state, part)
    found = Spectrum().finish(state).eigenvalues.double()
    assert torch.allclose(found, quantised, rtol=1e-2)
    assert torch.allclose(quantised, truth, rtol=1e-2)


@pytest.mark.parametrize("rows", [5, 200])
@pytest.mark.parametrize("centered", [True, False])
def test_no_rows_add_nothing_to_a_spectrum(rows, centered):
    reduction = Spectrum(centered=centered)
    some, none = reduction.measure(torch.randn(rows, 130)), reduction.measure(torch.randn(0, 130))
    expected = reduction.finish(some).eigenvalues
    for state in (reduction.merge(some, none), reduction.merge(none, some)):
        assert torch.equal(reduction.finish(state).eigenvalues, expected)


@pytest.mark.parametrize("reduction", [Spectrum(), Singular()])
def test_few_rows_are_kept_in_compiled_code_too_unless_it_merges_them(reduction):
    x = torch.randn(5, 130)
    with for_compiled_code(are_merged=False):
        kept = reduction.measure(x)
    assert all(map(torch.equal, kept, reduction.measure(x)))
    with for_compiled_code(are_merged=True):
        of_one_shape = [reduction.measure(rows) for rows in (x, x[:3])]
        of_one_shape.append(reduction.merge(*of_one_shape))
    shapes = [[part.shape for part in state] for state in of_one_shape]
    assert shapes[0] == shapes[1] == shapes[2]
    assert sum(part.numel() for part in of_one_shape[0]) >= 130**2
