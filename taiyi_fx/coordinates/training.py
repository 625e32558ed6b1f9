"""A few steps of one model, with the sizes and changes of what its modules compute."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from taiyi_fx.instrument import instrument
from taiyi_fx.passes.structure import find_tensor

Made: TypeAlias = "nn.Module | tuple[nn.Module, torch.optim.Optimizer]"

_MOST = 2**18
"""Elements of each output that are kept to tell changes from: all of a small batch."""


class Given(NamedTuple):
    """A training at any width: its models, batch, optimizer and loss.

    Attributes:
        make: Takes a width to a model, or to a model and its optimizer.
        args: The batch, as a forward takes it: by position.
        kwargs: The same by name.
        optimizer: Takes a model to its optimizer, where ``make`` gives none.
        loss: Takes what a forward returns to the loss.
        steps: The number of updates.
    """

    make: Callable[[int], Made]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    optimizer: Callable[[nn.Module], torch.optim.Optimizer]
    loss: Callable[[Any], Tensor] | None
    steps: int


class Sizes(NamedTuple):
    """Root mean squares of a module's output at each step, and of its change since the first."""

    sizes: np.ndarray[Any, Any]
    changes: np.ndarray[Any, Any]


def trained(
    model: nn.Module, optimizer: torch.optim.Optimizer, given: Given, seed: int
) -> dict[str, Sizes]:
    """Trains a model, and returns the sizes of its leaves' outputs by their names."""
    raw = ["ForwardOutput", "every(1)", {"max_elements": _MOST}]
    watched = instrument(model, {_computes: ["OutputRMS", raw]})
    for step in range(given.steps + 1):
        torch.manual_seed(seed)  # one dropout at all steps: what changes is of the weights
        _loss(watched(*given.args, **given.kwargs), given).backward()
        watched.monitor.track(step)
        optimizer.step()
        optimizer.zero_grad()
    found = watched.monitor.get_output()
    return {
        name: _sizes(of) for name, of in found.items() if len(of.get("OutputRMS", ())) > given.steps
    }


def _computes(name: str, module: nn.Module) -> bool:
    """True for leaves with parameters, whose outputs are the coordinates."""
    is_leaf = next(module.children(), None) is None
    return is_leaf and next(module.parameters(), None) is not None


def _sizes(found: Mapping[str, Mapping[int, Any]]) -> Sizes:
    outputs = [output.double() for _, output in sorted(found["ForwardOutput"].items())]
    changes = [(y - outputs[0]).square().mean().sqrt().item() for y in outputs]
    return Sizes(np.array([v for _, v in sorted(found["OutputRMS"].items())]), np.array(changes))


def _loss(output: Any, given: Given) -> Tensor:
    if given.loss is not None:
        return given.loss(output)
    if isinstance(getattr(output, "loss", None), Tensor):
        return output.loss
    y = find_tensor(output, None)
    if y is None:
        raise TypeError(f"the model returns a {type(output).__name__} without a tensor: give loss=")
    generator = torch.Generator().manual_seed(0)
    aim = torch.randn(y.shape, generator=generator).to(y)
    return F.mse_loss(y, aim)
