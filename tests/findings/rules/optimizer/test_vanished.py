"""Gradients that have come to nothing."""

import numpy as np
import pytest

from taiyi_fx.findings.rules.optimizer.vanished import share_left
from tests.findings.given import evidence

FALLS = np.geomspace(1.0, 1e-8, 40)


def known(*gradients):
    numbers = {(f"fc{i}", "WeightGradNorm"): one for i, one in enumerate(gradients)}
    return evidence(numbers or {("", "loss"): FALLS})


def test_the_share_of_what_they_were_that_is_left_of_the_largest():
    share = share_left(known(FALLS, 10 * FALLS**2))
    assert share == pytest.approx(float(np.median(FALLS[-4:]) / FALLS[1]))


@pytest.mark.parametrize(
    "gradients",
    [[FALLS, np.ones(40)], [FALLS**0.5], [FALLS[:7]], [np.zeros(40)], [FALLS * np.nan], []],
    ids=["one stays", "not to nothing", "few", "zeros", "not finite", "none"],
)
def test_there_is_none_where_some_pull_or_it_is_not_known(gradients):
    assert share_left(known(*gradients)) is None
