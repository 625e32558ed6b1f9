"""Norms that are told wrong numbers, or normalise along a wrong axis."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.faults.changes import change_class, rate
from benchmarks.faults.fault import fault
from benchmarks.faults.training import Training


@fault("cnn resnet", "{norm}", "{act}", kinds="evaluation_mode")
def statistics_of_other_data(t: Training) -> None:
    """A BatchNorm that is kept in evaluation, with statistics that fit other data."""
    norm = t.module("norm")
    norm.running_var.fill_(1e-4)
    norm.eval()


@fault("cnn resnet", "{norm}")
def running_mean_of_nan(t: Training) -> None:
    """A running mean that is NaN from step 30: no loss of the training shows it."""
    t.at(30, lambda: t.module("norm").running_mean.fill_(torch.nan))


@fault("gpt cnn mobile", "{norm}", "{act}", kinds="missing_norm")
def norm_of_single_values(t: Training) -> None:
    """A norm over an axis of one element, of which nothing is left."""
    change_class(
        t.module("norm"), lambda self, old, x: F.layer_norm(x.unsqueeze(-1), (1,)).squeeze(-1)
    )


@fault("cnn gpt", "*norm*", kinds="large_decay")
def decay_of_all_norms(t: Training) -> None:
    """A group for the parameters of norms whose decay was meant to be nothing."""
    norms = [m for m in t.model.modules() if isinstance(m, nn.LayerNorm | nn.BatchNorm2d)]
    moved = [parameter for norm in norms for parameter in norm.parameters()]
    own = {id(parameter) for parameter in moved}
    group = t.optimizer.param_groups[0]
    group["params"] = [p for p in group["params"] if id(p) not in own]
    t.optimizer.add_param_group({"params": moved, "weight_decay": 0.1 / rate(t)})
