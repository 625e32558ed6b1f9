"""Samples of a batch: whether their order matters, and whether one sees another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from taiyi_fx.findings.finding import Finding
from taiyi_fx.step_checks.axes import Axes, follows, keeps_others, sample_axes, second_axes
from taiyi_fx.step_checks.batch import Batch
from taiyi_fx.step_checks.blame import first_wrong
from taiyi_fx.step_checks.calls import Call
from taiyi_fx.step_checks.graphs import is_of_a_graph
from taiyi_fx.step_checks.kinds import CROSSING_ROWS, MIXED_ROWS
from taiyi_fx.step_checks.trial import Trial
from taiyi_fx.step_checks.untried import Untried


def order_findings(trial: Trial) -> Iterator[Finding]:
    """A loss that is another one when the samples of a batch come in another order.

    Raises:
        Untried: There is no axis of samples, or the loss draws random numbers.
    """
    trial = trial.evaluating()
    axes = sample_axes(trial.batch.tensors())
    before = trial.run(records=True)
    if not _is_same(trial.loss(seed=1), before.loss.item(), trial):
        raise Untried("the loss draws random numbers in evaluation mode, too")
    order = _order(axes.size)
    after = trial.of(_ordered(trial.batch, axes, order)).run(records=True)
    if _is_same(after.loss.item(), before.loss.item(), trial):
        return
    if _lie_along_the_second(trial):
        raise Untried("the samples seem to lie along the second axis")
    if is_of_a_graph(trial, axes.size):
        raise Untried("the samples are the nodes of a graph, which see each other on purpose")
    blame = first_wrong(
        before.calls, after.calls, lambda x, y: follows(x, y, order, trial.tolerance)
    )
    text = (
        f"the loss of one batch is {before.loss.item():.6g}, and {after.loss.item():.6g} with its "
        f"{axes.size} samples in another order, inputs and targets alike; "
        f"{blame}"
    )
    expected = f"{before.loss.item():.6g}"
    yield MIXED_ROWS.of(blame.module, after.loss.item(), text, expected)


def crossing_findings(trial: Trial) -> Iterator[Finding]:
    """An output of a sample that changes with another sample.

    Raises:
        Untried: The model is not called with an axis of samples.
    """
    trial = trial.evaluating()
    call = outermost(trial)
    tensors = call.given.tensors()
    axes = sample_axes(tensors)
    found = _crossing(trial, call, axes)
    if found is None:
        return
    second = second_axes(tensors)
    if second and _lie_along_the_second(trial) and not _crossing(trial, call, second):
        raise Untried("the samples seem to lie along the second axis")
    if is_of_a_graph(trial, axes.size):
        raise Untried("the samples are the nodes of a graph, which see each other on purpose")
    yield found


def _crossing(trial: Trial, call: Call, axes: Axes) -> Finding | None:
    tensors = call.given.tensors()
    here, there = _different(tensors, axes)
    changed = call.given.replaced(_exchanged(tensors, axes, here, there))
    before, after = trial.called_again(call), trial.called_again(call, changed)

    def is_right(x: Tensor, y: Tensor) -> bool:
        return keeps_others(x, y, axes.size, here, trial.tolerance)

    if all(map(is_right, before[-1].outputs, after[-1].outputs)):
        return None
    blame = first_wrong(before, after, is_right)
    text = (
        f"the output of other samples changes when sample {here} of {axes.size} is replaced, in "
        f"evaluation mode; {blame}"
    )
    return CROSSING_ROWS.of(blame.module, float(here), text)


def outermost(trial: Trial) -> Call:
    """The first call of a module within no other, which returns a tensor.

    Raises:
        Untried: There is none.
    """
    for call in trial.run(records=True).calls:
        if call.depth == 0 and call.inputs and call.outputs:
            return call
    raise Untried("the step does not call the model with a tensor")


def _lie_along_the_second(trial: Trial) -> bool:
    """True if samples seem to lie along the second axis, as where time comes first.

    That is: the loss does not change with an order along the second axis of all tensors, and the
    model's output at one place of the first axis does with what stands at another one.
    """
    axes = second_axes(trial.batch.tensors())
    if axes is None:
        return False
    turned = trial.of(_ordered(trial.batch, axes, _order(axes.size)))
    if not _is_same(turned.loss(), trial.loss(), trial):
        return False
    call = outermost(trial)
    return _crossing(trial, call, sample_axes(call.given.tensors())) is not None


def _is_same(a: float, b: float, trial: Trial) -> bool:
    return abs(a - b) <= trial.tolerance * max(abs(a), abs(b), 1e-6)


def _order(size: int) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randperm(size, generator=generator)
    return drawn if not torch.equal(drawn, torch.arange(size)) else drawn.flip(0)


def _ordered(batch: Batch, axes: Axes, order: Tensor) -> Batch:
    def change(name: str, x: Tensor) -> Tensor:
        axis = axes.of.get(name)
        return x if axis is None else x.index_select(axis, order.to(x.device))

    return batch.mapped(change)


def _different(tensors: Mapping[str, Tensor], axes: Axes) -> tuple[int, int]:
    """Two samples that differ."""
    for other in range(1, axes.size):
        for name, axis in axes.of.items():
            if not torch.equal(tensors[name].select(axis, 0), tensors[name].select(axis, other)):
                return 0, other
    raise Untried("all samples of the batch are alike")


def _exchanged(
    tensors: Mapping[str, Tensor], axes: Axes, here: int, there: int
) -> dict[str, Tensor]:
    changed = {name: tensors[name].clone() for name in axes.of}
    for name, axis in axes.of.items():
        changed[name].select(axis, here).copy_(tensors[name].select(axis, there))
    return changed
