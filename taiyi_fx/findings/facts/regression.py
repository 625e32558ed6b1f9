"""The cost of a constant answer, where a loss is an error of targets that autograd has saved."""

from __future__ import annotations

from typing import Any, NamedTuple

from taiyi_fx.findings.facts.autograd import Uses, name_of, operands_of, saved_by
from taiyi_fx.findings.facts.given_to_losses import OF_ERRORS
from taiyi_fx.findings.facts.logits import MEAN, is_whole

_BOUNDS = {"SmoothL1Loss": "_saved_beta", "HuberLoss": "_saved_delta"}
"""The error from which on each is linear."""
_MOST = 1_000_000
"""Elements of a batch that are looked at."""
_FEWEST = 16
"""Samples by which a mean is known."""
_IN_CHANNELS = 3
"""Axes from which on outputs are the last one, as features are, or the second, as channels are."""


class Regression(NamedTuple):
    """The loss of one batch, if the model returned the mean of the targets.

    Attributes:
        cases: The number of targets of each output.
        constant: The loss of their mean, for each output.
        target: The root of the mean variance of the targets.
        target_mean: The size of their means.
        returned: The root of the mean variance of what the model returned.
    """

    cases: int
    constant: float
    target: float
    target_mean: float
    returned: float


class RegressionNotes(NamedTuple):
    """The numbers of a `Regression`, on the device that they were computed on.

    Attributes:
        cases: The number of targets of each output.
        numbers: The others, a tensor: to read it, the host waits for the device.
    """

    cases: int
    numbers: Any

    def read(self) -> Regression:
        """The numbers, of which none is kept on the device."""
        return Regression(self.cases, *self.numbers.tolist())


def regression_of(loss: Any) -> RegressionNotes | None:
    """The cost of a constant, of a loss that is the mean of one error or a multiple of it.

    None of others, and after a backward, which frees what autograd has saved.

    Args:
        loss: The loss, a tensor.
    """
    uses = Uses.of(loss)
    ends = [node for node in uses.nodes if name_of(node) in OF_ERRORS]
    if len(ends) != 1 or not _is_mean_of_one(ends[0]) or not is_whole(uses, ends[0]):
        return None
    (node,) = ends
    returned, targets = saved_by(node, "self"), saved_by(node, "target")
    if returned is None or targets is None or not targets.ndim or returned.shape != targets.shape:
        return None
    rows = max(1, _MOST // max(1, targets[0].numel()))
    returned, targets = returned[:rows].float(), targets[:rows].float()
    axes = _axes_of_samples(targets.ndim)
    cases = targets.numel() // max(1, targets.shape[_axis_of_outputs(targets.ndim)])
    cases = targets.numel() if targets.ndim == 1 else cases
    if cases < _FEWEST:
        return None
    means = targets.mean(axes, keepdim=True)
    # Of few samples, their own mean is nearer to them than that of all.
    unbiased = cases / (cases - 1)
    factor = loss.detach().float() / _error(node, returned - targets)
    variances = (x.var(axes).mean() for x in (targets, returned))
    target, of_model = (x.sqrt() for x in variances)
    constant = factor * _error(node, targets - means) * unbiased
    numbers = (constant, target, means.square().mean().sqrt(), of_model)
    return RegressionNotes(cases, _joined(numbers))


def _is_mean_of_one(node: Any) -> bool:
    return node._saved_reduction == MEAN and operands_of(node)[1:] == [None]


def _axis_of_outputs(ndim: int) -> int:
    return ndim - 1 if ndim <= _IN_CHANNELS else 1


def _axes_of_samples(ndim: int) -> list[int]:
    """All axes but that of the outputs; a single axis is that of samples."""
    return [axis for axis in range(ndim) if ndim == 1 or axis != _axis_of_outputs(ndim)]


def _error(node: Any, difference: Any) -> Any:
    """The mean error of some differences, as a function of torch computes it."""
    bound = getattr(node, _BOUNDS.get(name_of(node), ""), None)
    if bound is None:
        return difference.square().mean()
    size = difference.abs()
    if not bound:
        return size.mean()
    least = size.clamp(max=bound)
    of_huber = (least * (size - least / 2)).mean()
    return of_huber / bound if name_of(node) == "SmoothL1Loss" else of_huber


def _joined(numbers: tuple[Any, ...]) -> Any:
    """Some numbers in one tensor, to be read at once."""
    first, *_ = numbers
    joined = first.new_empty(len(numbers))
    for i, number in enumerate(numbers):
        joined[i] = number
    return joined
