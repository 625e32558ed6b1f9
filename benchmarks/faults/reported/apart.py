"""Faults of one part that is not like the others, and of what changes while training goes on."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.faults.changes import change_class
from benchmarks.faults.fault import WHOLE, fault
from benchmarks.faults.training import Training

_NEIGHBOURS = ("{stage}*", "{next}*")


def _put(t: Training, function: Callable[[int, Tensor], Tensor]) -> None:
    """Has a function of the step and the output take the place behind the stage."""
    now, number = [0], int(t.names["stage"].rpartition(".")[2])
    t.before_step.append(lambda step: now.__setitem__(0, step))
    t.model.between = lambda i, x: function(now[0], x) if i == number else x  # pyright: ignore


def _weights(t: Training) -> list[Tensor]:
    named = t.module("middle").named_parameters()
    return [parameter.data for name, parameter in named if "weight" in name]


@fault("mlp cnn gpt", "{act}")
def activation_left_out(t: Training) -> None:
    """One stage of which nothing but the activation is missing."""
    t.model.set_submodule(t.names["act"], nn.Identity())


@fault("mlp cnn gpt", "{act}")
def sigmoid_among_others(t: Training) -> None:
    """One stage with another activation."""
    t.model.set_submodule(t.names["act"], nn.Sigmoid())


@fault("mlp cnn gpt", "{middle}")
def weights_of_a_unit_deviation(t: Training) -> None:
    """One layer whose weights come from `torch.randn` as they are."""
    nn.init.normal_(t.module("middle").weight)


@fault("mlp gpt", "{middle}")
def bias_of_5(t: Training) -> None:
    """One layer whose bias is far from nothing, so that no unit is ever off."""
    nn.init.constant_(t.module("middle").bias, 5.0)


@fault("mlp gpt", "{last}", kinds="wild_start")
def head_times_20(t: Training) -> None:
    """First outputs that are sure of something wrong."""
    t.module("last").weight.data *= 20


@fault("mlp cnn gpt", *_NEIGHBOURS)
def detached_from_step_40(t: Training) -> None:
    """A phase of a training that cuts the first stages off."""
    _put(t, lambda step, x: x.detach() if step >= 40 else x)


@fault("mlp cnn gpt", *_NEIGHBOURS)
def scaled_from_step_45(t: Training) -> None:
    """A factor of a thousand that comes with a phase."""
    _put(t, lambda step, x: 1e3 * x if step >= 45 else x)


@fault("mlp cnn gpt", *_NEIGHBOURS)
def infinite_slope_from_step_33(t: Training) -> None:
    """A root at zero, between two readings: values of that step are finite."""
    _put(t, lambda step, x: x + (x - x.detach()).abs().sqrt() if step >= 33 else x)


@fault("mlp cnn gpt resnet", "{middle}")
def nan_in_one_weight_between_readings(t: Training) -> None:
    """One element is NaN at a step at which nothing is read."""
    t.at(47, lambda: _weights(t)[0].view(-1)[1].fill_(torch.nan))


@fault("mlp cnn gpt lstm resnet", "{middle}")
def zeroed_between_readings(t: Training) -> None:
    """A layer is cleared at a step at which nothing is read."""
    t.at(45, lambda: [weight.zero_() for weight in _weights(t)])


@fault("mlp cnn gpt", "{middle}")
def gradient_times_1000_from_step_50(t: Training) -> None:
    """A hook that begins late."""
    calls: list[int] = []

    def scale(gradient: Tensor) -> Tensor:
        calls.append(1)
        return 1e3 * gradient if len(calls) > 50 else gradient

    t.module("middle").weight.register_hook(scale)


@fault("cnn resnet", "{norm}")
def running_mean_of_3(t: Training) -> None:
    """Something writes into a running mean at each step."""
    t.each_step(lambda: t.module("norm").running_mean.fill_(3.0))


@fault("mlp lstm", kinds="unbounded_loss")
def minus_before_a_cross_entropy(t: Training) -> None:
    """A likelihood that is minimised."""

    def backward(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        loss = -F.cross_entropy(model(x).flatten(0, -2), y.flatten())
        loss.backward()
        return loss

    t.backward = backward


@fault("lstm", "{last}", kinds="zero_gradient")
def states_times_zero(t: Training) -> None:
    """A mask that hides all states from the head."""
    change_class(
        t.model, lambda self, old, ids: self.head(0 * self.lstm(self.words(ids))[0][:, -1])
    )


@fault("mlp cnn gpt", WHOLE, kinds="non_finite")
def logarithm_of_nothing_at_step_35(t: Training) -> None:
    """A loss that is infinite once, between two readings."""
    now = [0]
    t.before_step.append(lambda step: now.__setitem__(0, step))

    def backward(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        shares = model(x).flatten(0, -2).softmax(-1).gather(1, y.flatten()[:, None])
        loss = -(shares * (now[0] != 35)).log().mean()
        loss.backward()
        return loss

    t.backward = backward


@fault("mlp cnn gpt lstm", kinds="odd_setting")
def rate_that_falls_below_zero(t: Training) -> None:
    """A schedule that goes on behind its end."""
    t.schedule = lambda step: 1 - step / 60


@fault("gpt lstm gan", WHOLE, kinds="odd_setting")
def betas_in_the_wrong_order(t: Training) -> None:
    """Adam that averages gradients for longer than their squares."""
    t.optimizer.param_groups[0]["betas"] = (0.999, 0.9)
