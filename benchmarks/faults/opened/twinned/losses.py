"""Mistakes in losses, which are given logits or probabilities in place of the other."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.faults.data import Batch
from benchmarks.faults.fault import WHOLE, fault
from benchmarks.faults.own.masks import Segmenter, masks, missed, overlap
from benchmarks.faults.own.training import Figure, seeded, train
from benchmarks.faults.training import Training


@fault("cnn", WHOLE, "outc", kinds="unbounded_loss|unsquashed_loss")
def dice_of_the_logits(t: Training, *, mended: bool = False) -> Figure:
    """A loss of -1000 and a Dice above 1: the output was not limited to 0 to 1.

    milesial/Pytorch-UNet#271
    """

    def loss(net: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        made = net(x)
        return 1 - overlap(torch.sigmoid(made) if mended else made, y).mean()

    train(t, Segmenter(), loss, masks, lr=5e-3)
    return missed


class UNet3Plus(Segmenter):
    """The U-Net with a sigmoid behind it.

    Args:
        sigmoid: Whether there is one.
    """

    def __init__(self, *, sigmoid: bool) -> None:
        super().__init__()
        self.act = nn.Sigmoid() if sigmoid else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """Numbers of (batch, 1, height, width)."""
        return self.act(super().forward(x))


@fault("cnn", "act", "outc", kinds="^squashed_loss")
def sigmoid_twice_for_masks(t: Training, *, mended: bool = False) -> None:
    """Bceloss does not decrease: the net returns F.sigmoid(d1) to a loss with logits.

    avBuffer/UNet3plus_pth#23, itakurah/focal-loss-pytorch#5
    """

    def loss(net: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(net(x), y)

    train(t, UNet3Plus(sigmoid=not mended), loss, masks, lr=5e-3)


class Recommender(nn.Module):
    """Factors of users and items.

    Args:
        sigmoid: Whether what it returns is a probability.
    """

    def __init__(self, *, sigmoid: bool) -> None:
        super().__init__()
        self.sigmoid = sigmoid
        self.user, self.item = nn.Embedding(16, 8), nn.Embedding(16, 8)
        self.affine = nn.Linear(8, 1)

    def forward(self, pairs: Tensor) -> Tensor:
        """Ratings of (batch,)."""
        made = self.affine(self.user(pairs[:, 0]) * self.item(pairs[:, 1])).squeeze(1)
        return torch.sigmoid(made) if self.sigmoid else made


def ratings(step: int) -> Batch:
    """Pairs of users and items, and whether they fit."""
    pairs = torch.randint(16, (256, 2), generator=seeded(step))
    tastes = torch.randn(2, 16, 3, generator=seeded(-1))
    return pairs, ((tastes[0][pairs[:, 0]] * tastes[1][pairs[:, 1]]).sum(1) > 0).float()


@fault("lstm", "affine", kinds="^squashed_loss")
def probabilities_to_a_loss_with_logits(t: Training, *, mended: bool = False) -> None:
    """The loss does not converge: the model squashes, and BCEWithLogitsLoss does again.

    yudi-mars/daisyRec#15, YXNTU/GeneralDyG#6, NVIDIA-Merlin/models#1175
    """

    def loss(net: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        return nn.BCEWithLogitsLoss()(net(x), y)

    train(t, Recommender(sigmoid=not mended), loss, ratings, lr=3e-2)
