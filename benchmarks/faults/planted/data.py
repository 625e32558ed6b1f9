"""Data and losses that are not what they should be."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from benchmarks.faults.data import Batch
from benchmarks.faults.fault import WHOLE, fault
from benchmarks.faults.training import Training

_STALL = "(?i)plateau|stall|stuck|loss|slow|progress"
_SPIKE = "(?i)spike|jump|loss|outlier"
_INPUT = "(?i)input|scale"


@fault("mlp cnn", "{first}", WHOLE, kinds=_INPUT)
def inputs_of_scale_10000(t: Training) -> None:
    """Inputs were not normalised."""
    t.change_batch(lambda step, x, y: (1e4 * x, y))


@fault("mlp cnn", "{first}", WHOLE, kinds=_INPUT)
def inputs_of_scale_ten_thousandth(t: Training) -> None:
    """Inputs were normalised twice."""
    t.change_batch(lambda step, x, y: (1e-4 * x, y))


@fault("mlp", "{first}", WHOLE, kinds=_INPUT)
def one_feature_of_wild_scale(t: Training) -> None:
    """One feature is in other units than the rest."""
    t.change_batch(lambda step, x, y: (x * torch.tensor([1e3] + [1.0] * 15), y))


@fault("mlp cnn", "{first}", WHOLE, kinds=_INPUT)
def inputs_of_zeros(t: Training) -> None:
    """The loader gives empty samples."""
    t.change_batch(lambda step, x, y: (torch.zeros_like(x), y))


@fault("mlp cnn", "{first}", WHOLE, kinds=_INPUT)
def inputs_that_grow(t: Training) -> None:
    """The inputs' scale drifts by a tenth at each step."""
    t.change_batch(lambda step, x, y: (x * 1.1**step, y))


@fault("mlp cnn", WHOLE, "{first}", kinds=_INPUT + "|nan|finite")
def nan_in_one_sample(t: Training) -> None:
    """One feature of one sample is NaN at step 35."""

    def spoil(step: int, x: Tensor, y: Tensor) -> Batch:
        x = x.clone()
        if step == 35:
            x.view(len(x), -1)[3, 5] = torch.nan
        return x, y

    t.change_batch(spoil)


@fault("mlp cnn lstm", WHOLE, kinds=_STALL)
def labels_shuffled(t: Training) -> None:
    """Labels that have nothing to do with their samples."""

    def shuffle(step: int, x: Tensor, y: Tensor) -> Batch:
        return x, y[torch.randperm(len(y), generator=torch.Generator().manual_seed(step))]

    t.change_batch(shuffle)


@fault("gpt", WHOLE, kinds=_STALL)
def targets_at_random(t: Training) -> None:
    """Targets that are no text."""
    t.change_batch(lambda step, x, y: (x, torch.randint_like(y, 128)))


@fault("mlp cnn", WHOLE, "{first}", kinds=_SPIKE)
def corrupt_batch(t: Training) -> None:
    """One batch of a thousand times the scale, at step 60."""
    t.change_batch(lambda step, x, y: (1e3 * x if step == 60 else x, y))


@fault("gpt", WHOLE, kinds=_SPIKE)
def batch_of_noise(t: Training) -> None:
    """One batch of random targets, at step 60."""
    t.change_batch(lambda step, x, y: (x, torch.randint_like(y, 128) if step == 60 else y))


@fault("mlp cnn gpt lstm", WHOLE, "{last}", kinds=_STALL)
def softmax_twice(t: Training) -> None:
    """A softmax before a loss that takes logits."""
    backward = t.backward

    def with_softmax(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        return backward(_Softmax(model), x, y)

    t.backward = with_softmax


class _Softmax(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        """Probabilities, which the loss takes for logits."""
        return self.model(x).softmax(-1)


@fault("mlp cnn gpt", WHOLE, "{last}", kinds="(?i)loss|diverg|spike|grad|explo")
def loss_that_grows(t: Training) -> None:
    """The loss is multiplied by a factor that grows by a seventh at each step."""
    now, backward = [0], t.backward
    t.before_step.append(lambda step: now.__setitem__(0, step))

    def scaled(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        loss = backward(model, x, y)
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter.grad *= 1.15 ** now[0]
        return loss * 1.15 ** now[0]

    t.backward = scaled


@fault("mlp cnn", WHOLE, kinds="(?i)spike|jump|loss|batch|outlier|drift")
def one_class_at_a_time(t: Training) -> None:
    """The loader is not shuffled: twenty steps of one class, then of the next."""
    t.change_batch(lambda step, x, y: (x, torch.full_like(y, step // 20)))


@fault("cnn", WHOLE, kinds="(?i)spike|jump|loss|label|plateau")
def labels_shift(t: Training) -> None:
    """From step 60, each class is called by the name of the next."""
    classes = t.module("last").out_features
    t.change_batch(lambda step, x, y: (x, (y + 1) % classes if step >= 60 else y))
