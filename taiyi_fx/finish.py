"""From folded statistics to the values that quantities are computed from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from taiyi_fx.config import Subscription
from taiyi_fx.passes.ir import CALL_PORTS, GRADIENT_PORTS, Mode, Reading, State
from taiyi_fx.passes.slots import Slot, SlotTable

_NOT_CALLED = (
    "the module was not called in a training forward (one that builds a graph, outside of "
    "torch.func), or no tensor was there"
)
_GRAPH_DID_NOT_RUN = (
    "the graph that shows this call did not run in a training forward: its part was not called, or "
    "the model was changed since instrument"
)


class NoValue(Exception):
    """A reading is not there; the message says why.

    Attributes:
        seen: Whether a forward passed the place all the same.
    """

    def __init__(self, why: str, *, seen: bool = False) -> None:
        super().__init__(why)
        self.seen = seen


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
            return Scale(1 / grad_scale, 1 / grad_scale)
        factor = 1 / grad_scale.get_scale()
        stages = [state["stage"].name for state in grad_scale._per_optimizer_states.values()]
        unscaled = bool(stages) and all(stage != "READY" for stage in stages)
        return Scale(factor, 1.0 if unscaled else factor)


class Readings:
    """Finished readings of one step; equal ones are finished once."""

    def __init__(self, modules: Mapping[str, nn.Module], table: SlotTable, scale: Scale) -> None:
        self._modules = modules
        self._table = table
        self._scale = scale
        self._finished: dict[tuple[int, Any, float], tuple[State, Any]] = {}

    def of(
        self, subscription: Subscription, mode: Mode, call: int
    ) -> tuple[dict[str, Any], Tensor | None]:
        """The inputs of a quantity, and a count that is zero if on the device there are none.

        Raises:
            NoValue: One is not there.
        """
        inputs, present = {}, None
        for name, reading in subscription.readings.items():
            if reading.site.port in CALL_PORTS:
                slots = self._table.at(mode, subscription.module, call)
                inputs[name], count = self._of_call(slots[reading])
                present = count if present is None else present
            else:
                inputs[name] = self._of_module(subscription.module, reading)
        return inputs, present

    def _of_call(self, slot: Slot) -> tuple[Any, Tensor | None]:
        if slot.failure is not None:
            raise slot.failure
        found = slot.read()
        if found is None:
            why = _GRAPH_DID_NOT_RUN if slot.module.endswith("()") else _NOT_CALLED
            raise NoValue(slot.note or why, seen=slot.note is not None)
        is_gradient = slot.reading.site.port in GRADIENT_PORTS
        factor = self._scale.calls if is_gradient else 1.0
        return self._finish(slot.reading, found[0], factor), found[1]

    def _of_module(self, name: str, reading: Reading) -> Any:
        tensors = list(_tensors_of(self._modules[name], reading))
        reduction = reading.reduction
        state = reduction.measure(tensors[0])
        for tensor in tensors[1:]:
            state = reduction.merge(state, reduction.measure(tensor))
        is_gradient = reading.site.port == "parameter_grad"
        return self._finish(reading, state, self._scale.parameters if is_gradient else 1.0)

    def _finish(self, reading: Reading, state: State, factor: float) -> Any:
        # Probes that were fused fold the same state into each of their slots.
        key = id(state), reading.reduction, factor
        if key not in self._finished:
            scaled = state if factor == 1.0 else reading.reduction.scale(state, factor)
            self._finished[key] = state, reading.reduction.finish(scaled)
        return self._finished[key][1]


def _tensors_of(module: nn.Module, reading: Reading) -> Iterator[Tensor]:
    name = reading.site.pick
    named = list(module.parameters()) if name == "all" else [getattr(module, str(name))]
    if reading.site.port != "parameter_grad":
        yield from (tensor.detach() for tensor in named)
        return
    gradients = [p.grad.detach() for p in named if p.grad is not None]
    if not gradients:
        frozen = all(not p.requires_grad for p in named)
        raise NoValue(
            f"{name} is frozen (requires_grad is False)"
            if frozen
            else f"no gradient reached {name}"
        )
    yield from gradients
