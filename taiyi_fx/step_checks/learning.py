"""A few updates on one batch, which should be learned by heart."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch
from torch import nn
from torch.optim import Optimizer

from taiyi_fx.findings.finding import Finding
from taiyi_fx.step_checks.kinds import UNLEARNED_BATCH
from taiyi_fx.step_checks.optimizers import copies_of, refuse_low_rates
from taiyi_fx.step_checks.stand_ins import learned
from taiyi_fx.step_checks.trial import Trial
from taiyi_fx.step_checks.untried import Untried

_STEPS = 100
_LEARNED = 0.1
"""The part of the first loss that these updates have to save."""
_LAST = 10
_RATE = 0.001
"""That of the optimizer which is tried where the one that is given learns nothing."""


def learning_findings(trial: Trial, optimizers: Sequence[Optimizer]) -> Iterator[Finding]:
    """A loss that does not fall in a hundred updates on one batch.

    Raises:
        Untried: The loss has no bottom, as one of a policy or of densities, or the learning rate is
            not what it will be.
    """
    refuse_low_rates(optimizers)
    losses = trial.train(copies_of(optimizers, trial.copies), _STEPS)
    first, last = losses[0], _last(losses)
    if min(losses) < 0:
        raise Untried("the loss falls below zero, and has no bottom that is known")
    aim = first * (1 - _LEARNED)
    if last <= aim:
        return
    stock = _last(trial.train(_stock(trial.models[""]), _STEPS))
    text = f"{_STEPS} updates on this batch alone bring its loss from {first:.4g} to {last:.4g}"
    text += (
        f"; Adam at a rate of {_RATE} brings it to {stock:.4g}: look at the optimizer"
        if stock <= aim
        else f", and Adam at a rate of {_RATE} does no better: look at the model and the loss"
    )
    yield UNLEARNED_BATCH.of("", last, text, f"below {aim:.4g}")


def _stock(model: nn.Module) -> list[Optimizer]:
    """Adam for all that is learned; that of sparse gradients for tables that have such."""
    dense, sparse = list[nn.Parameter](), list[nn.Parameter]()
    for name, parameter in learned(model).items():
        module = model.get_submodule(name.rpartition(".")[0])
        (sparse if getattr(module, "sparse", False) is True else dense).append(parameter)
    kinds = ((torch.optim.Adam, dense), (torch.optim.SparseAdam, sparse))
    return [kind(parameters, lr=_RATE) for kind, parameters in kinds if parameters]


def _last(losses: Sequence[float]) -> float:
    """The mean of the last ones; infinite where they are not finite."""
    mean = sum(losses[-_LAST:]) / _LAST
    return mean if math.isfinite(mean) else math.inf
