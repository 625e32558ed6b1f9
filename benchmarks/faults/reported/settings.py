"""Faults of settings and of data: what a layer, an optimizer or a loader is told."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.faults import data
from benchmarks.faults.changes import set_all
from benchmarks.faults.fault import fault, healthy
from benchmarks.faults.training import Training


def _logged_before_backward(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """A loss whose graph still has all that backward needs."""
    loss = F.cross_entropy(model(x).flatten(0, -2), y.flatten())
    loss.backward(retain_graph=True)
    return loss


@fault("gpt gpt-tied moe", kinds="copied_targets")
def labels_that_are_not_shifted(t: Training) -> None:
    """A language model whose targets are its inputs."""
    t.backward = _logged_before_backward
    t.change_batch(lambda step, x, y: (x, x))


@fault("lstm", kinds="copied_targets", notes=True)
def labels_that_are_not_shifted_of_an_lstm(t: Training) -> None:
    """The same, by a recurrent layer: where there is no attention, it may be on purpose."""

    class Tagger(nn.Module):
        def __init__(self, old: nn.Module) -> None:
            super().__init__()
            self.words: nn.Module = old.get_submodule("words")
            self.lstm: nn.Module = old.get_submodule("lstm")
            self.head = nn.Linear(32, 16)

        def forward(self, ids: Tensor) -> Tensor:
            return self.head(self.lstm(self.words(ids))[0])

    t.model = Tagger(t.model)
    t.optimizer = torch.optim.Adam(t.model.parameters(), lr=1e-2)
    t.backward = _logged_before_backward
    t.change_batch(lambda step, x, y: (x, x))


@healthy("gpt")
def a_loss_with_its_graph(t: Training) -> None:
    """Labels that are shifted, and a loss that is logged with its graph."""
    t.backward = _logged_before_backward


@healthy("gpt")
def masked_words(t: Training) -> None:
    """Words that are hidden and to be guessed; of the others nothing is asked."""

    def mask(step: int, x: Tensor, y: Tensor) -> data.Batch:
        chosen = torch.rand(x.shape, generator=torch.Generator().manual_seed(step)) < 0.15
        return torch.where(chosen, 127, x), torch.where(chosen, x, -100)

    t.backward = _logged_before_backward
    t.change_batch(mask)


def _sorted(t: Training, batches: int) -> None:
    """Digits by class, so many batches of each."""
    x, y = data.images(0, size=2000)
    order = torch.argsort(y, stable=True)
    x, y = x[order], y[order]

    def batch(step: int) -> data.Batch:
        i = (torch.arange(32) + 32 * step * 6 // batches) % len(x)
        return x[i], y[i]

    t.batch = batch


@fault("cnn resnet mobile", kinds="sorted_batches")
def images_sorted_by_class(t: Training) -> None:
    """A loader that does not shuffle, of a folder for each class."""
    t.steps = 160
    _sorted(t, 6)


@fault("cnn", kinds="sorted_batches")
def images_sorted_by_class_of_many(t: Training) -> None:
    """The same, of twice as many samples."""
    t.steps = 200
    _sorted(t, 12)


@fault("cnn", "layers.*.norm", kinds="moving_statistics", notes=True)
def statistics_of_a_frozen_backbone(t: Training) -> None:
    """A new head on a trained model, whose norms go on averaging other images."""
    for step in range(60):
        t.backward(t.model, *t.batch(10_000 + step))
        t.optimizer.step()
        t.optimizer.zero_grad()
    t.model.requires_grad_(False)
    head = t.module("last")
    head.reset_parameters()
    head.requires_grad_(True)
    t.optimizer = torch.optim.SGD(head.parameters(), lr=0.05, momentum=0.9)
    t.change_batch(lambda step, x, y: (2 * x + 1, y))


@fault("mlp cnn gpt lstm", kinds="large_decay|drift")
def decay_of_ten(t: Training) -> None:
    """AdamW with a decay that was meant to be 0.01."""
    t.optimizer = torch.optim.AdamW(t.model.parameters(), lr=1e-3, weight_decay=10.0)


@fault("mlp cnn", kinds="large_decay|drift")
def decay_of_sgd(t: Training) -> None:
    """SGD with a decay of a tenth."""
    set_all(t, weight_decay=0.1)


@healthy("mlp gpt")
def decay_of_one(t: Training) -> None:
    """A decay that is large, and not too large."""
    t.optimizer = torch.optim.AdamW(t.model.parameters(), lr=1e-3, weight_decay=1.0)


@fault("mlp cnn gpt", "*drop*", kinds="heavy_dropout")
def dropout_of_what_is_kept(t: Training) -> None:
    """Dropouts that are told the share that they keep."""
    for module in t.model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.95


@fault("gpt cnn", "*norm*", kinds="large_epsilon")
def epsilon_of_a_hundred(t: Training) -> None:
    """Norms whose epsilon is far larger than any variance."""
    for module in t.model.modules():
        if isinstance(module, nn.LayerNorm | nn.BatchNorm2d):
            module.eps = 100.0


@fault("cnn resnet", "*", kinds="large_momentum")
def momentum_of_another_library(t: Training) -> None:
    """BatchNorms whose momentum is the share that is kept."""
    for module in t.model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = 0.99


@fault("cnn", kinds="plateau")
def labels_smoothed_to_nothing(t: Training) -> None:
    """Label smoothing of 1, by which all classes are as right."""

    def backward(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        loss = F.cross_entropy(model(x), y, label_smoothing=1.0)
        loss.backward()
        return loss

    t.backward, t.steps = backward, 150


@fault("mlp", kinds="wild_loss")
def targets_that_are_not_scaled(t: Training) -> None:
    """Prices of a hundred thousand, of which the loss is the square."""

    def backward(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        loss = F.mse_loss(model(x)[:, 0], 1e5 + 1e4 * y.float())
        loss.backward()
        return loss

    t.backward = backward
    t.optimizer = torch.optim.AdamW(t.model.parameters(), lr=1e-3)


@fault("cnn", kinds="no_update")
def token_left_out_of_the_optimizer(t: Training) -> None:
    """A parameter of the model itself, of which the optimizer has all modules' alone."""

    class Shifted(nn.Module):
        def __init__(self, network: nn.Module) -> None:
            super().__init__()
            self.shift, self.network = nn.Parameter(torch.zeros(1, 1, 8, 8) + 0.1), network

        def forward(self, x: Tensor) -> Tensor:
            return self.network(x + self.shift)

    t.model = Shifted(t.model)
    t.optimizer = torch.optim.AdamW(t.model.network.parameters(), lr=1e-3)
