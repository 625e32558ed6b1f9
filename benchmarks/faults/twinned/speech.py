"""Faults of alignments, as of sounds and letters.

Threads: NVIDIA-NeMo/Speech#14583, espnet/espnet#1673, thu-spmi/CAT#22.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.faults.data import Batch
from benchmarks.faults.fault import WHOLE, fault
from benchmarks.faults.training import Training
from benchmarks.faults.twinned.twin import Loss, seeded, set_up

_KINDS = "loss|align|blank|class|axis|softmax|negative|unbounded|squash|plateau|nan|finite"


class Recogniser(nn.Module):
    """A letter, or none, at each frame of a sound."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(12, 32, 3, padding=1)
        self.rnn = nn.GRU(32, 32, batch_first=True, bidirectional=True)
        self.head = nn.Linear(64, 7)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of (batch, frames, 7)."""
        return self.head(self.rnn(F.relu(self.conv(x.mT)).mT)[0])


def _sounds(step: int) -> Batch:
    """Frames of (32, 24, 12) and three letters of 1 to 6, each of which is six frames long."""
    generator = seeded(step)
    y = torch.randint(6, (32, 3), generator=generator)
    sounds = torch.randn(6, 12, generator=torch.Generator().manual_seed(0))
    x = F.pad(sounds[y].repeat_interleave(6, 1), (0, 0, 3, 3))
    return x + 0.3 * torch.randn(x.shape, generator=generator), y + 1


def _aligned(found: Tensor, y: Tensor) -> Tensor:
    frames, letters = (torch.full((len(y),), n) for n in (found.shape[0], y.shape[1]))
    return F.ctc_loss(found, y, frames, letters)


def _told(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return _aligned(model(x).log_softmax(-1).transpose(0, 1), y)


@fault("cnn", WHOLE, "head", kinds=_KINDS)
def softmax_over_frames(t: Training, *, is_mended: bool = False) -> Loss:
    """Brings time to the front, and takes the softmax over the axis that had the letters before."""

    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        found = model(x).transpose(0, 1)
        return _aligned(found.log_softmax(2 if is_mended else 0), y)

    return set_up(t, Recogniser(), _sounds, loss, _told)


@fault("cnn", WHOLE, "head", kinds=_KINDS)
def logits_to_an_alignment(t: Training, *, is_mended: bool = False) -> Loss:
    """Passes logits to a loss of alignments that takes logarithms of probabilities."""

    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        found = model(x).transpose(0, 1)
        return _aligned(found.log_softmax(2) if is_mended else found, y)

    return set_up(t, Recogniser(), _sounds, loss, _told)


@fault("cnn", WHOLE, "head", kinds=_KINDS)
def letter_that_is_the_blank(t: Training, *, is_mended: bool = False) -> Loss:
    """Numbers letters from 0, which is the number of the blank."""

    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        return _told(model, x, y if is_mended else y - 1)

    def judge(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        """How many sounds are not told letter by letter."""
        said = [line.unique_consecutive() for line in model(x).argmax(-1)]
        right = [
            line[line > 0].equal(told)
            for line, told in zip(said, y if is_mended else y - 1, strict=True)
        ]
        return 1 - torch.tensor(right).float().mean()

    return set_up(t, Recogniser(), _sounds, loss, judge, steps=250)
