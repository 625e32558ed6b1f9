"""Weights and masks of a loss, as they are told."""

from taiyi_fx.findings import LossGraph
from taiyi_fx.findings.facts.weights import OddWeights
from taiyi_fx.findings.rules.losses.weights import odd_weights, weighted_means
from tests.findings.given import evidence, knowing


def of(**facts):
    return knowing(evidence({("", "loss"): 1.0}), loss_graphs={"loss": LossGraph(**facts)})


def test_weights_that_grow_with_the_shares_are_a_warning():
    (found,) = odd_weights(of(odd_weights=OddWeights(0.05, 0.04, is_of_two=True)))
    assert (found.kind, found.severity, found.value) == ("odd_weights", "warning", 0.05)
    assert "the pos_weight of 'loss' is 0.05, and 4% of its targets are positive" in found.text
    (found,) = odd_weights(of(odd_weights=OddWeights(0.1, 0.02, is_of_two=False)))
    assert "the weight of the rarest class of 'loss' is 0.1, and 2% of" in found.text
    assert [*odd_weights(of())] == []


def test_a_mask_behind_the_mean_is_a_warning():
    (found,) = weighted_means(of(weighted_means=((64, 24), (8,))))
    assert (found.kind, found.severity) == ("weighted_mean", "warning")
    assert "multiplied by a tensor of shape (64, 24)" in found.text
    assert [*weighted_means(of())] == []
