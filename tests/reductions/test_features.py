"""Each feature over its rows: the largest value, and the share of active rows."""

import pytest
import torch

from taiyi_fx.reductions import Activity, FeatureMax


@pytest.mark.parametrize(("shape", "axis"), [((9, 3), -1), ((4, 3, 5, 5), 1), ((2, 6, 3), "auto")])
def test_a_features_numbers_are_those_of_its_rows(shape, axis):
    x = torch.randn(shape).relu()
    rows = x.movedim(1 if axis == 1 else -1, -1).reshape(-1, 3)
    highest = FeatureMax(feature_axis=axis)
    assert highest.finish(highest.measure(x)).tolist() == rows.max(0).values.tolist()
    active = Activity(eps=0.1, feature_axis=axis)
    expected = [(column.abs() > 0.1).double().mean().item() for column in rows.T]
    assert active.finish(active.measure(x)).rate.tolist() == pytest.approx(expected, rel=1e-12)


def test_a_feature_with_a_nan_has_no_rate_and_the_others_do():
    x = torch.ones(4, 2)
    x[1, 0] = torch.nan
    rate = Activity().finish(Activity().measure(x)).rate
    assert rate.isnan().tolist() == [True, False]
    assert rate[1] == 1


def test_a_negative_eps_is_refused():
    with pytest.raises(ValueError, match="eps must be a number of at least 0, not -1"):
        Activity(eps=-1)
