"""Faults of recurrent layers, and of formats of few bits that are trained through.

Threads: IntelLabs/distiller#327, pytorch/pytorch#64155.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.faults import data
from benchmarks.faults.data import Batch
from benchmarks.faults.fault import WHOLE, fault
from benchmarks.faults.training import Training
from benchmarks.faults.twinned.twin import Loss, seeded, set_up


def _classes(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(model(x), y)


class Reader(nn.Module):
    """A class of a sequence that is read both ways.

    Args:
        is_both: Whether it takes the last state of each way, and not both at the last token.
    """

    def __init__(self, *, is_both: bool) -> None:
        super().__init__()
        self.is_both = is_both
        self.words = nn.Embedding(16, 16)
        self.rnn = nn.LSTM(16, 24, batch_first=True, bidirectional=True)
        self.head = nn.Linear(48, 8)

    def forward(self, ids: Tensor) -> Tensor:
        """Logits of (batch, 8)."""
        states, (last, _) = self.rnn(self.words(ids))
        return self.head(torch.cat([last[0], last[1]], 1) if self.is_both else states[:, -1])


@fault("lstm", WHOLE, "rnn", kinds="recurrent|direction|loss|plateau|gradient|vanish|time")
def way_back_that_has_read_one_token(t: Training, *, is_mended: bool = False) -> Loss:
    """Takes both directions at the last token, of which the way back has read nothing more."""

    def first(step: int) -> Batch:
        ids = torch.randint(16, (64, 30), generator=seeded(step))
        return ids, (ids[:, 0] + ids[:, 1]) % 8

    return set_up(t, Reader(is_both=is_mended), first, _classes, rate=1e-2, steps=200)


class Rounded(nn.Module):
    """Rounds to 15 steps of a range, which gradients pass through.

    Args:
        is_following: Whether the range follows what is rounded.
        is_passed: Whether gradients pass with their own sign.
    """

    def __init__(self, *, is_following: bool = True, is_passed: bool = True) -> None:
        super().__init__()
        self.is_following, self.is_passed = is_following, is_passed
        self.range = nn.Buffer(torch.tensor(0.01))

    def forward(self, x: Tensor) -> Tensor:
        """Numbers of the same shape."""
        if self.training and self.is_following:
            self.range.copy_(torch.maximum(0.9 * self.range, x.detach().abs().max()))
        step = self.range / 7
        clipped = torch.minimum(torch.maximum(x, -self.range), self.range)
        rounded = (clipped / step).round() * step
        return (
            clipped + (rounded - clipped).detach()
            if self.is_passed
            else (clipped.detach() + (rounded - clipped))
        )


def _rounded(**options: bool) -> nn.Sequential:
    made = [nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), Rounded(**options)]
    made += [nn.Linear(64, 64), nn.ReLU(), Rounded(**options), nn.Linear(64, 10)]
    return nn.Sequential(*made)


@fault("cnn", "1", "2", "3", "6", WHOLE, kinds="range|quant|clip|small|loss|input|gradient")
def range_that_is_never_observed(t: Training, *, is_mended: bool = False) -> Loss:
    """Rounds within the range that an observer had before it saw anything."""
    return set_up(t, _rounded(is_following=is_mended), data.images, _classes, rate=1e-3)


@fault("cnn", "1", "2", "3", "4", "5", "6", WHOLE, kinds="gradient|sign|loss|quant|detach")
def gradient_turned_round_by_rounding(t: Training, *, is_mended: bool = False) -> Loss:
    """Detaches the wrong term of a rounding, which then turns gradients round."""
    return set_up(t, _rounded(is_passed=is_mended), data.images, _classes, rate=1e-3)
