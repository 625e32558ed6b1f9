"""Weights and masks of a loss that do not what they are for."""

from __future__ import annotations

from collections.abc import Iterator

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind

ODD_WEIGHTS = Kind(
    "odd_weights",
    "warning",
    "Weigh what is rare by more: pos_weight is the number of negatives over that of positives, and "
    "the weight of a class one over its count",
)
WEIGHTED_MEAN = Kind(
    "weighted_mean",
    "warning",
    "Take the loss of each element (reduction='none'), multiply it by the mask or the weights, and "
    "divide the sum by theirs",
)
_OF_CLASSES = ("weight of the rarest class", "of that class")


def odd_weights(evidence: Evidence) -> Iterator[Finding]:
    """Weights of classes that grow with their shares in the targets."""
    for loss, graph in evidence.logged.graphs:
        if (odd := graph.odd_weights) is None:
            continue
        subject, those = ("pos_weight", "positive") if odd.is_of_two else _OF_CLASSES
        text = (
            f"the {subject} of {loss.quantity!r} is {odd.weight:.3g}, and {odd.share:.0%} of its "
            f"targets are {those}: what is rare counts for even less"
        )
        yield ODD_WEIGHTS.at(loss, 0, text, "a larger weight", module="", value=odd.weight)
        return


def weighted_means(evidence: Evidence) -> Iterator[Finding]:
    """Weights or masks of elements that come when the mean of all elements is taken already."""
    for loss, graph in evidence.logged.graphs:
        for shape in graph.weighted_means[:1]:
            text = (
                f"on the way to {loss.quantity!r} the mean of all elements, one number, is "
                f"multiplied by a tensor of shape {shape}: as a mask, or as weights, it leaves no "
                "element out"
            )
            yield WEIGHTED_MEAN.at(loss, 0, text, "a loss of each element", module="")
            return
