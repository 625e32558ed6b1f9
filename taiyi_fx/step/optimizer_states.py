"""Statistics of the optimizers' state, parameter by parameter, read at `track`."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from taiyi_fx.optimizers import Description, TrainedParameter, description_of
from taiyi_fx.optimizers.describe import NoGradient, Tells
from taiyi_fx.passes.ir import OPTIMIZER_PORTS, Port, Reading, State
from taiyi_fx.passes.probes.dtensor import each_of_parameters
from taiyi_fx.step.parameters import ReadingUnavailable, tensors_named

NO_OPTIMIZER = (
    "no optimizer is known: give instrument(..., optimizer=optimizer), or call "
    "monitor.watch_optimizer(optimizer)"
)
_NAMES: Mapping[Port, str] = {
    "first_moment": "first moment",
    "second_moment": "second moment",
    "step": "step",
}
assert set(_NAMES) == set(OPTIMIZER_PORTS)


def lacking(optimizers: Sequence[Optimizer], ports: Iterable[Port]) -> str | None:
    """The reason why no parameter of some optimizers can have a quantity, or None."""
    for port in ports:
        if optimizers and all(_tells(optimizer, port) is None for optimizer in optimizers):
            return " and ".join(dict.fromkeys(_unknown(o, port) for o in optimizers))
    return None


class OptimizerStates:
    """The optimizers' state of each parameter, in one step, on this rank.

    Args:
        modules: The model's, by name.
        optimizers: Those that train it.
        members: The ranks whose readings are joined; None for this one alone.
        factor: The factor that takes the loss scale out of gradients of parameters.
    """

    def __init__(
        self,
        modules: Mapping[str, nn.Module],
        optimizers: Sequence[Optimizer],
        members: Sequence[int] | None,
        factor: float,
    ) -> None:
        self._modules = modules
        self._optimizers = optimizers
        self._members = members
        self._factor = factor

    def read(self, module: str, reading: Reading) -> State:
        """The statistic of a module's parameters.

        Raises:
            ReadingUnavailable: There is nothing to read.
        """
        found: list[State] = []
        lacks: list[ReadingUnavailable] = []
        for tensor in tensors_named(self._modules[module], reading):
            try:
                found.append(self._of(tensor, reading))
            except ReadingUnavailable as why:
                lacks.append(why)
        if not found:
            raise lacks[0]
        return functools.reduce(reading.reduction.merge, found)

    def _of(self, tensor: Tensor, reading: Reading) -> State:
        """The statistic of one parameter."""
        port, reduction = reading.site.port, reading.reduction
        told = self._told(tensor, port, str(reading.site.pick))
        tensors = [tensor.detach(), told] if port == "step" else [told]
        held = [x for x in each_of_parameters(tensors, reduction, self._members) if x is not None]
        if not held:
            raise ReadingUnavailable("other ranks hold the tensor")
        measure: Any = getattr(reduction, "measure_pair" if port == "step" else "measure")
        return measure(*held)

    def _told(self, tensor: Tensor, port: Port, name: str) -> Tensor:
        """A moment or a step, as the optimizer's state tells it."""
        optimizer, group = self._owner(tensor, name)
        tells = _tells(optimizer, port)
        if tells is None:
            raise ReadingUnavailable(_unknown(optimizer, port))
        state = optimizer.state.get(tensor, {})  # not by [], which would make one
        of = TrainedParameter(tensor, state, group, self._factor)
        try:
            return tells(of)
        except NoGradient as why:
            raise ReadingUnavailable(f"the step is made of the gradient, and {why}") from None
        except KeyError as key:
            if not state:
                why = "the optimizer has not updated it yet"
                raise ReadingUnavailable(why, is_usual=True) from None
            kind = type(optimizer).__name__
            raise ReadingUnavailable(f"{kind} keeps no {key} of it") from None

    def _owner(self, tensor: Tensor | None, name: str) -> tuple[Optimizer, dict[str, Any]]:
        """The optimizer of a parameter, and its group."""
        if not self._optimizers:
            raise ReadingUnavailable(NO_OPTIMIZER)
        if tensor is None:
            raise ReadingUnavailable(f"{name} is None")
        if id(tensor) in self._owners:
            return self._owners[id(tensor)]
        if not tensor.requires_grad:
            raise ReadingUnavailable(f"{name} is frozen (requires_grad is False)")
        raise ReadingUnavailable(
            f"{name} is no parameter of the optimizer, which may train a copy of it"
        )

    @functools.cached_property
    def _owners(self) -> dict[int, tuple[Optimizer, dict[str, Any]]]:
        return {
            id(parameter): (optimizer, group)
            for optimizer in self._optimizers
            for group in optimizer.param_groups
            for parameter in group["params"]
        }


def _tells(optimizer: Optimizer, port: Port) -> Tells | None:
    description = description_of(optimizer) or Description()
    return getattr(description, port)


def _unknown(optimizer: Optimizer, port: Port) -> str:
    kind = type(optimizer).__name__
    if description_of(optimizer) is None:
        return f"{kind} is not known: describe it, by taiyi_fx.describe_optimizer({kind}, ...)"
    return f"the state of {kind} tells no {_NAMES[port]}"
