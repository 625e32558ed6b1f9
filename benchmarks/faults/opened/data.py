"""Batches that are not what they should be."""

from __future__ import annotations

import torch
from torch import Tensor

from benchmarks.faults.data import Batch
from benchmarks.faults.fault import WHOLE, fault
from benchmarks.faults.training import Training


def _seeded(step: int) -> torch.Generator:
    return torch.Generator().manual_seed(step)


@fault("mlp", WHOLE)
def labels_of_one_class(t: Training) -> None:
    """A column of labels that was never filled in: the loss falls to nothing at once."""
    t.change_batch(lambda step, x, y: (x, torch.zeros_like(y)))


@fault("mlp cnn", "{first}", WHOLE, kinds="input")
def the_same_batch_from_step_40(t: Training) -> None:
    """A loader that hands out the same batch again and again."""
    batch = t.batch
    t.batch = lambda step: batch(min(step, 40))


@fault("mlp-tanh cnn", "{first}", WHOLE, kinds="input|loss_spike|divergence")
def axes_of_inputs_exchanged_from_step_50(t: Training) -> None:
    """Columns that come in another order, or images whose height and width are exchanged."""

    def exchange(step: int, x: Tensor, y: Tensor) -> Batch:
        if step < 50:
            return x, y
        return x.mT if x.dim() == 4 else x.flip(1), y

    t.change_batch(exchange)


@fault("mlp mlp-tanh", "{first}", kinds="input")
def missing_values_of_minus_999(t: Training) -> None:
    """A code for what is missing, taken for a number."""

    def spoil(step: int, x: Tensor, y: Tensor) -> Batch:
        return torch.where(torch.rand(x.shape, generator=_seeded(step)) < 0.05, -999.0, x), y

    t.change_batch(spoil)


@fault("gpt", WHOLE, kinds="loss_spike|non_finite")
def batch_without_a_target(t: Training) -> None:
    """A batch whose targets are all ignored, at step 45: a mean of nothing is NaN."""
    t.change_batch(lambda step, x, y: (x, torch.full_like(y, -100) if step == 45 else y))


@fault("lstm moe", "{first}", WHOLE, kinds="input|plateau|rank")
def every_token_is_unknown(t: Training) -> None:
    """A vocabulary that does not fit, by which all tokens are the same."""
    t.change_batch(lambda step, x, y: (torch.zeros_like(x), y))


@fault("mlp resnet", "{first}", WHOLE, kinds="input|plateau|rank")
def divided_by_255_before_it_is_standardised(t: Training) -> None:
    """Inputs that are nearly constant, though of a usual size."""
    t.change_batch(lambda step, x, y: (x / 255 - 2, y))


@fault("cnn levit", "{first}", WHOLE, kinds="input|plateau")
def augmentation_that_erases_nearly_all(t: Training) -> None:
    """Erasing of 98 pixels in 100."""

    def erase(step: int, x: Tensor, y: Tensor) -> Batch:
        return x * (torch.rand(x.shape, generator=_seeded(step)) < 0.02), y

    t.change_batch(erase)
