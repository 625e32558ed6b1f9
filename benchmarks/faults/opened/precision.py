"""Numbers that do not fit their format, and scalers that are used wrongly."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.faults.fault import WHOLE, fault
from benchmarks.faults.training import Training


def _scale(t: Training, scaler: torch.amp.GradScaler) -> None:
    t.autocast, t.scaler = True, scaler

    def scaled(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        loss = F.cross_entropy(model(x).flatten(0, -2).float(), y.flatten())
        scaler.scale(loss).backward()
        return loss

    t.backward = scaled


@fault("mlp cnn", WHOLE, kinds="small_steps|plateau|no_update")
def clipped_before_it_is_unscaled(t: Training) -> None:
    """Gradients that are cut to a norm of 1 while they are 65,536 times too large."""
    _scale(t, torch.amp.GradScaler("cpu", init_scale=2.0**16))
    t.clip = 1.0


@fault("mlp gpt", WHOLE, kinds="only_skips|overflow|no_update")
def scale_that_does_not_come_down(t: Training) -> None:
    """A scale far too large that a thousandth less at each step does not mend."""
    _scale(t, torch.amp.GradScaler("cpu", init_scale=2.0**40, backoff_factor=0.999))


@fault("gpt lstm", kinds="non_finite|lost_moment")
def adam_in_float16(t: Training) -> None:
    """Parameters in float16, in which Adam's epsilon is zero: the first step makes NaN."""
    t.model.half()
