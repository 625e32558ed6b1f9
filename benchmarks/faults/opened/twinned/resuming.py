"""Mistakes in what goes on from an earlier training: its rate and its statistics."""

from __future__ import annotations

from collections.abc import Callable

import torch.nn.functional as F
from torch import nn

from benchmarks.faults import data
from benchmarks.faults.fault import WHOLE, fault
from benchmarks.faults.own.digits import Backbone, pretrained
from benchmarks.faults.own.training import Figure, errors_of, train
from benchmarks.faults.training import Training


def _restart(t: Training) -> Callable[[], None]:
    def restart() -> None:
        t.optimizer.state.clear()
        for group in t.optimizer.param_groups:
            group["lr"] = group["initial_lr"] = 1.0

    return restart


@fault("cnn", WHOLE, kinds="lost_state|large_steps|divergence|loss_spike|odd_rate|^growth")
def resumed_at_the_first_rate(t: Training, *, mended: bool = False) -> None:
    """The loss is worse after --resume: a new optimizer, at a rate that had been warmed up.

    ultralytics/yolov5#292, ultralytics/yolov3#902, EvolvingLMMs-Lab/OneVision-Encoder#65
    """
    if not mended:
        t.at(70, _restart(t))


@fault("cnn", "backbone*", kinds="moving_statistics|stale_statistics", notes=True)
def frozen_backbone_whose_norms_move(t: Training, *, mended: bool = False) -> Figure:
    """requires_grad=False does not stop running statistics, which model.train() updates.

    lightly-ai/lightly#1438, kdexd/virtex#16, Lightning-AI/pytorch-lightning#15062
    """
    net = Backbone()
    net.load_state_dict(pretrained())
    net.backbone.requires_grad_(False)
    if mended:
        for module in net.backbone.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.eval()
    train(t, net, lambda net, x, y: F.cross_entropy(net(x), y), lr=1e-3)
    t.change_batch(lambda step, x, y: (0.3 * x + 1, y))
    t.steps = 60

    return lambda net: errors_of(data.images)(net)
