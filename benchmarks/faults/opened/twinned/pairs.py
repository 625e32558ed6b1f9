"""Mistakes in contrastive and self-distilled training."""

from __future__ import annotations

import copy

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.faults.fault import WHOLE, fault
from benchmarks.faults.own.pairs import Embedder, views
from benchmarks.faults.own.training import Figure, train
from benchmarks.faults.training import Training


def _confused(net: nn.Module) -> float:
    """The share of views whose nearest other view is not of the same row."""
    with torch.no_grad():
        a, b = net(views(900)[0])
    return float(((a @ b.t()).argmax(1) != torch.arange(len(a))).float().mean())


@fault("mlp", WHOLE, kinds="rank_collapse|plateau|trivial_loss|odd_loss")
def all_positives_in_the_first_column(t: Training, *, mended: bool = False) -> Figure:
    """Labels are zeros, as MoCo's are, though logits are those of all pairs of a batch.

    YihengZhang-CV/SeCo-Sequence-Contrastive-Learning#3, amazon-science/video-contrastive-learning#5
    """

    def loss(net: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        q, k = net(x)
        labels = y if mended else torch.zeros(len(y), dtype=torch.long)
        return F.cross_entropy(q @ k.t() / 0.1, labels)

    train(t, Embedder(), loss, views, lr=3e-3)
    return _confused


class Student(nn.Module):
    """A student with a predictor, and a teacher that follows it."""

    def __init__(self) -> None:
        super().__init__()
        self.student = Embedder(normalized=False)
        self.teacher = copy.deepcopy(self.student).requires_grad_(False)
        self.predictor = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 16))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """What is predicted of the first view, and what the teacher makes of the second."""
        with torch.no_grad():
            target = self.teacher(x[1])
        return self.predictor(self.student(x[0])), target

    @torch.no_grad()
    def follow(self, alpha: float) -> None:
        """Moves the teacher: alpha is the share that it keeps."""
        for ema, param in zip(self.teacher.parameters(), self.student.parameters(), strict=True):
            ema.mul_(alpha).add_(param, alpha=1 - alpha)


def _agreement(net: nn.Module, x: Tensor, _: Tensor) -> Tensor:
    made, target = net(x)
    return 2 - 2 * F.cosine_similarity(made, target, dim=-1).mean()


@fault("mlp", "predictor*", kinds="no_update")
def predictor_left_out(t: Training, *, mended: bool = False) -> None:
    """The optimizer was made of the student's parameters; the predictor's were forgotten.

    zjunlp/HVPNeT#5, ohhhyeahhh/SiamCAR#18
    """
    net = Student()
    train(t, net, _agreement, views)
    trained = list(net.student.parameters())
    trained += list(net.predictor.parameters()) if mended else []
    t.optimizer = torch.optim.Adam(trained, lr=1e-3)
    t.each_step(lambda: net.follow(0.99))
