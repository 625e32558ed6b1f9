"""Losses in which differences of both signs make up for each other."""

import pytest

from taiyi_fx.findings import LossGraph
from taiyi_fx.findings.rules.losses.squared_means import squared_means
from tests.findings.given import evidence, knowing


@pytest.mark.parametrize(("modules", "of"), [(("fc",), ", behind 'fc',"), (("",), "")])
def test_a_squared_mean_is_told_with_the_module_before_it(modules, of):
    graph = LossGraph(squared_means=modules)
    (found,) = squared_means(knowing(evidence({("", "loss"): 1}), loss_graphs={"loss": graph}))
    assert (found.kind, found.severity, found.module) == ("squared_mean", "warning", modules[0])
    assert f"in 'loss' the mean of all differences{of} is squared" in found.text


def test_others_are_none():
    known = knowing(evidence({("", "loss"): 1}), loss_graphs={"loss": LossGraph()})
    assert [*squared_means(known)] == []
