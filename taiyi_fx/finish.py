"""From folded statistics to the values that quantities are computed from."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from taiyi_fx.config import Subscription
from taiyi_fx.passes.ir import CALL_PORTS, GRADIENT_PORTS, Mode, Reading, Reduction, State
from taiyi_fx.passes.parts import is_over_elements, is_spread, of_parameters
from taiyi_fx.passes.slots import Slot, SlotTable
from taiyi_fx.quantity import NoValue

_NOT_CALLED = (
    "the module was not called in a training forward (one that builds a graph, outside of "
    "torch.func), or no tensor was there"
)
_GRAPH_DID_NOT_RUN = (
    "the graph that shows this call did not run in a training forward: its part was not called, or "
    "the model was changed since instrument"
)


class NotThere(NoValue):
    """A reading is not there; the message says why.

    Attributes:
        seen: Whether a forward passed the place all the same.
    """

    def __init__(self, why: str, *, seen: bool = False) -> None:
        super().__init__(why)
        self.seen = seen


def _inverse(scale: float) -> float:
    return 1 / scale if scale else math.inf


@dataclass(frozen=True)
class Scale:
    """What gradients have to be multiplied with to be those of the true loss."""

    calls: float = 1.0
    parameters: float = 1.0

    @staticmethod
    def of(grad_scale: float | torch.amp.GradScaler | None) -> Scale:
        """The inverse of a loss scale; a scaler knows if parameter gradients still carry it."""
        if grad_scale is None:
            return Scale()
        if not isinstance(grad_scale, torch.amp.GradScaler):
            factor = _inverse(grad_scale)
            return Scale(factor, factor)
        factor = _inverse(grad_scale.get_scale())
        stages = [state["stage"].name for state in grad_scale._per_optimizer_states.values()]
        unscaled = bool(stages) and all(stage != "READY" for stage in stages)
        return Scale(factor, 1.0 if unscaled else factor)


class Found(NamedTuple):
    """What one reading left, and what it has to be multiplied with."""

    reading: Reading
    state: State
    factor: float


class Inputs(NamedTuple):
    """What one quantity of one call is computed from.

    Attributes:
        found: By parameter of the quantity's function.
        present: A count that is zero if, as only the device knows, there is nothing.
        weight: Whose gradient it is of, where it is of a weight's.
    """

    found: Mapping[str, Found]
    present: Tensor | None
    weight: int | None = None


class Readings:
    """What the readings of one step left on this rank.

    Args:
        modules: The model's, by name.
        table: What was read at calls.
        scale: What gradients have to be multiplied with.
        members: The ranks whose readings are joined; None for this one alone.
    """

    def __init__(
        self,
        modules: Mapping[str, nn.Module],
        table: SlotTable,
        scale: Scale,
        members: Sequence[int] | None = None,
    ) -> None:
        self._modules = modules
        self._table = table
        self._scale = scale
        self._members = members
        self._of_modules: dict[tuple[str, Reading], State] = {}
        self._held: dict[tuple[str, Reading], list[Tensor]] = {}

    def measure_modules(self, subscriptions: Iterable[Subscription]) -> None:
        """Reads parameters and buffers for all of them, equal reductions by one call to torch."""
        asked: dict[Reduction, dict[tuple[str, Reading], list[Tensor]]] = {}
        for subscription in subscriptions:
            for reading in subscription.readings.values():
                if reading.site.port in CALL_PORTS:
                    continue
                reduction = cast(Reduction, reading.reduction)  # pairs are read at calls
                key, of_reduction = (subscription.module, reading), asked.setdefault(reduction, {})
                if key in of_reduction:
                    continue
                try:
                    of_reduction[key] = self._tensors_of(*key)
                except Exception:  # noqa: BLE001 - told where it is missed
                    continue
        for reduction, tensors_of in asked.items():
            try:
                self._of_modules.update(_measured(reduction, tensors_of))
            except Exception:  # noqa: BLE001 - each is tried alone, and told, in `of`
                self._held.update(tensors_of)

    def of(self, subscription: Subscription, mode: Mode, call: int) -> Inputs:
        """The inputs of a quantity.

        Raises:
            NotThere: One is not there.
        """
        found, present, weight = {}, None, None
        if subscription.is_of_weight_gradients:
            weight = self.trained_weight(subscription.module)
        for name, reading in subscription.readings.items():
            if reading.site.port in CALL_PORTS:
                slots = self._table.at(mode, subscription.module, call)
                found[name], count = self._of_call(slots[reading])
                present = count if present is None else present
            else:
                found[name] = self.of_module(subscription.module, reading)
        return Inputs(found, present, weight)

    def trained_weight(self, name: str) -> int:
        """Which weight a module trains.

        Raises:
            NotThere: It is frozen.
        """
        weight = self._modules[name].weight
        if isinstance(weight, Tensor) and not weight.requires_grad:
            raise NotThere("weight is frozen (requires_grad is False)")
        return id(weight)

    def _of_call(self, slot: Slot) -> tuple[Found, Tensor | None]:
        if slot.failure is not None:
            raise slot.failure
        read = slot.read()
        if read is None:
            why = _GRAPH_DID_NOT_RUN if slot.module.endswith("()") else _NOT_CALLED
            raise NotThere(slot.note or why, seen=slot.note is not None)
        return Found(slot.reading, read[0], self.factor(slot.reading)), read[1]

    def of_module(self, name: str, reading: Reading) -> Found:
        """What was read of a parameter or a buffer.

        Raises:
            NotThere: There is nothing to read, or not on this rank.
        """
        if (name, reading) not in self._of_modules:
            tensors = self._tensors_of(name, reading)
            if not tensors:
                raise NotThere("other ranks hold it")
            reduction = cast(Reduction, reading.reduction)
            self._of_modules.update(_measured(reduction, {(name, reading): tensors}))
        return Found(reading, self._of_modules[name, reading], self.factor(reading))

    def factor(self, reading: Reading) -> float:
        """What a reading's statistic has to be multiplied with to be that of the true loss."""
        if reading.site.port in GRADIENT_PORTS:
            return self._scale.calls
        return self._scale.parameters if reading.site.port == "parameter_grad" else 1.0

    def is_in_parts(self, name: str, reading: Reading) -> bool:
        """Whether each rank reads its own part of what all hold together."""
        if self._members is None or not is_over_elements(reading.reduction):
            return False
        return any(map(is_spread, _named(self._modules[name], reading)))

    def _tensors_of(self, name: str, reading: Reading) -> list[Tensor]:
        if (name, reading) in self._held:
            return self._held[name, reading]
        tensors = _tensors_of(self._modules[name], reading)
        held = of_parameters(tensors, reading.reduction, self._members)
        if not held:  # not asked again, which would be another collective
            self._held[name, reading] = held
        return held


class Finished:
    """Values made of states; those of equal readings of one state are made once."""

    def __init__(self) -> None:
        self._values: dict[tuple[int, float], tuple[State, Any]] = {}

    def of(self, found: Found) -> Any:
        """What a quantity's function takes."""
        # Probes that were fused fold the same state into each of their slots.
        state, factor = found.state, found.factor
        key = id(state), factor
        if key not in self._values:
            reduction = found.reading.reduction
            scaled = state if factor == 1.0 else reduction.scale(state, factor)
            self._values[key] = state, reduction.finish(scaled)
        return self._values[key][1]


def _measured(
    reduction: Reduction, tensors_of: Mapping[tuple[str, Reading], list[Tensor]]
) -> dict[tuple[str, Reading], State]:
    """The states of each entry's tensors, taken together."""
    every = [tensor for tensors in tensors_of.values() for tensor in tensors]
    measure_all = getattr(reduction, "measure_all", None)
    states = measure_all(every) if measure_all and every else [reduction.measure(t) for t in every]
    remaining, found = iter(states), {}
    for key, tensors in tensors_of.items():
        if tensors:
            own = itertools.islice(remaining, len(tensors))
            found[key] = functools.reduce(reduction.merge, own)
    return found


def _dense(gradient: Tensor) -> Tensor:
    return gradient if gradient.layout == torch.strided else gradient.to_dense()


def _named(module: nn.Module, reading: Reading) -> list[Tensor]:
    name = reading.site.pick
    return list(module.parameters()) if name == "all" else [getattr(module, str(name))]


def _tensors_of(module: nn.Module, reading: Reading) -> list[Tensor]:
    named = _named(module, reading)
    if reading.site.port != "parameter_grad":
        return [tensor.detach() for tensor in named]
    gradients = [_dense(p.grad.detach()) for p in named if p.grad is not None]
    if not gradients:
        name = reading.site.pick
        frozen = all(not p.requires_grad for p in named)
        raise NotThere(
            f"{name} is frozen (requires_grad is False)"
            if frozen
            else f"no gradient reached {name}"
        )
    return gradients
