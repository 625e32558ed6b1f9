"""Gradients that are changed on their way, or lost."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.faults.changes import change_class
from benchmarks.faults.fault import fault
from benchmarks.faults.training import Training


@fault("mlp cnn lstm", "{late}")
def gradient_replaced_by_its_sign(t: Training) -> None:
    """A layer of which only the signs of the gradient are left, as of one that was compressed."""
    for name, parameter in t.module("late").named_parameters():
        if name.startswith("weight"):
            parameter.register_hook(torch.sign)


@fault("mlp gpt gan", "{square}")
def gradient_that_is_transposed(t: Training) -> None:
    """A backward of one's own that forgets to transpose, where the shapes do not tell."""
    part = "early" if t.names["first"] == "words" else "late"
    t.names = {**t.names, "square": t.names[part]}
    t.module("square").weight.register_hook(lambda gradient: gradient.mT.contiguous())


@fault("mlp cnn", "{early}")
def gradient_of_the_step_before(t: Training) -> None:
    """A layer whose gradients arrive one step late."""
    kept: list[Tensor] = []

    def delay(gradient: Tensor) -> Tensor:
        kept.append(gradient.clone())
        return kept.pop(0) if len(kept) > 1 else torch.zeros_like(gradient)

    t.module("early").weight.register_hook(delay)


@fault("resnet mobile levit", "stem.*", kinds="detached|missing_gradient")
def stem_without_gradients(t: Training) -> None:
    """A first part that runs without autograd, as a checkpoint of plain inputs does."""

    def forward(self, old, x: Tensor) -> Tensor:
        with torch.no_grad():
            return old(x)

    change_class(t.model.get_submodule("stem"), forward)


@fault("gpt", "{late}")
def weight_that_is_used_detached(t: Training) -> None:
    """A layer of which only the bias gets a gradient."""
    change_class(
        t.module("late"), lambda self, old, x: F.linear(x, self.weight.detach(), self.bias)
    )
