"""Spectra: digits at any scale, and micro-batches without a row."""

import pytest
import torch

from taiyi_fx.passes.probes.compiling import for_compiled_code
from taiyi_fx.quantities.stock.parameters import parameter_condition
from taiyi_fx.quantities.stock.spectra import rank_me
from taiyi_fx.reductions import MatrixSingular, Singular, Spectrum


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


@pytest.mark.parametrize(("n", "c"), [(20_000, 4), (4, 20_000), (1000, 20)])
def test_a_tall_matrix_of_full_rank_has_a_condition_number_and_its_transpose_the_same(n, c):
    k = min(n, c)
    q, _ = torch.linalg.qr(torch.randn(max(n, c), k, dtype=torch.float64))
    v, _ = torch.linalg.qr(torch.randn(k, k, dtype=torch.float64))
    sizes = torch.ones(k, dtype=torch.float64)
    sizes[-1] = 1e-3
    x = (q * sizes @ v if n > c else (q * sizes @ v).T).float()
    values = torch.linalg.svdvals(x.double())
    found = parameter_condition(MatrixSingular().finish(MatrixSingular().measure(x)))
    assert torch.allclose(found.double(), values[0] / values[-1], rtol=1e-4)


@pytest.mark.parametrize("scale", [2.0**-120, 2.0**126])
def test_rescaling_changes_no_condition_number_of_a_parameter(scale):
    x = torch.tensor([[1.0, 0.5, 0.25], [0.75, 1.0, 0.125], [0.25, 0.5, 1.0]])
    small, large = (MatrixSingular().finish((t,)) for t in (x, x * scale))
    assert torch.equal(parameter_condition(large), parameter_condition(small))
    assert torch.equal(large.values, small.values * scale)


@pytest.mark.parametrize("rows", [4, 12, 2000])
@pytest.mark.parametrize("scale", [1e-38, 1e38])
def test_rank_me_is_that_of_float64_at_both_ends_of_float32(rows, scale):
    x = torch.randn(rows, 9).clamp(-3, 3)
    singular = torch.linalg.svdvals(x.double())
    p = singular / singular.sum() + 1e-7
    truth = (-(p * p.log()).sum()).exp()
    parts = [Singular().measure(part) for part in (x * scale).split(3 * rows // 4)]
    for state in (Singular().measure(x * scale), Singular().merge(*parts)):
        found = Singular().finish(state)
        assert torch.allclose(rank_me(found)[""], truth, rtol=1e-4)
        assert torch.allclose(found.values, singular * scale, rtol=1e-4)
