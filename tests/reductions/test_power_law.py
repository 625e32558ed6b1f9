"""The best tail, against a loop over all of them and against numbers of a known law."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from taiyi_fx.reductions import power_law as module
from taiyi_fx.reductions.power_law import power_law
from tests.quantities.references.weights import power_law as by_loops


@settings(deadline=None, max_examples=60)
@given(
    n=st.integers(2, 60),
    seed=st.integers(0, 999),
    scale=st.sampled_from([1e-200, 1.0, 1e30]),
    kind=st.sampled_from(["uniform", "heavy", "some equal"]),
    together=st.sampled_from([1, 100, 2**20]),
)
def test_it_is_that_of_a_loop_over_all_tails(n, seed, scale, kind, together):
    x = torch.rand(n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) + 1e-3
    x = {"uniform": x, "heavy": x**-1.5, "some equal": (4 * x).ceil()}[kind] * scale
    at_once, module._TOGETHER = module._TOGETHER, together
    try:
        found = power_law(x[torch.randperm(n)])
    finally:
        module._TOGETHER = at_once
    alpha, distance = by_loops(x.tolist())
    if distance == float("inf"):
        assert found.alpha == torch.inf  # all are equal
        return
    assert found.distance.item() == pytest.approx(distance, rel=1e-6)
    if found.alpha.item() != pytest.approx(alpha, rel=1e-6):  # two tails as near as each other
        assert kind == "some equal" or n < 4


@pytest.mark.parametrize("alpha", [2.0, 3.0, 5.0])
def test_the_exponent_of_numbers_of_that_law_is_found(alpha):
    u = torch.rand(4000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    x = 0.7 * (1 - u) ** (-1 / (alpha - 1))
    found = power_law(x)
    assert found.alpha.item() == pytest.approx(alpha, rel=0.1)
    assert found.distance < 0.03
