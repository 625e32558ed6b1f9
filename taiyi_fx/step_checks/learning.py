"""A few updates on one batch, which should be learned by heart."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator, Mapping
from typing import Any

from torch import nn
from torch.optim import Optimizer

from taiyi_fx.findings.finding import Finding
from taiyi_fx.step_checks.kinds import UNLEARNED_BATCH
from taiyi_fx.step_checks.trial import Trial
from taiyi_fx.step_checks.untried import Untried

_STEPS = 100
_LEARNED = 0.1
"""The part of the first loss that these updates have to save."""
_LAST = 10


def learning_findings(trial: Trial, optimizer: Optimizer) -> Iterator[Finding]:
    """A loss that does not fall in a hundred updates on one batch.

    Raises:
        Untried: The loss has no bottom, as one of a policy or of densities, or the learning rate is
            not what it will be.
    """
    warming = [g["lr"] for g in optimizer.param_groups if g["lr"] < 0.1 * g.get("initial_lr", 0.0)]
    if warming:
        raise Untried(f"the learning rate is at {warming[0]:.3g} by its schedule")
    made = _same(optimizer, trial.copies)
    losses = trial.train(made, _STEPS)
    first, last = losses[0], sum(losses[-_LAST:]) / _LAST
    if min(losses) < 0:
        raise Untried("the loss falls below zero, and has no bottom that is known")
    if math.isfinite(last) and last <= first * (1 - _LEARNED):
        return
    text = f"{_STEPS} updates on this batch alone bring its loss from {first:.4g} to {last:.4g}"
    yield UNLEARNED_BATCH.of("", last, text, f"below {first * (1 - _LEARNED):.4g}")


def _same(optimizer: Optimizer, copies: Mapping[int, nn.Parameter]) -> Optimizer:
    """An optimizer of the same class and options, of the copies, without what it has gathered."""
    groups: list[dict[str, Any]] = [
        {**group, "params": [copies[id(p)] for p in group["params"] if id(p) in copies]}
        for group in optimizer.param_groups
    ]
    accepted = {k: v for k, v in optimizer.defaults.items() if k in _accepted(optimizer)}
    return type(optimizer)(groups, **accepted)


def _accepted(optimizer: Optimizer) -> set[str]:
    return {*inspect.signature(type(optimizer).__init__).parameters}
