"""The phases that every model of the zoo goes through: two training steps, an evaluation."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.zoo_models.case import Batch, Case
from taiyi_fx.snapshot.bitwise import kept, leaves, strides

TRAIN_SIZES = (2, 3)
EVAL_SIZE = 2


@dataclass
class Phase:
    """What a phase left.

    Attributes:
        state: Outputs, gradients and buffers by path, after the last phase parameters too.
        seconds: What the forward took.
        has_gradient: Whether a gradient other than zero reached a parameter.
    """

    state: dict[str, Any]
    seconds: float
    has_gradient: bool = False


def seed(number: int) -> None:
    """Seeds every generator that a model may draw from."""
    random.seed(number)
    np.random.seed(number)
    torch.manual_seed(number)


def run_phases(
    model: nn.Module, case: Case, after_step: Callable[[int], None] = lambda step: None
) -> list[Phase]:
    """Two training steps with batches of different sizes, then an evaluation.

    Args:
        model: The model.
        case: Where the batches come from.
        after_step: Called after the backward of each training step.
    """
    phases = []
    for step in range(len(TRAIN_SIZES)):
        phases.append(train_step(model, case, step))
        after_step(step)
    return [*phases, _evaluate(model, case)]


def train_step(model: nn.Module, case: Case, step: int) -> Phase:
    """One forward and backward in training."""
    model.train()
    model.zero_grad()
    output, seconds = _timed(model, _batch(case, TRAIN_SIZES[step], step), step)
    made = kept(leaves(output))
    loss = _loss(output)
    if loss.requires_grad:
        loss.backward()
    # The next step lets go of these tensors: they need no copy.
    gradients = {f"gradient of {name}": p.grad for name, p in model.named_parameters()}
    has_gradient = any(g is not None and bool(g.any()) for g in gradients.values())
    state = {**made, **gradients, **strides(gradients), **_buffers(model)}
    return Phase(state, seconds, has_gradient)


def _evaluate(model: nn.Module, case: Case) -> Phase:
    model.eval()
    with torch.no_grad():
        output, seconds = _timed(model, _batch(case, EVAL_SIZE, step=len(TRAIN_SIZES)), step=0)
    parameters = {f"parameter {name}": p for name, p in model.named_parameters()}
    return Phase({**kept(leaves(output)), **_buffers(model), **parameters}, seconds)


def _batch(case: Case, size: int, step: int) -> Batch:
    seed(100 + step)
    return case.inputs(size)


def _timed(model: nn.Module, batch: Batch, step: int) -> tuple[Any, float]:
    args, kwargs = batch
    seed(200 + step)
    started = time.process_time()
    output = model(*args, **kwargs)
    return output, time.process_time() - started


def _buffers(model: nn.Module) -> dict[str, Any]:
    return kept((f"buffer {name}", b) for name, b in model.named_buffers())


def _loss(output: Any) -> Tensor:
    """A sum over all elements of all outputs, each with a weight of its own."""
    tensors = [value for _, value in leaves(output) if isinstance(value, Tensor)]
    differentiable = [torch.view_as_real(t) if t.is_complex() else t for t in tensors]
    wanted = [t for t in differentiable if t.requires_grad]
    return sum((_weighted_sum(i, t) for i, t in enumerate(wanted)), start=torch.zeros(()))


def _weighted_sum(i: int, x: Tensor) -> Tensor:
    pattern = torch.cos(torch.arange(x.numel(), dtype=torch.float32, device=x.device) + i)
    # Masked places hold infinities, which would leave nothing but NaN.
    return (x.float().reshape(-1).nan_to_num(0.0, 0.0, 0.0) * pattern).sum()
