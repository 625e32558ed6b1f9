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
    evaluating = trial.evaluating()
    tensors = trial.batch.tensors()
    axes = sample_axes(tensors)
    before = evaluating.loss(), trial.loss()
    copy, reading = trial.batch.converted(trial.dtype), _Reading()
    trial.run(within=reading, copy=copy)
    read = {name for name, x in copy.tensors().items() if id(x) in reading.tensors}
    doubled = torch.arange(axes.size) // 2 * 2
    for name, axis in axes.of.items():
        changed = tensors[name].index_select(axis, doubled.to(tensors[name].device))
        if torch.equal(changed, tensors[name]):
            continue
        batch = trial.batch.replaced({name: changed})
        # In training, too: what batch norms scale by at first may let nothing through.
        if (evaluating.of(batch).loss(), trial.of(batch).loss()) == before:
            text = (
                f"the loss is {before[0]:.6g} whatever {name!r} holds: it stays the same to the "
                "last bit when each other sample in it is replaced by the one before"
            )
            expected, is_read = f"not {before[0]:.6g}", name in read
            text += "" if is_read else "; the step does not even read it"
            severity = "warning" if is_read else "note"
            yield UNUSED_INPUT.of("", before[0], text, expected, severity=severity)


class _Reading(TorchFunctionMode):
    """Takes down the tensors that something is computed of, by their identity."""

    def __init__(self) -> None:
        super().__init__()
        self.tensors: set[int] = set()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.tensors |= {id(x) for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)}
        return func(*args, **(kwargs or {}))
