"""Which axis holds a module's features, with and without a batch axis."""

import pytest
from torch import nn

from taiyi_fx.quantities.feature_axis import feature_axis_of


@pytest.mark.parametrize(("module", "axis"), [
    (nn.Linear(2, 2), -1), (nn.LayerNorm(2), -1), (nn.Embedding(2, 2), -1),
    (nn.Conv1d(2, 2, 1), -2), (nn.Conv2d(2, 2, 1), -3), (nn.ConvTranspose3d(2, 2, 1), -4),
    (nn.BatchNorm2d(2), -3), (nn.BatchNorm1d(2), 1), (nn.GroupNorm(1, 2), 1),
    (nn.InstanceNorm1d(2), -2), (nn.ReLU(), "auto"), (nn.Sequential(), "auto"),
])  # fmt: skip
def test_an_axis_goes_by_the_class(module, axis):
    assert feature_axis_of(module) == axis


def test_a_subclass_has_the_axis_of_its_class():
    class Mine(nn.Conv2d):
        pass

    assert feature_axis_of(Mine(2, 2, 1)) == -3
