"""Conditions and ranks of spectra where rounding could decide."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from taiyi_fx.quantities.stock.spectra import rank_me
from taiyi_fx.reductions import SingularValues
from tests.quantities.stock.recorded import bench, recorded


def condition(x):
    rows = x.movedim(1, -1) if x.ndim == 4 else x
    rows = rows.reshape(-1, rows.shape[-1]).double().numpy()
    sigma = np.linalg.svd(rows - rows.mean(0), compute_uv=False)
    return (sigma[0] / sigma[-1]) ** 2


@pytest.mark.parametrize("shape", [(64, 16, 64, 64), (256, 8, 32, 32), (65536, 16)], ids=str)
def test_many_rows_do_not_make_an_ordinary_condition_number_infinite(shape):
    spread = torch.logspace(0, -1.3, shape[1])
    x = torch.randn(shape) * spread.reshape([-1] + [1] * (len(shape) - 2))
    found = bench("InputCovCondition", x)
    assert found == pytest.approx(condition(x), rel=1e-3)
    assert 300 < found < 500


@pytest.mark.parametrize("c", [2, 4, 16, 64])
def test_a_feature_that_is_the_sum_of_others_is_found_among_many_rows(c):
    x = torch.randn(65536, c)
    x[:, -1] = x[:, :-1].sum(1)
    assert bench("InputCovCondition", x) == math.inf


def test_a_constant_input_has_no_variance_and_an_infinite_condition_number():
    x = torch.full((10, 3), 0.1)
    assert bench("InputCovMaxEig", x) == 0
    assert bench("InputCovCondition", x) == math.inf


@pytest.mark.parametrize("c", [1, 3])
def test_a_single_row_has_no_covariance(c):
    assert recorded(nn.Identity(), "InputCovMaxEig", torch.ones(1, c)) == {}
    entry = ["InputCovMaxEig", "every(1)", {"centered": False}]
    assert recorded(nn.Identity(), entry, torch.ones(1, c))[0] == pytest.approx(c)


def test_the_effective_rank_counts_equal_directions_and_knows_no_size():
    for size in (1e-20, 1.0, 1e20):
        values = torch.tensor([size] * 3 + [0.0] * 5)
        found = rank_me(SingularValues(values, torch.tensor(10)))
        assert found[""].item() == pytest.approx(3, rel=1e-4)
        assert found["N"] == 10
