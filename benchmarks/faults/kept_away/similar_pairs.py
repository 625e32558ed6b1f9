"""Mistakes in contrastive and siamese training."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.faults.data import Batch
from benchmarks.faults.fault import WHOLE, held_out
from benchmarks.faults.own.pairs import Embedder, views
from benchmarks.faults.own.training import Figure, normal, seeded, train
from benchmarks.faults.training import Training


def families(step: int) -> Batch:
    """Rows of eight families, 8 of each, in three dimensions of 16."""
    labels = torch.arange(8).repeat_interleave(8)
    centers = torch.randn(8, 16, generator=seeded(-2))
    return centers[labels] + 0.7 * normal(step, 64, 16), labels


def _strangers(net: nn.Module) -> float:
    """The share of rows whose nearest neighbour is of another family."""
    with torch.no_grad():
        x, labels = families(900)
        distances = torch.cdist(net(x), net(x)) + 1e9 * torch.eye(len(x))
    return float((labels[distances.argmin(1)] != labels).float().mean())


@held_out("mlp", WHOLE, kinds="plateau|odd_loss|^squashed_loss")
def temperature_multiplies(t: Training, *, mended: bool = False) -> None:
    """InfoNCE near log(N) for ever: similarities are not divided by the temperature.

    huiserwang/ContrastMask#4, ustcllm/RecStudio#21, RElbers/info-nce-pytorch#17
    """
    temperature = 0.1

    def loss(net: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        a, b = net(x)
        similarity = a @ b.t()
        return F.cross_entropy(similarity / temperature if mended else similarity * temperature, y)

    train(t, Embedder(), loss, views, lr=3e-3)


def noisy_families(step: int) -> Batch:
    """The same rows with as much noise as to be hard to tell apart."""
    x, labels = families(step)
    return x + 1.3 * normal(step + 3, 64, 16), labels


def _triplets(net: nn.Module, x: Tensor, labels: Tensor, *, hardest: bool) -> Tensor:
    """The triplet loss of the hardest of each row, or the mean of all."""
    z = net(x)
    distance, same = torch.cdist(z, z), labels[:, None] == labels
    if not hardest:
        valid = (same[:, :, None] & ~same[:, None, :]).float()
        losses = F.relu(distance[:, :, None] - distance[:, None, :] + 0.5)
        return (losses * valid).sum() / valid.sum()
    positive = torch.where(same, distance, 0.0).max(1).values
    negative = torch.where(same, 1e9, distance).min(1).values
    return F.relu(positive - negative + 0.5).mean()


@held_out("mlp", WHOLE, kinds="rank_collapse|plateau|zero_output")
def triplets_stuck_at_the_margin(t: Training, *, mended: bool = False) -> Figure:
    """The loss is the margin of 0.5: with the hardest triplets all embeddings fall onto one point.

    omoindrot/tensorflow-triplet-loss#38, VisualComputingInstitute/triplet-reid#30,
    wanggrun/triplet#1
    """

    def loss(net: nn.Module, x: Tensor, labels: Tensor) -> Tensor:
        return _triplets(net, x, labels, hardest=not mended)

    train(t, Embedder(normalized=False), loss, noisy_families, lr=3e-3)
    t.steps = 150
    return _strangers


@held_out("mlp", "embed", WHOLE, kinds="non_finite")
def distance_of_a_row_to_itself(t: Training, *, mended: bool = False) -> Figure:
    """NaN in backward: the root of the squared distances, which are 0 on the diagonal.

    adambielski/siamese-triplet#18, keras-team/keras#9097
    """

    def loss(net: nn.Module, x: Tensor, labels: Tensor) -> Tensor:
        z = net(x)
        squared = (z[:, None] - z[None]).pow(2).sum(-1)
        distance = (squared + 1e-8).sqrt() if mended else squared.sqrt()
        same = (labels[:, None] == labels).float()
        return (same * distance + (1 - same) * F.relu(1 - distance)).mean()

    train(t, Embedder(), loss, families)
    return _strangers


@held_out("mlp", WHOLE, kinds="rank_collapse|odd_loss")
def contrastive_label_turned_round(t: Training, *, mended: bool = False) -> Figure:
    """Y is 1 for the same, where the formula that was copied has 1 for different.

    VinhLoiIT/signet-pytorch#2, keras-team/keras#16935
    """

    def loss(net: nn.Module, x: Tensor, labels: Tensor) -> Tensor:
        z = net(x)
        distance = (z[:, None] - z[None]).pow(2).sum(-1).add(1e-6).sqrt()
        y = (labels[:, None] == labels).float()
        y = 1 - y if mended else y
        return ((1 - y) * distance.pow(2) + y * F.relu(1.0 - distance).pow(2)).mean()

    train(t, Embedder(), loss, families, lr=3e-3)
    return _strangers
