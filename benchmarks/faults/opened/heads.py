"""Trainings of two heads and of values, whose losses do not fit each other."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.faults.fault import WHOLE, fault
from benchmarks.faults.opened.edits import anew
from benchmarks.faults.training import Training


def _layers(*widths: int) -> nn.Sequential:
    rows = [nn.Linear(widths[0], widths[1]), nn.ReLU(), nn.Linear(widths[1], widths[2])]
    return nn.Sequential(*rows)


class _TwoHeads(nn.Module):
    """A trunk, classes, and a number for each row."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk, self.kind, self.size = _layers(16, 64, 64), nn.Linear(64, 5), nn.Linear(64, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Logits of (batch, 5), and values of (batch,)."""
        x = self.trunk(x).relu()
        return self.kind(x), self.size(x).squeeze(1)


@fault("mlp", WHOLE, "size", kinds="wild_loss|large")
def one_of_two_losses_a_million_times_larger(t: Training) -> None:
    """A size in pixels, whose squared error leaves the classes no say in the trunk."""

    def backward(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        kind, size = model(x)
        loss = F.cross_entropy(kind, y) + F.mse_loss(size, 1000 * x[:, 1])
        loss.backward()
        return loss

    anew(t, _TwoHeads(), backward, 3e-3)


@fault("mlp", "kind", kinds="missing_gradient|no_update|unused")
def loss_that_replaces_the_one_before(t: Training) -> None:
    """A second loss that is assigned where it should be added, so that one head never learns."""

    def backward(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        kind, size = model(x)
        loss = F.cross_entropy(kind, y)
        told = loss.detach()
        loss = F.mse_loss(size, x[:, 1])
        loss.backward()
        return told + loss

    anew(t, _TwoHeads(), backward, 3e-3)


@fault("mlp", WHOLE, "size", kinds="non_finite|overflow")
def squared_error_in_float16(t: Training) -> None:
    """An error of a few hundred whose square no half-precision number can be."""

    def backward(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        kind, size = model(x)
        loss = F.cross_entropy(kind, y) + (size.half() - (300 * y).half()).square().float().mean()
        loss.backward()
        return loss

    anew(t, _TwoHeads(), backward, 3e-3)


@fault("mlp", WHOLE, "size", kinds="unbounded_loss")
def quantile_loss_by_the_smaller_side(t: Training) -> None:
    """A quantile loss that takes the lesser of both sides, and so has no end."""

    def backward(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        kind, size = model(x)
        apart = y - size
        loss = F.cross_entropy(kind, y) + torch.minimum(0.9 * apart, -0.1 * apart).mean()
        loss.backward()
        return loss

    anew(t, _TwoHeads(), backward, 3e-3)


@fault("mlp", WHOLE, "kind", kinds="drift|grow|divergence|unbounded_loss|wild")
def values_that_bootstrap_without_end(t: Training) -> None:
    """Values of actions that are told by the best of themselves, and a discount above one."""

    def backward(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        values, _ = model(x)
        with torch.no_grad():
            best = model(x.roll(1, 0))[0].amax(1)
        action = torch.randint(5, (len(x),))
        told = (action == y).float() + 1.1 * best
        loss = F.mse_loss(values.gather(1, action[:, None]).squeeze(1), told)
        loss.backward()
        return loss

    anew(t, _TwoHeads(), backward, 3e-2)
