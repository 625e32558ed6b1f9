"""Targets that are all of one class, at each step that was looked at."""

from __future__ import annotations

from collections.abc import Iterator

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.logits import Logits
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind
from taiyi_fx.findings.rules.losses.loss import is_of_player

_BATCHES, _CASES = 3, 64
"""Batches that were looked at, and targets in all of them together."""

SINGLE_CLASS = Kind(
    "single_class",
    "warning",
    "Look at how the labels are read: divided by 255 and made whole numbers, all are 0; so they "
    "are by a column or a file that is not the labels'",
)


def single_classes(evidence: Evidence) -> Iterator[Finding]:
    """Cross entropies of a layer's output whose targets are one and the same class throughout.

    Not of similarities, among which the first may be the right one of each sample.
    """
    for loss in evidence.logged.losses:
        known = evidence.logged.of_loss(loss)
        logits, batches = (known.graph.logits if known.graph else None), known.targets
        if logits is None or not _is_of_layer(logits, evidence) or is_of_player(loss, evidence):
            continue
        classes = {int(one.least) for one in batches}
        is_one = all(one.is_of_one and not one.is_of_two for one in batches) and len(classes) == 1
        cases = sum(one.cases for one in batches)
        if is_one and len(batches) >= _BATCHES and cases >= _CASES:
            text = (
                f"all {cases} targets of {loss.quantity!r} in the {len(batches)} batches that were "
                f"looked at are of class {classes.pop()}, of {logits.classes}"
            )
            yield SINGLE_CLASS.at(loss, 0, text, "several classes", module="")


def _is_of_layer(logits: Logits, evidence: Evidence) -> bool:
    """True for what a linear layer or a convolution returns, a number for each class."""
    own = evidence.model.attributes.get(logits.module)
    if own is None or not logits.is_output:
        return False
    return logits.classes in (own.features[1], own.numbers.get("out_channels"))
