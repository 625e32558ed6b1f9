"""Losses that squash what is squashed."""

from taiyi_fx.findings import LossGraph
from taiyi_fx.findings.rules.losses.squashed_twice import squashed_twice
from tests.findings.given import evidence, knowing


def of(values):
    return evidence({("", "loss"): values})


def test_an_overlap_of_logits_is_an_alert():
    (found,) = squashed_twice(
        knowing(of([1.0]), loss_graphs={"loss": LossGraph(overlaps=("out",))})
    )
    assert (found.kind, found.module, found.severity) == ("unsquashed_loss", "out", "alert")
    assert "a ratio of sums, as Dice's overlap is, of what 'out' returns as it is" in found.text
