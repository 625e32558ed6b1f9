"""Tensors of a batch that the loss does not depend on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from taiyi_fx.findings.finding import Finding
from taiyi_fx.step_checks.axes import sample_axes
from taiyi_fx.step_checks.kinds import UNUSED_INPUT
from taiyi_fx.step_checks.trial import Trial


def input_findings(trial: Trial) -> Iterator[Finding]:
    """Tensors of which a part of the samples may be replaced without changing the loss.

    Raises:
        Untried: There is no axis of samples.

    A tensor that the step does not even read may be there for other steps: that is a note.
    """
    tensors = trial.batch.tensors()
    axes = sample_axes(tensors)
    copy, reading = trial.batch.converted(trial.dtype), _Reading()
    trial.run(within=reading, copy=copy)
    read = {name for name, x in copy.tensors().items() if id(x) in reading.tensors}
    doubled = torch.arange(axes.size) // 2 * 2
    for name, axis in axes.of.items():
        changed = tensors[name].index_select(axis, doubled.to(tensors[name].device))
        if torch.equal(changed, tensors[name]):
            continue
        other = trial.of(trial.batch.replaced({name: changed}))
        if _are_equal(trial, other):
            loss, is_read = trial.evaluating().loss(), name in read
            text = (
                f"the loss is {loss:.6g} whatever {name!r} holds: it stays the same to the last "
                "bit when each other sample in it is replaced by the one before"
            )
            text += "" if is_read else "; the step does not even read it"
            severity = "warning" if is_read else "note"
            yield UNUSED_INPUT.of("", loss, text, f"not {loss:.6g}", severity=severity)


def _are_equal(one: Trial, other: Trial) -> bool:
    """True if losses are the same in evaluation and in training, and gradients are."""
    # What batch norms scale by at first may let nothing through in evaluation.
    if any(t.loss() != o.loss() for t, o in ((one.evaluating(), other.evaluating()), (one, other))):
        return False
    # A ratio of new to old probabilities is 1 at first, whatever it is given.
    gradients, others = (each.run(differentiates=True).gradients for each in (one, other))
    return all(
        x is y or (x is not None and y is not None and torch.equal(x, y))
        for x, y in zip(gradients.values(), others.values(), strict=True)
    )


class _Reading(TorchFunctionMode):
    """Takes down the tensors that something is computed of, by their identity."""

    def __init__(self) -> None:
        super().__init__()
        self.tensors: set[int] = set()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.tensors |= {id(x) for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)}
        return func(*args, **(kwargs or {}))
