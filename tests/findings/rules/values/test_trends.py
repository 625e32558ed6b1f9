"""Exponential growth."""

import numpy as np

from taiyi_fx.findings.rules.values.trends import growth
from tests.findings.given import evidence


def test_growth_is_told_with_its_doubling_time_and_its_end():
    values = 2.0 ** (np.arange(80) / 4)
    (found,) = growth(evidence({("fc", "WeightNorm"): values}))
    assert "doubles every 4 steps" in found.text
    assert "at about step 51" in found.text  # 2 ** 128 is reached at 512


def test_slow_and_straight_growth_is_none():
    for values in (1 + np.arange(80.0), 2.0 ** (np.arange(80) / 40), 2.0 ** (np.arange(20) / 2)):
        assert [*growth(evidence({("fc", "WeightNorm"): values}))] == []


def test_a_spectral_norm_that_feeds_itself_is_told_too():
    (found,) = growth(evidence({("fc", "WeightSpectralNorm"): 2.0 ** (np.arange(80) / 4)}))
    assert (found.kind, found.quantity) == ("growth", "WeightSpectralNorm")
    assert [*growth(evidence({("fc", "WeightSpectralNorm"): np.linspace(2, 12, 80)}))] == []


def test_growth_is_told_of_a_module_that_now_and_then_has_no_elements():
    values = np.where(np.arange(80) % 7, 2.0 ** (np.arange(80) / 4), np.nan)
    (found,) = growth(evidence({("fc", "OutputRMS"): values}))
    assert "doubles every 4 steps" in found.text
    assert [*growth(evidence({("fc", "OutputRMS"): np.full(80, np.nan)}))] == []
