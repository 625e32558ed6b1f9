"""Statistics of the optimizers' state, parameter by parameter, read at `track`."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from taiyi_fx.optimizers import Description, TrainedParameter, description_of, in_pieces
from taiyi_fx.optimizers.describe import Tells
from taiyi_fx.optimizers.trained import NoGradient
from taiyi_fx.passes.freed import FREED, is_freed
from taiyi_fx.passes.ir import OPTIMIZER_PORTS, Port, Reading, State
from taiyi_fx.passes.probes.dtensor import each_of_parameters
from taiyi_fx.passes.structure import is_computed
from taiyi_fx.step.parameters import ReadingUnavailable, computed_of_others, tensors_named

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
    """The reason why no parameter of some optimizers can ever have a quantity, or None.

    A setting of a group, such as a momentum of 0, is none: it may be another later.
    """
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
        name = str(reading.site.pick)
        if is_computed(self._modules[module], name):
            raise ReadingUnavailable(computed_of_others(name))
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
        port, merge = reading.site.port, reading.reduction.merge
        if is_freed(tensor):
            raise ReadingUnavailable(FREED)
        optimizer, group = self._owner(tensor, str(reading.site.pick))
        description, tells = description_of(optimizer), _tells(optimizer, port)
        if description is None or tells is None or not _is_kept(description, group, port):
            raise ReadingUnavailable(_unknown(optimizer, port))
        state = optimizer.state.get(tensor, {})  # not by [], which would make one
        of = TrainedParameter(tensor, tensor.grad, state, group, self._factor)
        parts: Iterable[tuple[Tensor, TrainedParameter]] = [(tensor.detach(), of)]
        if description.is_elementwise:
            parts = in_pieces(of, getattr(reading.reduction, "max_elements", None))
        try:
            return functools.reduce(
                merge, (self._measured(x, tells(of), reading) for x, of in parts)
            )
        except NoGradient as why:
            raise ReadingUnavailable(f"the step is made of the gradient, and {why}") from None
        except KeyError as key:
            raise _not_kept(optimizer, state, key) from None

    def _measured(self, tensor: Tensor, kept: Tensor, reading: Reading) -> State:
        """The statistic of a parameter, or a piece of one, whose moment or step is known."""
        is_step, reduction = reading.site.port == "step", reading.reduction
        tensors = [tensor, kept] if is_step else [kept]
        held = [x for x in each_of_parameters(tensors, reduction, self._members) if x is not None]
        if not held:
            raise ReadingUnavailable("other ranks hold the tensor")
        measure: Any = getattr(reduction, "measure_pair" if is_step else "measure")
        return measure(*held)

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


def _is_kept(description: Description, group: Mapping[str, Any], port: Port) -> bool:
    return (
        port != "first_moment" or not description.momentum or bool(group.get(description.momentum))
    )


def _not_kept(optimizer: Optimizer, state: Mapping[str, Any], key: KeyError) -> ReadingUnavailable:
    if not state:
        return ReadingUnavailable("the optimizer has not updated it yet", is_usual=True)
    return ReadingUnavailable(f"{type(optimizer).__name__} keeps no {key} of it")


def _unknown(optimizer: Optimizer, port: Port) -> str:
    kind, description = type(optimizer).__name__, description_of(optimizer)
    if description is None:
        return f"{kind} is not known: describe it, by taiyi_fx.describe_optimizer({kind}, ...)"
    if _tells(optimizer, port) is not None:
        return f"{kind} keeps no {_NAMES[port]} where its {description.momentum} is 0"
    return f"the state of {kind} tells no {_NAMES[port]}"
