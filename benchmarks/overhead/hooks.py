"""Hooks as someone writes them who knows what costs time: what taiyi_fx has to stand beside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.linalg import vector_norm

from benchmarks.overhead.models import probed
from benchmarks.overhead.work import NORMS, Series, Values, Work

INPUT, OUTPUT_GRAD, WEIGHT, WEIGHT_GRAD = NORMS


class Collector:
    """Scalars of one step, which stay on their device until its end.

    Args:
        work: When they are due.

    Attributes:
        is_due: Whether the running step is to be read.
        records: All numbers, by step.
    """

    def __init__(self, work: Work) -> None:
        self.is_due = work.is_due(0)
        self.records: dict[int, Values] = {}
        self._work = work
        self._series: list[Series] = []
        self._scalars: list[Tensor] = []

    def add(self, module: str, quantity: str, value: Tensor) -> None:
        """Keeps a scalar."""
        self._series.append((module, quantity))
        self._scalars.append(value)

    def end_step(self, step: int) -> None:
        """Records what the step left, by one copy to the host."""
        if self.is_due:
            numbers = torch.stack(self._scalars).tolist()
            self.records[step] = dict(zip(self._series, numbers, strict=True))
            self._series.clear()
            self._scalars.clear()
        self.is_due = self._work.is_due(step + 1)


def norm_hooks(model: nn.Module, found: Collector, *, full: bool) -> Callable[[int], None]:
    """Hooks for the four norms; returns what is to be called after backward.

    Args:
        model: Gets the hooks.
        found: Where the norms go.
        full: Whether gradients are read by full backward hooks, as most tools do, instead of a
            hook on the tensor.
    """
    layers = probed(model)
    weights = [layer.weight for layer in layers.values()]
    for name, layer in layers.items():
        layer.register_forward_pre_hook(_of_input(name, found, vector_norm, INPUT))
        if full:
            layer.register_full_backward_hook(_of_module_grad(name, found))
        else:
            layer.register_forward_hook(_of_output_grad(name, found))

    def end_of_backward(step: int) -> None:
        if found.is_due:
            _of_weights(list(layers), weights, found)
        found.end_step(step)

    return end_of_backward


def condition_hooks(model: nn.Module, found: Collector) -> Callable[[int], None]:
    """Hooks for condition numbers of inputs; returns what is to be called after backward."""
    for name, layer in probed(model).items():
        hook = _of_input(name, found, condition, "InputCovCondition")
        layer.register_forward_pre_hook(hook)
    return found.end_step


def condition(x: Tensor) -> Tensor:
    """The condition number of the covariance of the features of ``x``."""
    eigenvalues = torch.linalg.eigvalsh(torch.cov(rows(x).T))
    return eigenvalues[-1] / eigenvalues[0]


def rows(x: Tensor) -> Tensor:
    """All rows by features: channels of images, otherwise the last axis."""
    return (x.movedim(1, -1) if x.ndim == 4 else x).flatten(0, -2)


def _of_input(
    name: str, found: Collector, measure: Callable[[Tensor], Tensor], quantity: str
) -> Callable[..., None]:
    def hook(module: nn.Module, args: Any) -> None:
        if found.is_due:
            found.add(name, quantity, measure(args[0].detach()))

    return hook


def _of_output_grad(name: str, found: Collector) -> Callable[..., None]:
    def of_gradient(gradient: Tensor) -> None:
        found.add(name, OUTPUT_GRAD, vector_norm(gradient))

    def hook(module: nn.Module, args: Any, output: Tensor) -> None:
        if found.is_due:
            output.register_hook(of_gradient)

    return hook


def _of_module_grad(name: str, found: Collector) -> Callable[..., None]:
    def hook(module: nn.Module, of_input: Any, of_output: Any) -> None:
        if found.is_due:
            found.add(name, OUTPUT_GRAD, vector_norm(of_output[0]))

    return hook


@torch.no_grad()
def _of_weights(names: list[str], weights: list[Tensor], found: Collector) -> None:
    # One call for all: a loop in Python would take longer than the norms of small weights.
    norms = torch._foreach_norm(weights)
    of_gradients = torch._foreach_norm([weight.grad for weight in weights])
    for name, norm, of_gradient in zip(names, norms, of_gradients, strict=True):
        found.add(name, WEIGHT, norm)
        found.add(name, WEIGHT_GRAD, of_gradient)
