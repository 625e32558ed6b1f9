"""The numbers of a tool against a reference in float64.

A plain model with the same weights takes the same step; hooks keep what passed, and every quantity
is computed of that in float64, in the plainest way.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from benchmarks.overhead.hooks import INPUT, OUTPUT_GRAD, WEIGHT, WEIGHT_GRAD, rows
from benchmarks.overhead.models import Batch, Case, loss_of, probed
from benchmarks.overhead.training import Training, twin
from benchmarks.overhead.work import NORMS, Series, Values, Work


class Agreement(NamedTuple):
    """How the numbers of a step agree with the reference.

    Attributes:
        worst: The largest relative difference where both are finite.
        compared: How many these are.
        missing: How many were not recorded at all.
        infinite: How many are recorded as infinite: beyond float32, as the reference has to say.
        falsely_infinite: How many of these are not.
    """

    worst: float
    compared: int
    missing: int
    infinite: int
    falsely_infinite: int


def checked(training: Training, case: Case, work: Work) -> Agreement:
    """Runs the next step, which has to be due, and compares what is recorded."""
    assert training.watched.values is not None
    model, step = twin(training, case), training.step
    training.run_step()
    training.watched.wait()
    return agreement(training.watched.values(step), reference(model, training.batch, work))


def agreement(found: Values, expected: Values) -> Agreement:
    """How numbers agree."""
    both = {series: (found[series], x) for series, x in expected.items() if series in found}
    finite = [(a, b) for a, b in both.values() if math.isfinite(a) and math.isfinite(b)]
    infinite = [b for a, b in both.values() if math.isinf(a)]
    return Agreement(
        worst=max((abs(a - b) / abs(b) for a, b in finite if b), default=0.0),
        compared=len(finite),
        missing=len(expected) - len(both),
        infinite=len(infinite),
        falsely_infinite=sum(b < _FLOAT32 for b in infinite),
    )


_FLOAT32 = 1e4
"""A condition number that float32 can hold in any case."""


def reference(model: nn.Module, batch: Batch, work: Work) -> Values:
    """What a step of a plain model has to show, in float64."""
    layers, inputs, gradients = probed(model), {}, {}
    for name, layer in layers.items():
        layer.register_forward_pre_hook(_keep_input(name, inputs))
        layer.register_forward_hook(_keep_gradient(name, gradients))
    loss_of(model(batch[0]), batch[1]).backward()
    found: dict[Series, float] = {}
    for name, layer in layers.items():
        if work.quantities == NORMS:
            found[name, INPUT] = _norm(inputs[name])
            found[name, OUTPUT_GRAD] = _norm(gradients[name])
            found[name, WEIGHT] = _norm(layer.weight)
            found[name, WEIGHT_GRAD] = _norm(layer.weight.grad)
        else:
            found[name, "InputCovCondition"] = _condition(inputs[name])
    return found


def _keep_input(name: str, kept: dict[str, Tensor]) -> Callable[..., None]:
    def hook(module: nn.Module, args: Any) -> None:
        kept[name] = args[0].detach().clone()

    return hook


def _keep_gradient(name: str, kept: dict[str, Tensor]) -> Callable[..., None]:
    def of_gradient(gradient: Tensor) -> None:
        kept[name] = gradient.clone()

    def hook(module: nn.Module, args: Any, output: Tensor) -> None:
        output.register_hook(of_gradient)

    return hook


def _norm(x: Tensor) -> float:
    return x.detach().double().square().sum().sqrt().item()


def _condition(x: Tensor) -> float:
    centred = rows(x.double())
    centred = centred - centred.mean(0)
    singular = torch.linalg.svdvals(centred)
    if len(singular) < centred.shape[1] or singular[-1] <= 0:
        return math.inf
    return float((singular[0] / singular[-1]) ** 2)
