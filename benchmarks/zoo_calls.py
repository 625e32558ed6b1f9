"""The calls of leaf modules in a training step, told by hooks on a plain model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from taiyi_fx import output, quantity
from taiyi_fx.verification.calls import Calls as CallsOfModules
from taiyi_fx.verification.calls import Side

INPUT, OUTPUT, GRADIENT = "InputSndNorm", "output_norm", "OutputGradSndNorm"
QUANTITIES = (INPUT, OUTPUT, GRADIENT)
_QUANTITY_AT: dict[Side, str] = {"input": INPUT, "output": OUTPUT, "output_grad": GRADIENT}


@quantity(norm=output.norm)
def output_norm(norm: Tensor) -> Tensor:
    """Euclidean norm of the output over all its elements."""
    return norm


Reading = tuple[str, str]
"""A module's name, with ``@1`` at its second call, and a quantity."""


def is_leaf(name: str, module: nn.Module) -> bool:
    """Whether a module has no parts."""
    return next(module.children(), None) is None


class Calls:
    """What the calls of leaf modules had to show.

    A call counts for a quantity if there is a first tensor in its arguments, or in what it
    returns, or if a gradient reached that tensor; several backwards bring the sum of theirs. What
    ``torch.func`` maps or differentiates does not count.

    Attributes:
        norms: Each reading's norm.
    """

    def __init__(self) -> None:
        self.norms: dict[Reading, float] = {}

    @contextmanager
    def watching(self, model: nn.Module) -> Iterator[None]:
        """Has hooks on every leaf of a model while the body runs."""
        modules = {name: module for name, module in model.named_modules() if is_leaf(name, module)}
        with CallsOfModules(self._take).watching(modules):
            yield

    def _take(self, call: str, side: Side, tensor: Tensor) -> None:
        self.norms[call, _QUANTITY_AT[side]] = _norm(tensor)


def _norm(x: Tensor) -> float:
    x = x.detach()
    x = x.abs() if x.is_complex() else x
    # In float64: in float32 torch is off by 1e-4 on large tensors, and finds tiny ones to be zero.
    return float(torch.linalg.vector_norm(x.double()))
