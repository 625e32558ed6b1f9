"""Categories of different fields that have the same row."""

from taiyi_fx.findings import LossGraph
from taiyi_fx.findings.facts.fields import Fields
from taiyi_fx.findings.rules.values.fields import overlapping_fields
from tests.findings.given import evidence, knowing


def test_fields_that_collide_are_told_with_their_sizes():
    graph = LossGraph(overlapping_fields=(Fields("table", 138, (40, 80, 12, 6)),))
    known = knowing(evidence({("", "loss"): 1}), loss_graphs={"loss": graph})
    (found,) = overlapping_fields(known)
    assert (found.kind, found.severity, found.module) == ("overlapping_fields", "warning", "table")
    assert "138 rows, about as many as the 4 fields" in found.text
    assert "(40, 80, 12, 6), and is asked for the first 80 alone" in found.text
    none = knowing(evidence({("", "loss"): 1}), loss_graphs={"loss": LossGraph()})
    assert [*overlapping_fields(none)] == []
