"""The classes, or the range, of the targets of one batch, where a cross entropy has saved them."""

from __future__ import annotations

from typing import Any, NamedTuple

from taiyi_fx.findings.facts.autograd import Uses, name_of, saved_by
from taiyi_fx.findings.facts.squashed import OF_LOGARITHMS

_OF_TWO = ("BinaryCrossEntropyWithLogits", "BinaryCrossEntropy")
_BEYOND = 2**62


class Targets(NamedTuple):
    """The targets of one batch.

    Attributes:
        cases: Their number, with those that the loss leaves out.
        is_of_two: True for those of yes or no, which may be shares of yes.
        least: The least among them, of classes its number.
        most: The largest, below the least if the loss leaves all out.
    """

    cases: int
    is_of_two: bool
    least: float
    most: float

    @property
    def is_of_one(self) -> bool:
        """True if all are of one class."""
        return self.least == self.most


class TargetNotes(NamedTuple):
    """The numbers of `Targets`, on the device that they were computed on.

    Attributes:
        cases: The number of targets.
        is_of_two: True for those of yes or no.
        numbers: The others, a tensor: to read it, the host waits for the device.
    """

    cases: int
    is_of_two: bool
    numbers: Any

    def read(self) -> Targets:
        """The numbers, of which none is kept on the device."""
        return Targets(self.cases, self.is_of_two, *self.numbers.tolist())


def targets_of(loss: Any) -> TargetNotes | None:
    """The targets of the one cross entropy in a loss.

    None of none, of several, and after a backward, which frees what autograd has saved.

    Args:
        loss: The loss, a tensor.
    """
    ends = [x for x in Uses.of(loss).nodes if name_of(x) in (*OF_LOGARITHMS, *_OF_TWO)]
    targets = saved_by(ends[0], "target") if len(ends) == 1 else None
    if targets is None or not targets.numel():
        return None
    (node,) = ends
    least = most = targets
    if is_of_classes := name_of(node) in OF_LOGARITHMS:
        targets = targets.long()  # which may be bytes
        is_left_out = targets == node._saved_ignore_index
        least = targets.masked_fill(is_left_out, _BEYOND)
        most = targets.masked_fill(is_left_out, -1)
    numbers = targets.new_empty(2)
    numbers[0], numbers[1] = least.amin(), most.amax()
    return TargetNotes(targets.numel(), not is_of_classes, numbers)


def is_judging(uses: Uses) -> bool:
    """True for yes or no of some samples, plus that of others, whose targets are one number each.

    As the loss of a judge is: 1 for what is real, and 0 for what another model makes.

    Args:
        uses: The functions that made the loss.
    """
    ends = [x for x in uses.nodes if name_of(x) in (*_OF_TWO, "MseLoss")]
    found = [saved_by(x, "target") for x in ends]
    asked = [x.flatten() for x in found if x is not None and x.numel()]
    if len(asked) < len(ends) or not all(bool((x == x[0]).all()) for x in asked):
        return False
    return len({float(x[0]) for x in asked}) > 1
