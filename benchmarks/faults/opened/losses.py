"""Losses that say something else than was meant."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.faults.fault import WHOLE, fault
from benchmarks.faults.training import Training, balanced


def _logits(model: nn.Module, x: Tensor) -> Tensor:
    return model(x).flatten(0, -2)


@fault("mlp cnn", WHOLE, kinds="small_steps|plateau")
def averaged_twice(t: Training) -> None:
    """A mean that is divided by the size of the batch once more."""

    def backward(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        loss = F.cross_entropy(_logits(model, x), y.flatten()) / len(y)
        loss.backward()
        return loss

    t.backward = backward


@fault("mlp gpt lstm", kinds="drift|decay|zero_weight|odd_loss")
def penalty_that_outweighs_the_loss(t: Training) -> None:
    """A penalty of all weights that was meant to be a ten-thousandth of it: they shrink."""

    def backward(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        loss = F.cross_entropy(_logits(model, x), y.flatten())
        loss = loss + sum(p.square().sum() for p in t.model.parameters())
        loss.backward()
        return loss

    t.backward = backward


@fault("mlp lstm resnet", WHOLE, kinds="missing_gradient|no_update|zero_gradient|detached")
def loss_cut_off_from_the_model(t: Training) -> None:
    """A loss that was made anew of its number, to have a gradient again."""

    def backward(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        loss = F.cross_entropy(_logits(model, x), y.flatten())
        loss = torch.tensor(loss.item(), requires_grad=True)
        loss.backward()
        return loss

    t.backward = backward


@fault("mlp cnn", WHOLE, kinds="plateau")
def entropy_that_outweighs_the_loss(t: Training) -> None:
    """A reward for being unsure, ten times what was meant: the model stays at a guess."""

    def backward(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        logits = _logits(model, x)
        entropy = torch.distributions.Categorical(logits=logits).entropy().mean()
        loss = F.cross_entropy(logits, y.flatten()) - 5 * entropy
        loss.backward()
        return loss

    t.backward = backward


@fault("cnn lstm", WHOLE, kinds="squash")
def divergence_of_what_is_no_logarithm(t: Training) -> None:
    """`kl_div` of probabilities, which takes their logarithms."""

    def backward(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        logits = _logits(model, x)
        target = F.one_hot(y.flatten(), logits.shape[-1]).float()
        loss = F.kl_div(logits.softmax(-1), target, reduction="batchmean")
        loss.backward()
        return loss

    t.backward = backward


@fault("gpt lstm", "{last}", WHOLE, kinds="wild_start|wild_loss|large_steps|divergence")
def temperature_of_a_hundredth(t: Training) -> None:
    """Logits that are divided by a temperature that was meant for another loss."""

    def backward(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        loss = F.cross_entropy(_logits(model, x) / 0.01, y.flatten())
        loss.backward()
        return loss

    t.backward = backward


@fault("moe", "layers.*.mlp.router.*", "layers.*.mlp", kinds="router|expert")
def balance_that_is_a_thousand_times_too_heavy(t: Training) -> None:
    """A balance of experts in which the routers have no other say."""
    t.backward = lambda model, x, y: balanced(model, x, y, weight=10.0)
