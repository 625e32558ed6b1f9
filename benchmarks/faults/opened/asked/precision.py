"""Faults of narrow formats and of gradients that are gathered over batches."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.faults.changes import set_all
from benchmarks.faults.fault import WHOLE, fault
from benchmarks.faults.opened.asked.small_tasks import segmentation
from benchmarks.faults.training import Training


def scaled(t: Training) -> None:
    """Trains in float16 with a scaler, by SGD."""
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**14)
    t.autocast, t.scaler = True, scaler
    t.optimizer = torch.optim.SGD(t.model.parameters(), lr=0.05, momentum=0.9)

    def backward(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        loss = F.cross_entropy(model(x).flatten(0, -2).float(), y.flatten())
        scaler.scale(loss).backward()
        return loss

    t.backward = backward


@fault("mlp cnn", WHOLE, kinds="clip|scale|step|update|small|slow|plateau|stall|rate")
def clipped_while_scaled(t: Training) -> None:
    """Clips gradients to a norm of one before they are divided by the scale of the loss."""
    scaled(t)
    t.clip = 1.0


@fault("gpt mlp", WHOLE, "*", kinds="update|round|bfloat|precision|format|small|stall|slow|step")
def all_in_bfloat16(t: Training) -> None:
    """Casts the model to bfloat16, whose weights are too coarse for a step of fine-tuning."""
    t.model.bfloat16()
    set_all(t, lr=1e-5)
    if "attention" not in t.names:
        t.change_batch(lambda step, x, y: (x.bfloat16(), y))


@fault("cnn", WHOLE, "last", kinds="nan|finite|inf|loss|bfloat|precision|log|clamp")
def epsilon_that_bfloat16_lacks(t: Training) -> None:
    """Clamps probabilities to one minus a millionth, which in bfloat16 is one."""

    def written_out(logits: Tensor, mask: Tensor) -> Tensor:
        found = logits.bfloat16().sigmoid().clamp(1e-6, 1 - 1e-6)
        return -(mask * found.log() + (1 - mask) * (1 - found).log()).float().mean()

    segmentation(t, loss=written_out, noise=0.0)
    set_all(t, lr=0.03)


@fault("mlp cnn", WHOLE, kinds="accumul|rate|step|diverg|explod|loss|large|gradient|scale")
def sum_over_gathered_batches(t: Training) -> None:
    """Gathers gradients of eight batches, and does not divide their losses by eight."""
    t.micro_batches, t.steps = 8, 40

    def backward(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        loss = F.cross_entropy(model(x), y)
        (8 * loss).backward()
        return loss.detach()

    t.backward = backward
