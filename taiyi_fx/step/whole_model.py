"""Readings of the model as a whole: all gradients, the optimizer's groups, the losses logged."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from taiyi_fx.passes.ir import Port, Reading, State
from taiyi_fx.passes.module_tree import parameters_of
from taiyi_fx.passes.probes.dtensor import each_of_parameters, is_spread
from taiyi_fx.reductions import Norm
from taiyi_fx.reductions.sums import wide
from taiyi_fx.step.optimizer_states import NO_OPTIMIZER
from taiyi_fx.step.parameters import ReadingUnavailable, dense
from taiyi_fx.step.transfer import Column

_KEPT = 128
"""Losses before the last one that tell what is usual."""


def check_optimizers(given: Optimizer | Sequence[Optimizer] | None) -> tuple[Optimizer, ...]:
    """One optimizer, several or none, as a tuple.

    Raises:
        TypeError: One of them has no parameter groups.
    """
    every = tuple(given) if isinstance(given, (list, tuple)) else (given,)
    found: list[Any] = [optimizer for optimizer in every if optimizer is not None]
    for optimizer in found:
        if not hasattr(optimizer, "param_groups"):
            raise TypeError(f"an optimizer has param_groups, and {optimizer!r} has none")
    return tuple(found)


class WholeModel:
    """The optimizers of a model, and the losses that were logged.

    Args:
        model: The model.

    Attributes:
        optimizers: Those that were watched; none if nobody said.
        forwards: The number of training forwards that were read in the last step that had any.
    """

    def __init__(self, model: nn.Module) -> None:
        self.optimizers: tuple[Optimizer, ...] = ()
        self.forwards = 0
        self._model = model
        self._losses: deque[tuple[int, Tensor]] = deque(maxlen=_KEPT + 1)
        self._name: str | None = None

    def log(self, column: Column) -> None:
        """Keeps a logged number if it is the loss: the first with "loss" in its name."""
        ((_, name),) = column.of
        if self._name is None and "loss" in name.lower() and column.mode == "train":
            self._name = name
        if name == self._name and column.mode == "train":
            self._losses.append((column.step, column.values))

    def clear(self) -> None:
        """Drops the losses."""
        self._losses.clear()

    def is_in_parts(self) -> bool:
        """True if ranks hold the parameters together."""
        return any(map(is_spread, parameters_of(self._model)))

    def read(self, reading: Reading, step: int, members: Sequence[int] | None) -> State:
        """The statistic of a reading at a step.

        Raises:
            ReadingUnavailable: There is nothing to read.
        """
        port = reading.site.port
        if port == "gradients":
            return (self._norms(members),)
        return (_READS[port](self, step),)

    def _norms(self, members: Sequence[int] | None) -> Tensor:
        """The norm of all gradients, then that of each parameter group."""
        found = [p for p in parameters_of(self._model) if p.grad is not None]
        gradients = [dense(p.grad.detach()) for p in found if p.grad is not None]
        held = zip(found, each_of_parameters(gradients, Norm(), members), strict=True)
        here = {id(p): x for p, x in held if x is not None}
        if not here:
            why = "other ranks hold all gradients" if found else "no gradient reached the model"
            raise ReadingUnavailable(why)
        norms, rows = _norms_of([*here.values()]), {of: row for row, of in enumerate(here)}
        groups = [[rows[id(p)] for p in of["params"] if id(p) in rows] for of in self._groups()]
        return torch.stack([_norm(norms), *(_norm(norms[group]) for group in groups)])

    def _rates(self, step: int) -> Tensor:
        """The learning rate of each parameter group."""
        if not self.optimizers:
            raise ReadingUnavailable(NO_OPTIMIZER)
        rates = [float(group["lr"]) for group in self._groups() if "lr" in group]
        if not rates:
            raise ReadingUnavailable("the optimizer's parameter groups have no 'lr'")
        return torch.tensor(rates, dtype=torch.float64)

    def _last_losses(self, step: int) -> Tensor:
        """The loss of a step, behind those before it."""
        if not self._losses or self._losses[-1][0] != step:
            raise ReadingUnavailable(
                "no number with 'loss' in its name was logged for this step: call "
                "monitor.log('loss', loss) before track"
            )
        device = self._losses[-1][1].device
        kind = wide(device)
        return torch.cat([value.to(device, kind) for _, value in self._losses])

    def _groups(self) -> Iterator[dict[str, Any]]:
        return (group for optimizer in self.optimizers for group in optimizer.param_groups)


_READS: dict[Port, Callable[[WholeModel, int], Tensor]] = {
    "optimizer": WholeModel._rates,
    "logged": WholeModel._last_losses,
}


def _norms_of(tensors: Sequence[Tensor]) -> Tensor:
    """The norm of each of some tensors, as a vector on the device of the first."""
    by_device: dict[torch.device, list[int]] = {}
    for row, x in enumerate(tensors):
        by_device.setdefault(x.device, []).append(row)
    device = tensors[0].device
    found = torch.empty(len(tensors), dtype=wide(device), device=device)
    for rows in by_device.values():
        (norms,) = Norm().measure_many([tensors[row] for row in rows])
        found[rows] = torch.as_tensor(norms, dtype=found.dtype).to(device)
    return found


def _norm(norms: Tensor) -> Tensor:
    return torch.linalg.vector_norm(norms)
