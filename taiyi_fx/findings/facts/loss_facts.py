"""All that is known of one logged loss beside its numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from taiyi_fx.findings.facts.loss_graph import LossGraph
from taiyi_fx.findings.facts.regression import Regression
from taiyi_fx.findings.facts.squashed import Squashed
from taiyi_fx.findings.facts.targets import Targets


@dataclass(frozen=True)
class LossFacts:
    """Facts about a loss; of one that is logged as a number, none.

    Attributes:
        graph: How it is made, and what is odd in that; None if it is not known.
        classes: The number of classes that it chooses between; 0 if there are none.
        squashed: The thing that it is given in the place of logits; None if nothing is odd.
        regressions: The cost of a constant in some batches, the first and later ones, if it is an
            error.
        targets: The targets of the same batches, if it chooses between classes.
    """

    graph: LossGraph | None = None
    classes: int = 0
    squashed: Squashed | None = None
    regressions: Sequence[Regression] = ()
    targets: Sequence[Targets] = ()
