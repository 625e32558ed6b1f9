"""A plain model with hooks beside an instrumented one: both go the same way of training.

What the hooks see is kept in float64, and the quantities are computed of it in another way.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

import taiyi_fx
from taiyi_fx import MonitorWarning
from taiyi_fx.testing import assert_agrees

FAILED = 1000
"""Steps from here on are of failed ones; their values are not compared."""
PER_SAMPLE = ["PerSampleGradNorm", "every(1)", {"reduce": "mean"}]
QUANTITIES = [
    "InputSndNorm", "InputMean", "InputStd", "InputCovMaxEig",
    "OutputGradSndNorm", "OutputGradRMS", "OutputGradCovMaxEig",
    "WeightNorm", "WeightGradNorm", PER_SAMPLE,
]  # fmt: skip


class Side:
    """A model on one of the two ways, and what takes note of it."""

    def __init__(self, model: nn.Module) -> None:
        self.model: Any = model

    def track(self, step: int, scale: float = 1.0, unscaled: bool = False, given: Any = None):
        """``given`` is what a user hands over; ``scale`` what it has to amount to."""

    def forget(self) -> None:
        """Gives up what came since the last step."""


class Probed(Side):
    def track(self, step, scale=1.0, unscaled=False, given=None):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MonitorWarning)
            self.model.monitor.track(step, grad_scale=given)

    def forget(self):
        self.model.monitor.pause()
        self.model.monitor.resume()

    def records(self):
        return {(r.step, r.module, r.quantity): r.value for r in self.model.monitor.records}


class Hooked(Side):
    """Computes the same quantities, in float64, of what hooks see of a plain model."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model)
        self.calls: dict[str, list[tuple[Tensor, list[Tensor]]]] = defaultdict(list)
        self.found: dict[tuple[int, str, str], float] = {}
        self.linear = {n: m for n, m in model.named_modules() if isinstance(m, nn.Linear)}
        for name, module in self.linear.items():
            module.register_forward_hook(self.hook(name))

    def hook(self, name: str) -> Callable[..., None]:
        def hook(module: nn.Module, args: tuple[Tensor], y: Tensor) -> None:
            is_again = torch._C._current_graph_task_id() != -1
            if not module.training or not torch.is_grad_enabled() or is_again:
                return
            gradients: list[Tensor] = []
            self.calls[name].append((args[0].detach().double(), gradients))
            if y.requires_grad:
                y.register_hook(lambda g: gradients.append(g.detach().double()))

        return hook

    def track(self, step, scale=1.0, unscaled=False, given=None):
        for name, layer in self.linear.items():
            values = dict(of_parameters(layer, 1.0 if unscaled else scale))
            values.update(of_calls(self.calls[name], layer, scale))
            self.found.update({(step, name, quantity): v for quantity, v in values.items()})
        self.forget()

    def forget(self):
        self.calls.clear()

    def records(self):
        return self.found


def of_calls(calls: Any, layer: nn.Linear, scale: float) -> Iterator[tuple[str, float]]:
    # Several backwards through one forward add up.
    calls = [(x, sum(gradients)) if gradients else (x, None) for x, gradients in calls]
    every = [g / scale for _, g in calls if g is not None]
    if calls:
        x = torch.cat([x for x, _ in calls])
        yield "InputSndNorm", math.sqrt(x.square().sum())
        yield "InputMean", x.sum().item() / x.numel()
        yield "InputStd", x.flatten().std().item()
        yield "InputCovMaxEig", largest_eigenvalue(x)
    if every:
        g = torch.cat(every)
        yield "OutputGradSndNorm", math.sqrt(g.square().sum())
        yield "OutputGradRMS", math.sqrt(g.square().mean())
        yield "OutputGradCovMaxEig", largest_eigenvalue(g)
    if every and layer.weight.requires_grad:
        norms = [x.norm(dim=1) * g.norm(dim=1) / scale for x, g in calls if g is not None]
        yield "PerSampleGradNorm", torch.cat(norms).sum().item()


def of_parameters(layer: nn.Linear, scale: float) -> Iterator[tuple[str, float]]:
    yield "WeightNorm", layer.weight.detach().double().norm().item()
    if layer.weight.grad is not None:
        yield "WeightGradNorm", layer.weight.grad.double().norm().item() / scale


def largest_eigenvalue(x: Tensor) -> float:
    if not x.isfinite().all():
        return math.nan
    return torch.linalg.svdvals(x - x.mean(0))[0].item() ** 2 / max(len(x) - 1, 1)


def same_both_ways(way: Callable[[Side], None], kind: type[nn.Module], steps: int) -> Probed:
    """Goes a way with both models and compares everything; returns the instrumented side."""
    model = kind()
    hooked = Hooked(copy.deepcopy(model))
    probed = Probed(taiyi_fx.instrument(model, {nn.Linear: QUANTITIES}))
    for side in (hooked, probed):
        torch.manual_seed(1)
        way(side)
    for (name, a), b in zip(
        hooked.model.named_parameters(), probed.model.parameters(), strict=True
    ):
        assert a.dtype == b.dtype
        for x, y in ((a, b), (a.grad, b.grad)):
            assert (x is None) == (y is None), name
            assert x is None or torch.equal(x, y) or x.isnan().any(), name
    expected, found = (
        {k: v for k, v in s.records().items() if k[0] < FAILED} for s in (hooked, probed)
    )
    assert {step for step, _, _ in expected} == set(range(steps))
    assert set(found) == set(expected)
    floor = {key: 1e-5 * scale_of(key, expected) for key in expected}
    for key, value in found.items():
        try:
            assert_agrees(value, expected[key], rel=2e-5, floor=floor[key])
        except AssertionError as error:
            raise AssertionError(f"{key}: {error}") from None
    return probed


def scale_of(key: tuple[int, str, str], values: dict[tuple[int, str, str], float]) -> float:
    """How large the numbers are that cancel in a mean, or in a covariance."""
    step, name, quantity = key
    around = {
        "InputMean": values.get((step, name, "InputStd"), 0.0),
        "OutputGradCovMaxEig": values.get((step, name, "OutputGradRMS"), 0.0) ** 2,
    }.get(quantity, 0.0)
    return around if math.isfinite(around) else 0.0
