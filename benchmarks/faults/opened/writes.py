"""Weights and states that something writes into while training goes on."""

from __future__ import annotations

import copy

import torch

from benchmarks.faults.fault import WHOLE, fault
from benchmarks.faults.training import Training


@fault("mlp cnn gpt lstm", WHOLE, kinds="weight_jump|loss_spike")
def first_checkpoint_loaded_at_step_80(t: Training) -> None:
    """All weights are again what they were at first."""
    first = copy.deepcopy(t.model.state_dict())
    t.at(80, lambda: t.model.load_state_dict(first))


@fault("mlp cnn gpt lstm", "{late}")
def weight_turned_round_at_step_45(t: Training) -> None:
    """A layer's weight gets the other sign, as by a transfer that was subtracted twice."""
    for name, parameter in t.module("late").named_parameters():
        if name.startswith("weight"):
            t.at(45, parameter.data.neg_)


@fault("mlp resnet levit", "{last}")
def infinite_bias_of_the_head(t: Training) -> None:
    """One class's bias is infinite from step 70."""
    t.at(70, lambda: t.module("last").bias.data[2].fill_(torch.inf))


@fault("gpt lstm levit", "{late}")
def second_moment_below_zero(t: Training) -> None:
    """Second moments of one layer that a bad transfer made negative, at step 35."""

    def spoil() -> None:
        for parameter in t.module("late").parameters():
            t.optimizer.state[parameter]["exp_avg_sq"].neg_()

    t.at(35, spoil)
