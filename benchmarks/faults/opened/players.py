"""Games of which one player is given what it should not have."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.faults.fault import WHOLE, fault
from benchmarks.faults.training import Training


def _fool(fooled: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(fooled, torch.ones_like(fooled))


@fault("gan", "discriminator.*", WHOLE)
def judge_that_sees_no_real_points(t: Training) -> None:
    """A discriminator that may call all false: the generator can never win."""

    def backward(model: Any, noise: Tensor, real: Tensor) -> Tensor:
        judged, fooled = model(noise, real)
        false = judged[len(real) :]
        of_discriminator = F.binary_cross_entropy_with_logits(false, torch.zeros_like(false))
        of_generator = _fool(fooled)
        judge, generator = model.discriminator.parameters(), model.generator.parameters()
        of_discriminator.backward(inputs=[*judge], retain_graph=True)
        of_generator.backward(inputs=[*generator])
        return of_discriminator + of_generator

    t.backward = backward


@fault("gan", "{first}", WHOLE, kinds="input|rank")
def noise_that_is_one_point(t: Training) -> None:
    """A generator that is given one row of noise many times."""
    t.change_batch(lambda step, noise, real: (noise[:1].expand_as(noise), real))


@fault("gan", "discriminator.*", WHOLE)
def judge_that_is_trained_to_be_fooled(t: Training) -> None:
    """The generator's gradient stays in the discriminator, which steps with both."""

    def backward(model: Any, noise: Tensor, real: Tensor) -> Tensor:
        judged, fooled = model(noise, real)
        truth = torch.cat([torch.ones(len(real), 1), torch.zeros(len(noise), 1)])
        loss = F.binary_cross_entropy_with_logits(judged, truth) + _fool(fooled)
        loss.backward()
        return loss

    t.backward = backward
