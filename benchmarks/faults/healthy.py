"""Trainings of many kinds in which nothing is wrong; importing this registers all."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.faults import data
from benchmarks.faults.fault import healthy
from benchmarks.faults.models import GPT
from benchmarks.faults.training import Training, balanced, cross_entropy


@healthy("mlp mlp-tanh cnn gpt gpt-tied moe lstm gan resnet mobile levit")
def as_it_is(t: Training) -> None:
    """The task's own training."""


@healthy("mlp")
def another_seed(t: Training) -> None:
    """Other batches."""
    t.batch = lambda step: data.rows(step + 5000)


@healthy("mlp cnn")
def plain_sgd(t: Training) -> None:
    """SGD without momentum."""
    t.optimizer = torch.optim.SGD(t.model.parameters(), lr=0.1)


@healthy("mlp cnn")
def adam(t: Training) -> None:
    """Adam with its own learning rate."""
    t.optimizer = torch.optim.Adam(t.model.parameters(), lr=1e-3)


@healthy("mlp cnn")
def rmsprop(t: Training) -> None:
    """RMSprop, whose first steps are long."""
    t.optimizer = torch.optim.RMSprop(t.model.parameters(), lr=1e-3)


@healthy("mlp lstm")
def adagrad(t: Training) -> None:
    """Adagrad, whose steps shrink."""
    t.optimizer = torch.optim.Adagrad(t.model.parameters(), lr=0.02)


@healthy("resnet mobile levit")
def a_few_short_steps(t: Training) -> None:
    """Thirty steps of a tenth of the rate on noise: branches hardly leave what they began as."""
    t.optimizer.param_groups[0]["lr"] = 1e-4
    t.change_batch(lambda step, x, y: (torch.randn(8, *x.shape[1:]), torch.randint(10, (8,))))
    t.steps = 30


@healthy("resnet levit")
def sgd_of_vision(t: Training) -> None:
    """SGD with momentum and decay, as such networks are usually trained."""
    t.optimizer = torch.optim.SGD(
        t.model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4, nesterov=True
    )


@healthy("mlp gpt")
def weight_decay(t: Training) -> None:
    """Decay of a usual size."""
    is_sgd = isinstance(t.optimizer, torch.optim.SGD)
    t.optimizer.param_groups[0]["weight_decay"] = 1e-3 if is_sgd else 0.1


@healthy("mlp cnn")
def two_samples(t: Training) -> None:
    """Batches of two."""
    batch = t.batch

    def two(step: int) -> data.Batch:
        x, y = batch(step)
        return x[:2], y[:2]

    t.batch, t.steps = two, 200
    t.optimizer.param_groups[0]["lr"] /= 10


@healthy("mlp gpt")
def accumulation(t: Training) -> None:
    """Four batches for each step."""
    t.micro_batches, t.steps = 4, 60


@healthy("gpt lstm")
def clipping(t: Training) -> None:
    """Gradients cut to a norm that they often exceed."""
    t.clip = 0.5


@healthy("gpt cnn")
def warm_up_and_cosine(t: Training) -> None:
    """A learning rate that rises for twenty steps and falls to nothing."""
    t.schedule = _warm_up_and_cosine


@healthy("gpt cnn")
def bfloat16(t: Training) -> None:
    """Forwards under autocast."""
    t.autocast = True


@healthy("mlp")
def dropout_of_a_half(t: Training) -> None:
    """Dropout behind the last two layers."""
    drops = [module for module in t.model.modules() if isinstance(module, nn.Dropout)]
    for drop in drops[-2:]:
        drop.p = 0.5
    t.optimizer.param_groups[0]["lr"] = 0.01


@healthy("gpt")
def dropout_of_a_tenth(t: Training) -> None:
    """Dropout in all blocks."""
    for module in t.model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.1


@healthy("mlp")
def gelu(t: Training) -> None:
    """GELUs in place of ReLUs."""
    for layer in t.model.get_submodule("layers").children():
        layer.add_module("act", nn.GELU())


@healthy("mlp cnn")
def label_smoothing(t: Training) -> None:
    """Targets that are never sure."""
    t.backward = partial(cross_entropy, label_smoothing=0.1)


@healthy("mlp gpt")
def long_run(t: Training) -> None:
    """Four hundred steps, two hundred of the GPT."""
    t.steps = 400 if isinstance(t.optimizer, torch.optim.SGD) else 200
    t.schedule = lambda step: 0.5 * (1 + math.cos(math.pi * step / t.steps))


@healthy("mlp cnn")
def samples_repeated(t: Training) -> None:
    """Eight batches, seen again and again, until the loss is near zero."""
    batch = t.batch
    t.batch, t.steps = lambda step: batch(step % 8), 200


@healthy("gpt cnn")
def branches_of_zeros(t: Training) -> None:
    """Residual branches that begin at nothing; the head of the CNN does."""
    zeros = ("attn.proj.weight", "mlp.down.weight") if "attention" in t.names else ("head.weight",)
    for name, parameter in t.model.named_parameters():
        if name.endswith(zeros):
            nn.init.zeros_(parameter)


@healthy("gpt")
def lora(t: Training) -> None:
    """Two small matrices beside each layer for queries, keys and values; all else is frozen."""
    _train_before(t)
    t.model.requires_grad_(False)
    for block in t.model.get_submodule("layers").children():
        attention = block.get_submodule("attn")
        attention.add_module("qkv", LoRA(attention.get_submodule("qkv")))
    t.optimizer = torch.optim.AdamW(_trained(t.model), lr=3e-3)


@healthy("mlp cnn")
def frozen_backbone(t: Training) -> None:
    """A new head on a trained model that stays as it is."""
    _train_before(t)
    t.model.requires_grad_(False)
    head: Any = t.module("last")
    head.reset_parameters()
    head.requires_grad_(True)
    t.optimizer = torch.optim.SGD(_trained(t.model), lr=0.05, momentum=0.9)


@healthy("mlp cnn gpt")
def fine_tuning(t: Training) -> None:
    """All of a trained model, at a tenth of the learning rate."""
    _train_before(t)
    t.optimizer.param_groups[0]["lr"] /= 10


@healthy("gpt")
def the_token_before(t: Training) -> None:
    """A task that attention solves by looking at a single key, on purpose."""

    def shifted(step: int, ids: Tensor, targets: Tensor) -> data.Batch:
        return ids, ids.roll(1, dims=1)

    t.change_batch(shifted)
    t.steps = 200


@healthy("moe")
def experts_that_specialise(t: Training) -> None:
    """A balance of half the weight, for longer."""
    t.backward, t.steps = partial(balanced, weight=0.005), 200


@healthy("gpt")
def rare_tokens(t: Training) -> None:
    """A vocabulary of which most is never seen."""
    t.model = GPT(words=512)
    t.optimizer = torch.optim.AdamW(t.model.parameters(), lr=3e-3)


@healthy("mlp cnn")
def unused_auxiliary_head(t: Training) -> None:
    """A head that no forward calls."""
    t.model.add_module("auxiliary", nn.Linear(32, 5))


@healthy("cnn")
def rare_classes(t: Training) -> None:
    """Nine of ten samples are of two classes."""

    def thin_out(step: int, x: Tensor, y: Tensor) -> data.Batch:
        kept = (y < 2) | (torch.arange(len(y)) % 8 == 0)
        return x[kept], y[kept]

    t.change_batch(thin_out)


@healthy("mlp")
def noisy_labels(t: Training) -> None:
    """A fifth of the labels is wrong."""

    def spoil(step: int, x: Tensor, y: Tensor) -> data.Batch:
        return x, torch.where(torch.arange(len(y)) % 5 == 0, step % 5, y)

    t.change_batch(spoil)


@healthy("mlp gpt")
def two_groups(t: Training) -> None:
    """Biases and norms without decay, the rest with some."""
    every = [*t.model.parameters()]
    groups = [
        {"params": [p for p in every if p.dim() > 1], "weight_decay": 0.01},
        {"params": [p for p in every if p.dim() < 2], "weight_decay": 0.0},
    ]
    t.optimizer = torch.optim.AdamW(groups, lr=1e-3)


@healthy("gan")
def rmsprop_of_a_gan(t: Training) -> None:
    """RMSprop for both networks."""
    t.optimizer = torch.optim.RMSprop(t.model.parameters(), lr=5e-4)


@healthy("mlp cnn gpt")
def scaled_float16(t: Training) -> None:
    """Forwards in float16, with a scaler whose first scales are too large."""
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**26)
    t.autocast, t.scaler = True, scaler

    def scaled(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        loss = F.cross_entropy(model(x).flatten(0, -2).float(), y.flatten())
        scaler.scale(loss).backward()
        return loss

    t.backward = scaled


@healthy("mlp gpt")
def one_sample(t: Training) -> None:
    """Batches of one."""
    batch = t.batch

    def one(step: int) -> data.Batch:
        x, y = batch(step)
        return x[:1], y[:1]

    t.batch, t.steps = one, 150
    t.optimizer.param_groups[0]["lr"] /= 10


@healthy("mlp cnn")
def nesterov(t: Training) -> None:
    """SGD that looks ahead."""
    t.optimizer = torch.optim.SGD(t.model.parameters(), lr=0.02, momentum=0.9, nesterov=True)


@healthy("mlp gpt")
def nadam(t: Training) -> None:
    """Adam that looks ahead."""
    t.optimizer = torch.optim.NAdam(t.model.parameters(), lr=1e-3)


@healthy("cnn lstm")
def adamax(t: Training) -> None:
    """Adam by largest gradients."""
    t.optimizer = torch.optim.Adamax(t.model.parameters(), lr=5e-3)


@healthy("mlp")
def very_long_run(t: Training) -> None:
    """A thousand steps, with a learning rate that falls to nothing."""
    t.steps = 1000
    t.schedule = lambda step: 0.5 * (1 + math.cos(math.pi * step / t.steps))


@healthy("cnn")
def frozen_norms(t: Training) -> None:
    """Gains and offsets of norms that stay as they are."""
    for module in t.model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.requires_grad_(False)
    t.optimizer.param_groups[0]["params"] = [*_trained(t.model)]


@healthy("gpt")
def frozen_positions(t: Training) -> None:
    """Embeddings of positions that are not learned."""
    t.model.get_submodule("places").requires_grad_(False)
    t.optimizer = torch.optim.AdamW(_trained(t.model), lr=3e-3)


@healthy("cnn")
def bias_of_a_rare_class(t: Training) -> None:
    """A head that begins by saying that all is rare, as that of a detector does."""
    nn.init.constant_(t.module("last").bias, -4.6)


@healthy("cnn")
def pixels_as_they_are(t: Training) -> None:
    """Inputs from 0 to 16."""
    t.change_batch(lambda step, x, y: (6 * x + 4.9, y))


@healthy("gpt")
def one_block_four_times(t: Training) -> None:
    """A block whose weights all layers share."""
    layers: Any = t.model.get_submodule("layers")
    for i in range(1, len(layers)):
        layers[i] = layers[0]
    t.optimizer = torch.optim.AdamW(t.model.parameters(), lr=1e-3)


@healthy("mlp")
def squared_error(t: Training) -> None:
    """A regression on the classes as vectors."""

    def squared(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        loss = F.mse_loss(model(x), F.one_hot(y, 5).float())
        loss.backward()
        return loss

    t.backward = squared


class LoRA(nn.Module):
    """A layer and a change of rank four that is added to it.

    Args:
        base: The layer.
    """

    def __init__(self, base: nn.Module) -> None:
        super().__init__()
        outputs, inputs = base.get_parameter("weight").shape
        self.base = base
        self.down = nn.Linear(inputs, 4, bias=False)
        self.up = nn.Linear(4, outputs, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x: Tensor) -> Tensor:
        """The layer's output, changed."""
        return self.base(x) + self.up(self.down(x))


def _train_before(t: Training) -> None:
    """Trains for a hundred steps without being watched."""
    for step in range(100):
        t.backward(t.model, *t.batch(10_000 + step))
        t.optimizer.step()
        t.optimizer.zero_grad()
    t.optimizer.state.clear()


def _trained(model: nn.Module) -> Iterator[nn.Parameter]:
    return (parameter for parameter in model.parameters() if parameter.requires_grad)


def _warm_up_and_cosine(step: int) -> float:
    return min((step + 1) / 20, 0.5 * (1 + math.cos(math.pi * min(step / 100, 1.0))) + 1e-3)
