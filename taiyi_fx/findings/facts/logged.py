"""The numbers that users log: losses, those of evaluation, and others."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np

from taiyi_fx.findings.facts.loss_facts import LossFacts
from taiyi_fx.findings.facts.loss_graph import LossGraph
from taiyi_fx.findings.facts.watched import Watched

_OF_EVALUATION = re.compile(
    r"(?<![a-z])(val|valid|validation|eval|evaluation|test|dev|held[ _-]?out)(?![a-z])"
)
"""The name of a loss on samples that are not trained on."""
_NOT_KNOWN = LossFacts()
_SAME = 0.02
"""How near the means of a loss are to it: an epoch's may leave out a last batch, or weigh it."""


class Logged:
    """The numbers that users log, by the kind of each.

    Args:
        series: The series of training, and of what was logged.
        evaluated: Those of what was logged in evaluation mode.
        of_losses: What is known of each loss, by its name.
    """

    def __init__(
        self,
        series: Sequence[Watched],
        evaluated: Sequence[Watched],
        of_losses: Mapping[str, LossFacts],
    ) -> None:
        self._series, self._evaluated, self._of_losses = series, evaluated, of_losses

    @property
    def losses(self) -> list[Watched]:
        """Numbers of the user's own that are called a loss, but for those of evaluation.

        Nor those that are the means of another one, as of an epoch each, or some of its numbers.
        """
        every = [s for s in self._series if not s.direction and _is_loss(s) and not is_evaluated(s)]
        finer = {id(s): [x for x in every if len(x.steps) > len(s.steps)] for s in every}
        return [s for s in every if not any(_is_part(s, one) for one in finer[id(s)])]

    @property
    def losses_of_evaluation(self) -> list[Watched]:
        """The losses of evaluation: by the mode that they were logged in, or by their name."""
        by_name = (s for s in self._series if is_evaluated(s))
        return [*filter(_is_loss, (*self._evaluated, *by_name))]

    @property
    def metrics(self) -> list[Watched]:
        """The other numbers of the user's own."""
        return [*filter(is_metric, self._series)]

    @property
    def graphs(self) -> list[tuple[Watched, LossGraph]]:
        """The losses of which it is known how they are made, each with that."""
        known = ((s, self.of_loss(s).graph) for s in self.losses)
        return [(s, graph) for s, graph in known if graph is not None]

    @property
    def known_graphs(self) -> list[LossGraph]:
        """How the losses are made of which it is known, also of those without a number yet."""
        return [known.graph for known in self._of_losses.values() if known.graph is not None]

    def of_loss(self, loss: Watched) -> LossFacts:
        """All that is known of a loss beside its numbers."""
        return self._of_losses.get(loss.quantity, _NOT_KNOWN)


def _is_loss(logged: Watched) -> bool:
    return "loss" in logged.quantity.lower()


def _is_part(some: Watched, every: Watched) -> bool:
    """True if a series is another one at some steps, or its means up to each of these.

    Most are another from the first number on: rules ask often, and series may be long.
    """
    return _are_part(some, every, slice(1)) and _are_part(some, every, slice(None))


def _are_part(some: Watched, every: Watched, of: slice) -> bool:
    ends = np.searchsorted(every.steps, some.steps[of], side="right")
    begins = np.concatenate([[0], ends[:-1]])
    if not len(ends) or (ends <= begins).any():
        return False
    sums = np.concatenate([[0.0], np.cumsum(every.values[: ends[-1]])])
    means = (sums[ends] - sums[begins]) / (ends - begins)
    known = (means, every.values[ends - 1])
    return any(np.allclose(one, some.values[of], _SAME, _SAME**2) for one in known)


def is_evaluated(one: Watched) -> bool:
    """True for a logged number whose name says that it is of evaluation, in whatever mode."""
    return one.is_logged and _OF_EVALUATION.search(one.quantity.lower()) is not None


def is_metric(one: Watched) -> bool:
    """True for a number that the user logs, which is of the model as a whole, and is no loss."""
    return one.is_logged and not _is_loss(one)
