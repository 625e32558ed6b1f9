"""From folded statistics to the values that quantities are computed from."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from taiyi_fx.config import Subscription
from taiyi_fx.passes.ir import (
    CALL_PORTS,
    GRADIENT_PORTS,
    Mode,
    Pick,
    Reading,
    Reduction,
    State,
    quick_way,
)
from taiyi_fx.passes.probes.parts import is_over_elements, is_spread, of_parameters
from taiyi_fx.passes.probes.slots import Slot, SlotTable
from taiyi_fx.passes.structure import tensor_named
from taiyi_fx.quantity import NoValue

_NOT_CALLED = (
    "the module was not called in a training forward (one that builds a graph, outside of "
    "torch.func), or no tensor was there"
)
_CALL_NOT_SEEN = (
    "this call was not seen in a training forward: the module that makes it was not called, makes "
    "it no more, or stayed Python and was compiled, where only modules are seen"
)


Key = tuple[str, Reading]
"""A module's name, and what is read of its parameters or buffers."""


class Owned(NamedTuple):
    """Where something that is read of a module is, if it is its own parameter."""

    parameters: Mapping[str, nn.Parameter | None]
    name: Pick
    is_gradient: bool

    @staticmethod
    def of(key: Key, modules: Mapping[str, nn.Module]) -> Owned:
        """That of a key."""
        module, reading = key
        site = reading.site
        return Owned(modules[module]._parameters, site.pick, site.port == "parameter_grad")


class OfModules(NamedTuple):
    """What one reduction reads of parameters and buffers.

    Attributes:
        reduction: The reduction.
        rows: Each key with its row.
        owned: Where each is, as a rule.
    """

    reduction: Reduction
    rows: Mapping[Key, int]
    owned: tuple[Owned, ...]


_OWN = frozenset((nn.Parameter, Tensor))


class ReadingUnavailable(NoValue):
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
    """What gradients have to be multiplied with to be those of the true loss.

    Attributes:
        calls: Those of inputs and outputs.
        parameters: Those of parameters.
        may_overflow: Whether a scaler leaves out the steps whose gradients are not finite.
    """

    calls: float = 1.0
    parameters: float = 1.0
    may_overflow: bool = False

    @staticmethod
    def of(grad_scale: float | torch.amp.GradScaler | None) -> Scale:
        """The inverse of a loss scale; a scaler knows if parameter gradients still carry it."""
        if grad_scale is None:
            return Scale()
        if not isinstance(grad_scale, torch.amp.GradScaler):
            factor = _inverse(grad_scale)
            return Scale(factor, factor)
        if not grad_scale.is_enabled():
            return Scale()
        factor = _inverse(grad_scale.get_scale())
        stages = [state["stage"].name for state in grad_scale._per_optimizer_states.values()]
        unscaled = bool(stages) and all(stage != "READY" for stage in stages)
        return Scale(factor, 1.0 if unscaled else factor, may_overflow=True)


class Found(NamedTuple):
    """What one reading left, and what it has to be multiplied with."""

    reading: Reading
    state: State
    factor: float

    def finished(self) -> Any:
        """What a quantity's function takes, of one state or of many stacked."""
        reduction, state, factor = self.reading.reduction, self.state, self.factor
        return reduction.finish(state if factor == 1.0 else reduction.scale(state, factor))


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
        self._of_modules: dict[Key, State | Exception] = {}
        self._together: dict[Reduction, tuple[State, Mapping[Key, int]]] = {}
        self._complete: dict[int, State] = {}  # by the identity of rows: hashes take their time

    def measure_modules(self, asked: Sequence[OfModules]) -> None:
        """Reads parameters and buffers; equal reductions that can do it, by one call to torch."""
        for reduction, rows, owned in asked:
            can_together = quick_way(reduction, "measure_all") is not None
            if can_together and (everything := _tensors_owned(owned)):
                self._measure_together(reduction, rows, everything)
                continue
            keys: list[Key] = []
            tensors: list[Tensor] = []
            for key in rows:
                found = self._found(key)
                if can_together and len(found) == 1:
                    keys.append(key)
                    tensors.append(found[0])
                elif found:
                    self._measure_alone(reduction, key, found)
            if tensors:
                there = rows if len(keys) == len(rows) else {k: i for i, k in enumerate(keys)}
                self._measure_together(reduction, there, tensors)

    def _found(self, key: Key) -> Sequence[Tensor]:
        try:
            module, reading = key
            tensors = self._tensors_of(self._modules[module], reading)
            held = of_parameters(tensors, reading.reduction, self._members)
            if not held:
                raise ReadingUnavailable("other ranks hold it")
            return held
        except Exception as error:  # noqa: BLE001 - raised where it is missed
            self._of_modules[key] = error.with_traceback(None)
            return ()

    def _tensors_of(self, module: nn.Module, reading: Reading) -> list[Tensor]:
        name, named = reading.site.pick, _named(module, reading)
        if reading.site.port != "parameter_grad":
            return named
        gradients = [_dense(p.grad) for p in named if p.grad is not None]
        if gradients:
            return gradients
        if all(not p.requires_grad for p in named):
            raise ReadingUnavailable(f"{name} is frozen (requires_grad is False)")
        cleared = "" if self._has_gradients else "; was track called after zero_grad()?"
        raise ReadingUnavailable(f"no gradient reached {name}{cleared}")

    @functools.cached_property
    def _has_gradients(self) -> bool:
        return any(p.grad is not None for p in self._modules[""].parameters())

    def _measure_together(
        self, reduction: Any, rows: Mapping[Key, int], tensors: Sequence[Tensor]
    ) -> None:
        try:
            state = reduction.measure_all(tensors)
            self._together[reduction], self._complete[id(rows)] = (state, rows), state
        except Exception:  # noqa: BLE001 - whose it is shows when each is read alone
            for key, tensor in zip(rows, tensors, strict=True):
                self._measure_alone(reduction, key, [tensor])

    def _measure_alone(self, reduction: Reduction, key: Key, tensors: Sequence[Tensor]) -> None:
        try:
            states = [reduction.measure(tensor.detach()) for tensor in tensors]
            self._of_modules[key] = functools.reduce(reduction.merge, states)
        except Exception as error:  # noqa: BLE001 - raised where it is missed
            self._of_modules[key] = error.with_traceback(None)

    def of_module(self, key: Key) -> State:
        """What was read of one module.

        Raises:
            Exception: Whatever went wrong.
        """
        state, rows = self._together.get(cast(Reduction, key[1].reduction), ((), {}))
        if key in rows:
            return tuple(part[rows[key]] for part in state)
        found = self._of_modules[key]
        if isinstance(found, Exception):
            raise found
        return found

    def has(self, key: Key) -> bool:
        """Whether something of a module was read."""
        return not isinstance(self._of_modules.get(key), Exception)

    def has_all(self, of: OfModules) -> bool:
        """Whether all that was asked of modules with a reduction was there, and read together."""
        return id(of.rows) in self._complete

    def rows(self, of: OfModules, rows: slice) -> State:
        """Some of what was read together, as vectors."""
        return tuple(part[rows] for part in self._complete[id(of.rows)])

    def factor(self, reading: Reading) -> float:
        """What a reading's statistic has to be multiplied with to be that of the true loss."""
        if reading.site.port in GRADIENT_PORTS:
            return self._scale.calls
        return self._scale.parameters if reading.site.port == "parameter_grad" else 1.0

    def of(self, subscription: Subscription, mode: Mode, call: int) -> Inputs:
        """The inputs of a quantity.

        Raises:
            ReadingUnavailable: One is not there.
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
                state = self.of_module((subscription.module, reading))
                found[name] = Found(reading, state, self.factor(reading))
        return Inputs(found, present, weight)

    def is_in_parts(self, name: str, reading: Reading) -> bool:
        """Whether each rank reads its own part of what all hold together."""
        if self._members is None or not is_over_elements(reading.reduction):
            return False
        return any(map(is_spread, _named(self._modules[name], reading)))

    def trained_weight(self, name: str) -> int:
        """Which weight a module trains.

        Raises:
            ReadingUnavailable: It is frozen.
        """
        weight = tensor_named(self._modules[name], "weight")
        if isinstance(weight, Tensor) and not weight.requires_grad:
            raise ReadingUnavailable("weight is frozen (requires_grad is False)")
        return id(weight)

    def _of_call(self, slot: Slot) -> tuple[Found, Tensor | None]:
        if slot.failure is not None:
            raise slot.failure
        read = slot.read()
        if read is None:
            why = _CALL_NOT_SEEN if slot.module.endswith("()") else _NOT_CALLED
            note = slot.note or slot.board.held.why_nothing(slot)
            raise ReadingUnavailable(note or why, seen=note is not None)
        return Found(slot.reading, read[0], self.factor(slot.reading)), read[1]


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
            self._values[key] = state, found.finished()
        return self._values[key][1]


def _tensors_owned(owned: Sequence[Owned]) -> list[Tensor]:
    """All tensors, if each is an own parameter of its module, or the gradient of one.

    Nearly always they are, and looking up the hundreds of them has to be fast.
    """
    found: list[Tensor] = []
    for parameters, name, is_gradient in owned:
        tensor = parameters.get(name)  # pyright: ignore[reportArgumentType]
        if is_gradient and tensor is not None:
            tensor = tensor.grad
        if tensor is None:
            return []
        found.append(tensor)
    is_usual = _OWN.issuperset(map(type, found)) and all(x.layout is torch.strided for x in found)
    return found if is_usual else []


def _named(module: nn.Module, reading: Reading) -> list[Tensor]:
    name = str(reading.site.pick)
    return list(module.parameters()) if name == "all" else [tensor_named(module, name)]


def _dense(gradient: Tensor) -> Tensor:
    return gradient if gradient.layout == torch.strided else gradient.to_dense()
