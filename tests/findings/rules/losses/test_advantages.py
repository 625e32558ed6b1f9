"""Advantages that a policy's loss trains."""

from taiyi_fx.findings import LossGraph
from taiyi_fx.findings.rules.losses.advantages import trained_advantages
from tests.findings.given import evidence, knowing


def test_values_that_a_policys_loss_trains_are_named():
    known = evidence({("", "loss"): 1.0})
    graph = LossGraph(trained_advantages=("critic",))
    (found,) = trained_advantages(knowing(known, loss_graphs={"loss": graph}))
    assert (found.kind, found.severity, found.module) == (
        "trained_advantage",
        "warning",
        "critic",
    )
    assert [*trained_advantages(knowing(known, loss_graphs={"loss": LossGraph()}))] == []
