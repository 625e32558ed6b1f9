"""The statistics of one step on this rank, with the loss scale to take out of gradients."""

from __future__ import annotations

import functools
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from taiyi_fx.passes.ir import (
    CALL_PORTS,
    GRADIENT_PORTS,
    MODEL_PORTS,
    OPTIMIZER_PORTS,
    Reading,
    State,
    capabilities,
)
from taiyi_fx.passes.probes.dtensor import is_spread
from taiyi_fx.passes.probes.slots import Slot
from taiyi_fx.passes.probes.table import SlotTable
from taiyi_fx.passes.structure import parts_of_computed, tensor_named
from taiyi_fx.schedule import whole
from taiyi_fx.step.optimizer_states import OptimizerStates
from taiyi_fx.step.parameters import ParameterStatistics, ReadingUnavailable, tensors_named
from taiyi_fx.step.presence import GONE
from taiyi_fx.step.whole_model import WholeModel
from taiyi_fx.step.work import Statistic, Work

NOT_CALLED = (
    "the module was not called in a training forward (one that builds a graph, outside of "
    "torch.func), or no tensor was there"
)
"""The reason for values of a module that nothing was read of."""
_EVALUATED = (
    "the module was called in evaluation alone: get_output(mode='eval') and "
    "records.select(mode='eval') have its values"
)
_CALL_NOT_SEEN = (
    "this call was not seen in a training forward: the module that makes it was not called, or "
    "makes it no more"
)
_IN_REGION = (
    "it is part of a region that torch compiles once for all its modules "
    "(torch.compiler.nested_compile_region), out of which no statistic comes: read the module that "
    "is the region, or leave away the mark"
)
_CALL_COMPILED = (
    "the forward that makes this call stayed Python and was compiled, or calls a compiled "
    "function that makes it, where only modules and graphs are seen: leave it out of what is "
    "compiled, or change what keeps it from being a graph, which `capture` tells"
)


@dataclass(frozen=True)
class Scale:
    """The factors that turn gradients of a scaled loss into those of the true loss.

    Attributes:
        calls: The factor for gradients of inputs and outputs.
        parameters: The factor for gradients of parameters.
        may_overflow: True if a scaler skips the steps whose gradients are not finite.
    """

    calls: float = 1.0
    parameters: float = 1.0
    may_overflow: bool = False

    @staticmethod
    def of(grad_scale: float | torch.amp.GradScaler | None) -> Scale:
        """The inverse of a loss scale; a scaler knows if parameter gradients still carry it."""
        if grad_scale is None:
            return UNSCALED
        if not isinstance(grad_scale, torch.amp.GradScaler):
            factor = _inverse(grad_scale)
            return Scale(factor, factor)
        if not grad_scale.is_enabled():
            return UNSCALED
        factor = _inverse(grad_scale.get_scale())
        stages = [state["stage"].name for state in grad_scale._per_optimizer_states.values()]
        unscaled = bool(stages) and all(stage != "READY" for stage in stages)
        return Scale(factor, 1.0 if unscaled else factor, may_overflow=True)

    def over(self, micro_batches: int) -> Scale:
        """The scale where parameter gradients alone were divided by a number of micro-batches.

        Raises:
            TypeError: It is not a whole number.
            ValueError: It is below 1.
        """
        micro_batches = whole("micro_batches", micro_batches)
        if micro_batches < 1:
            raise ValueError(f"micro_batches is a number of at least 1, not {micro_batches}")
        if micro_batches == 1:
            return self
        return replace(self, calls=self.calls / micro_batches)

    def factor(self, reading: Reading) -> float:
        """The factor for a reading's statistic: 1 unless it is of gradients."""
        if self is UNSCALED:
            return 1.0
        if reading.site.port in GRADIENT_PORTS:
            return self.calls
        return self.parameters if reading.site.port in _OF_GRADIENTS else 1.0


_OF_GRADIENTS = ("parameter_grad", "gradients")
UNSCALED = Scale()
"""Where the loss is not scaled."""


def _inverse(scale: float) -> float:
    return 1 / scale if scale else math.inf


class Statistics:
    """The statistics of one step on this rank.

    Args:
        modules: The model's, by name.
        table: The statistics of readings at calls.
        scale: The factors for gradients.
        members: The ranks whose readings are joined; None for this one alone.
        gone: The names of modules that the model no longer holds.
        whole: The optimizers and losses that are known; by default none.
        step: The step.

    Attributes:
        parameters: The statistics of parameters and buffers.
    """

    def __init__(
        self,
        modules: Mapping[str, nn.Module],
        table: SlotTable,
        scale: Scale,
        members: Sequence[int] | None = None,
        gone: Collection[str] = (),
        *,
        whole: WholeModel | None = None,
        step: int = 0,
    ) -> None:
        self.parameters = ParameterStatistics(modules, members, gone)
        self.scale = scale
        self._modules = modules
        self._table = table
        self._members = members
        self._gone = gone
        self._whole = WholeModel(modules[""]) if whole is None else whole
        self._step = step
        self._of_whole: dict[Reading, State] = {}
        self._of_states: dict[tuple[str, Reading], State] = {}

    def read(self, work: Work) -> Work:
        """The work with its statistics.

        Raises:
            ReadingUnavailable: One of them is not available.
            Exception: The error of the reading when it was made.
        """
        asked, mode, call = work.asked, work.mode, work.call
        found: dict[str, Statistic] = {}
        weight = None
        if asked.is_of_weight_gradients:
            weight = self.trained_weight(asked.module)
        for name, reading in asked.readings.items():
            if reading.site.port in CALL_PORTS:
                slot = self._table.at(mode, asked.module, call)[reading]
                if slot.found is None and mode == "train":
                    self._check_mode(asked.module, call)
                found[name] = self._of_call(slot)
            else:
                found[name] = self.of_parameters(asked.module, reading)
        return work._replace(statistics=found, weight=weight)

    def of_parameters(self, module: str, reading: Reading) -> Statistic:
        """The statistic of a module's parameters or buffers, or of the model as a whole.

        Raises:
            Exception: The error of the measurement.
        """
        if reading.site.port in MODEL_PORTS:
            if reading not in self._of_whole:
                self._of_whole[reading] = self._whole.read(reading, self._step, self._members)
            return Statistic(reading, self._of_whole[reading], self.scale.factor(reading))
        if module in self._gone:
            raise ReadingUnavailable(GONE)
        if reading.site.port in OPTIMIZER_PORTS:
            key = module, reading
            if key not in self._of_states:
                self._of_states[key] = self._states.read(module, reading)
            return Statistic(reading, self._of_states[key], 1.0)
        state = self.parameters.of((module, reading))
        return Statistic(reading, state, self.scale.factor(reading))

    @functools.cached_property
    def _states(self) -> OptimizerStates:
        optimizers, factor = self._whole.optimizers, self.scale.parameters
        return OptimizerStates(self._modules, optimizers, self._members, factor)

    def is_in_parts(self, name: str, reading: Reading) -> bool:
        """True if each rank measures its own part of a tensor that all ranks hold together."""
        if self._members is None or not capabilities(reading.reduction).is_over_elements:
            return False
        if reading.site.port in MODEL_PORTS:
            return reading.site.port == "gradients" and self._whole.is_in_parts()
        return any(map(is_spread, tensors_named(self._modules[name], reading)))

    def trained_weight(self, name: str) -> int:
        """The identity of the weight that a module trains, or of the first part of a computed one.

        Raises:
            ReadingUnavailable: The weight is frozen.
        """
        module = self._modules[name]
        parts = parts_of_computed(module, "weight") or [tensor_named(module, "weight")]
        weight = next((p for p in parts if isinstance(p, Tensor) and p.requires_grad), parts[0])
        if isinstance(weight, Tensor) and not weight.requires_grad:
            raise ReadingUnavailable("weight is frozen (requires_grad is False)")
        return id(weight)

    def _check_mode(self, module: str, call: int) -> None:
        """Checks that a value that is missing in training is not of a call in evaluation alone.

        Raises:
            ReadingUnavailable: It is.
        """
        of_evaluation = self._table.slots_of("eval", module, call)
        if not of_evaluation or self._read.isdisjoint(of_evaluation):
            return
        if self._read.isdisjoint(self._table.slots_of("train", module, call)):
            raise ReadingUnavailable(_EVALUATED, is_usual=True)

    @functools.cached_property
    def _read(self) -> frozenset[Slot]:
        return frozenset(self._table.read_slots())

    def _of_call(self, slot: Slot) -> Statistic:
        if slot.failure is not None:
            raise slot.failure
        if slot.found is None:
            why = self._why_not_called(slot.module)
            note = slot.note or self._table.board.why_nothing(slot)
            raise ReadingUnavailable(note or why, seen=note is not None)
        return Statistic(slot.reading, slot.found, self.scale.factor(slot.reading))

    def _why_not_called(self, site: str) -> str:
        module = site.partition("@")[0]
        if module in self._table.board.in_regions:
            return _IN_REGION
        if module in self._gone:
            return GONE
        if not site.endswith("()"):
            return NOT_CALLED
        return _CALL_COMPILED if site in self._table.board.compiled else _CALL_NOT_SEEN
