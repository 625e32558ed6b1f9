"""Faults of losses: activations before them, shapes, signs, reductions and numbers without end."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.faults.changes import set_all
from benchmarks.faults.data import Batch
from benchmarks.faults.fault import WHOLE, fault
from benchmarks.faults.opened.asked.small_tasks import regression, segmentation, yes_or_no
from benchmarks.faults.training import Training, cross_entropy


def _append(t: Training, part: str, act: nn.Module) -> None:
    """Puts an activation behind the module of a name."""
    t.model.add_module(part, nn.Sequential(t.model.get_submodule(part), act))


@fault("mlp cnn", WHOLE, "head*", kinds="loss|softmax|logit|saturat|plateau|slow")
def softmax_at_the_end(t: Training) -> None:
    """Ends the model with a softmax, and trains it by a loss that takes another."""
    _append(t, "head", nn.Softmax(-1))


@fault("mlp", WHOLE, "4*", "5*", kinds="loss|sigmoid|logit|saturat|plateau|slow")
def sigmoid_before_a_loss_of_logits(t: Training) -> None:
    """Ends the model with a sigmoid, and trains it by a loss that takes another."""
    yes_or_no(t)
    t.model.add_module("5", nn.Sigmoid())


@fault("cnn", WHOLE, "last*", kinds="loss|sigmoid|logit|saturat|plateau|slow")
def sigmoid_in_a_segmenter(t: Training) -> None:
    """Returns probabilities of pixels, and trains them by a loss of logits."""
    segmentation(t)
    _append(t, "last", nn.Sigmoid())


@fault("mlp cnn", "head*", kinds="dead|relu|zero|loss|plateau")
def relu_as_the_last_layer(t: Training) -> None:
    """Has an activation behind each layer, the one of the logits too."""
    _append(t, "head", nn.ReLU())


@fault("mlp", "4*", "5*", WHOLE, kinds="dead|relu|zero|loss|plateau")
def relu_behind_the_number(t: Training) -> None:
    """Puts a ReLU behind the output of a regression whose numbers are of both signs."""
    regression(t)
    t.model.add_module("5", nn.ReLU())


@fault("mlp cnn", WHOLE, kinds="loss|rate|step|explod|diverg|jump|gradient|large")
def sum_of_all_losses(t: Training) -> None:
    """Adds up the losses of a batch, with the rate that was found for their mean."""
    t.backward = partial(cross_entropy, reduction="sum")


@fault("mlp", WHOLE, "4", kinds="loss|plateau|shape|broadcast|constant|mean")
def each_number_with_all_targets(t: Training) -> None:
    """Compares predictions of (batch, 1) with targets of (batch,)."""
    regression(t, loss=lambda found, y: (found - y.squeeze(1)).square().mean())


@fault("cnn", WHOLE, "last", kinds="loss|sign|diverg|saturat|plateau")
def overlap_that_is_made_small(t: Training) -> None:
    """Minimises the overlap of masks, and not what it lacks to one."""
    segmentation(t, loss=_overlap)


def _overlap(logits: Tensor, mask: Tensor) -> Tensor:
    found = logits.sigmoid()
    return (2 * (found * mask).sum() + 1) / (found.sum() + mask.sum() + 1)


@fault("cnn", WHOLE, "last", kinds="nan|finite|loss|inf|log")
def logarithm_without_epsilon(t: Training) -> None:
    """Writes the binary cross-entropy out, with logarithms of probabilities that become zero."""

    def written_out(logits: Tensor, mask: Tensor) -> Tensor:
        found = logits.sigmoid()
        return -(mask * found.log() + (1 - mask) * (1 - found).log()).mean()

    segmentation(t, loss=written_out, noise=0.0)
    set_all(t, lr=0.03)
    t.steps = 150


@fault("cnn", WHOLE, "last", kinds="nan|finite|loss|inf|pow|gradient")
def focal_loss_of_half_a_power(t: Training) -> None:
    """Weighs pixels by a square root, whose slope has no end where a pixel is sure."""

    def focal(logits: Tensor, mask: Tensor) -> Tensor:
        found, small = logits.sigmoid(), 1e-8
        yes = (1 - found) ** 0.5 * mask * (found + small).log()
        no = found**0.5 * (1 - mask) * (1 - found + small).log()
        return -(yes + no).mean()

    segmentation(t, loss=focal, noise=0.0)
    set_all(t, lr=0.03)
    t.steps = 150


@fault("cnn", WHOLE, "head", kinds="loss|class|balance|rare|bias|weight|constant")
def weights_that_favour_common_classes(t: Training) -> None:
    """Weighs rare classes by how often they are, and not by the inverse."""
    often = torch.tensor([8.0, 8.0] + 8 * [1.0])

    def thin_out(step: int, x: Tensor, y: Tensor) -> Batch:
        kept = (y < 2) | (torch.arange(len(y)) % 8 == 0)
        return x[kept], y[kept]

    t.change_batch(thin_out)
    t.backward = partial(cross_entropy, weight=often / often.sum())


@fault("cnn", WHOLE, "head", kinds="loss|class|balance|weight|constant|large|explod")
def weight_of_a_class_without_measure(t: Training) -> None:
    """Gives a class that is not learned a weight of a trillion, and the others next to none."""
    weight = torch.full((10,), 1e-3)
    weight[3] = 1e12
    t.backward = partial(cross_entropy, weight=weight)


@fault("mlp", WHOLE, "layers*", kinds="vanish|saturat|sigmoid|slow|rate|plateau|small|loss")
def sigmoids_and_a_squared_error(t: Training) -> None:
    """Has sigmoids in all layers and behind the head, a squared error, and a rate of 0.001."""
    for layer in t.model.get_submodule("layers").children():
        layer.add_module("act", nn.Sigmoid())
    _append(t, "head", nn.Sigmoid())
    t.optimizer = torch.optim.SGD(t.model.parameters(), lr=1e-3)

    def squared(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        loss = F.mse_loss(model(x), F.one_hot(y, 5).float())
        loss.backward()
        return loss

    t.backward = squared


@fault("mlp", WHOLE, "4", kinds="loss|scale|target|large|gradient|slow")
def targets_in_their_own_unit(t: Training) -> None:
    """Trains on prices in cents, which are neither centred nor scaled."""
    regression(t)
    t.change_batch(lambda step, x, y: (x, 20_000 + 5_000 * y))


@fault("mlp cnn", WHOLE, "{next}*", "{stage}*", kinds="nan|finite|inf|log")
def logarithm_of_activations(t: Training) -> None:
    """Takes the logarithm of what a ReLU gives."""
    model: Any = t.model
    model.between = lambda stage, x: x.log() if stage == 2 else x
