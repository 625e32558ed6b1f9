"""The last steps, kept so that they can be run again."""

from __future__ import annotations

import functools
import os
import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor, nn
from torch import distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from taiyi_fx.passes.module_tree import parameters_of
from taiyi_fx.passes.probes.dtensor import is_spread
from taiyi_fx.passes.probes.modes import modes_off
from taiyi_fx.recorder.replay.alone import are_several_ranks, sent_buffers, wrapper_under_way
from taiyi_fx.recorder.replay.calls import Call
from taiyi_fx.recorder.replay.checkpoint import (
    Checkpoint,
    capture,
    shown_name,
    tensors_of,
    values_of,
)
from taiyi_fx.recorder.replay.factor import norms_of
from taiyi_fx.recorder.replay.flags import NonFiniteFlag
from taiyi_fx.recorder.replay.kept_step import KeptStep
from taiyi_fx.recorder.replay.memory import CheckpointMemory
from taiyi_fx.recorder.replay.retention import CannotKeep, Retention
from taiyi_fx.recorder.replay.step_function import StepCall, StepFunction


class StepKeeper:
    """Keeps what is needed to run the last steps of a training again.

    Args:
        model: The model.
        optimizers: Gives the optimizers that train it.
        boundary: Holds what fails where no caller of ours does.
        every: Keep a state every so many steps, and all steps; None keeps only those of `also`.
        also: True for a step that is kept in any case.
        limit: The most bytes that all of it may take.
        folder: A folder for the states, which are kept in memory otherwise.
        reach: So many steps back a step can still be reached, from a state before it, where there
            is room and an optimizer is known.

    Attributes:
        steps: The steps that are kept, oldest first: since the last state but one, at least.
        scaler: The scaler, once one was tracked.
        initial: The plain values of the model's modules as keeping began.
        is_in_function: True while the user's function of a step runs.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizers: Callable[[], Sequence[Optimizer]],
        *,
        boundary: Callable[[str], AbstractContextManager[None]],
        every: int | None,
        also: Callable[[int], bool] = lambda step: False,
        limit: int,
        folder: str | os.PathLike[str] | None = None,
        reach: int = 0,
    ) -> None:
        self.scaler: torch.amp.GradScaler | None = None
        self.initial = values_of(model)
        self.is_in_function = False
        self._model, self._optimizers = model, optimizers
        self._boundary = boundary
        self._every, self._also = every, also
        self._leaves_out = False
        self._wrapper: Callable[[], DistributedDataParallel | None] = lambda: None
        self._memory = CheckpointMemory(folder)
        self._retention = Retention(self._memory, limit, reach)
        self.steps = self._retention.steps
        self._watched: dict[int, tuple[Optimizer, Any]] = {}

    def begin_call(
        self, step: int, args: tuple[Any, ...], kwargs: dict[str, Any], *, is_compiled: bool
    ) -> Call | None:
        """Notes a call of the model that begins, and a state first, if one is due.

        Returns:
            The call, for its end; None if its step is not kept.

        Raises:
            CannotKeep: What there is to keep is too large, or is held by several ranks together.
        """
        with modes_off(), torch.no_grad():
            kept = self._step(step)
            if kept is None:
                return None
            self._retention.make_room()
            call = Call(args, kwargs, is_compiled)
            self._note_wrapper(call)
            if not kept.calls:
                kept.had_gradients = any(p.grad is not None for p in parameters_of(self._model))
            kept.calls.append(call)
            kept.has_other_calls |= not self.is_in_function
            return call

    def begin_function(
        self, step: int, function: StepFunction, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> StepCall | None:
        """Notes a call of the user's function of a step; the same as for a call of the model."""
        with modes_off(), torch.no_grad():
            kept = self._step(step)
            if kept is None:
                return None
            kept.functions.append(StepCall.of(function, args, kwargs))
            return kept.functions[-1]

    def _note_wrapper(self, call: Call) -> None:
        wrapper = wrapper_under_way()
        if wrapper is not None:
            self._wrapper = weakref.ref(wrapper)
            if self.is_in_function:  # the state of the step was kept before the wrapper's forward
                call.buffers = sent_buffers(wrapper, self._model)

    @property
    def wrapper(self) -> DistributedDataParallel | None:
        """The wrapper for several ranks that the model was last called by, if there is one."""
        return self._wrapper()

    def end_call(self, call: Call, value: Any) -> None:
        """Notes the output of a call."""
        with modes_off():
            call.end(value)

    def track(self, step: int) -> None:
        """Ends a step: calls after it belong to the next one.

        Raises:
            CannotKeep: What there is to keep is too large.
        """
        self._leaves_out = False
        if self.steps and not self.steps[-1].is_tracked:
            self.steps[-1].step, self.steps[-1].is_tracked = step, True
            with modes_off(), torch.no_grad():
                self.steps[-1].flags = self._flags(self.steps[-1])
            self._drop_batch(self.steps[-1])
            self.steps[-1].measure()
        self._retention.make_room()

    def _flags(self, kept: KeptStep) -> tuple[NonFiniteFlag, NonFiniteFlag]:
        norms = norms_of([p.grad for p in parameters_of(self._model)])
        given = [mark for call in kept.calls for mark in call.marks[1]]
        gradients = [*given, *(norm for norm in norms if norm is not None)]
        outputs = [mark for call in kept.calls for mark in call.marks[0]]
        return (
            NonFiniteFlag(outputs, nan_alone=True),
            NonFiniteFlag(gradients, nan_alone=False),
        )

    def clear(self) -> None:
        """Drops all steps, as another training begins."""
        self.steps.clear()

    def close(self) -> None:
        """Drops all steps, and leaves the optimizers alone."""
        self.steps.clear()
        for _, handle in self._watched.values():
            handle.remove()
        self._watched.clear()

    def _drop_batch(self, kept: KeptStep) -> None:
        """Drops the arguments of calls that a reference to the batch stands for.

        An audit runs the calls of the model again alone, which needs them; so do several ranks.
        """
        is_referred = all(call.function.reference is not None for call in kept.functions)
        needs_them = self._also(kept.step) or are_several_ranks()
        if kept.is_of_functions and is_referred and not needs_them:
            for call in kept.calls:
                call.drop_arguments()

    def _step(self, step: int) -> KeptStep | None:
        """The step under way, which may begin now; None if it is not kept."""
        if not self._leaves_out and (not self.steps or self.steps[-1].is_tracked):
            self._begin_step(step)
        return None if self._leaves_out else self.steps[-1]

    def _begin_step(self, step: int) -> None:
        optimizers = self._optimizers()
        self._watch(optimizers)
        since = self._retention.since_state()
        is_regular = self._every is not None and (not since or len(since) >= self._every)
        is_due = is_regular or self._also(step)
        if is_due:
            self._retention.forget(step, reaches_back=self._can_reach_back)
        elif self._every is None:
            self._leaves_out = True
            return
        kept = self._checkpoint(step, optimizers) if is_due else None
        ranks = dist.get_world_size() if are_several_ranks() else 1
        self.steps.append(KeptStep(step, kept, values=values_of(self._model), ranks=ranks))

    @property
    def _can_reach_back(self) -> bool:
        """True if all steps are kept, and an optimizer leads from one to the next on this rank."""
        return self._every is not None and bool(self._watched) and not are_several_ranks()

    def _checkpoint(self, step: int, optimizers: Sequence[Optimizer]) -> Checkpoint:
        sizes = 0
        for name, x in tensors_of(self._model, optimizers):
            sizes += x.nbytes
            if is_spread(x):
                raise CannotKeep(
                    f"{shown_name(name)} is held by several ranks in parts (FSDP, tensor "
                    "parallelism), and a rank runs a step again alone"
                )
        self._retention.check(2 * sizes)
        self._retention.make_room(sizes)
        self._memory.begin()
        return capture(step, self._model, optimizers, self.scaler, self._memory.allocate)

    def _watch(self, optimizers: Sequence[Optimizer]) -> None:
        """Has optimizers note the norms of the gradients that they are given."""
        if [id(o) for o in optimizers] == [*self._watched]:
            return
        for _, handle in self._watched.values():
            handle.remove()
        # An optimizer outlives a monitor that is dropped: it keeps nothing of it.
        noting = weakref.WeakMethod(self._note)
        self._watched = {
            id(o): (o, o.register_step_pre_hook(functools.partial(_noted, noting, i)))
            for i, o in enumerate(optimizers)
            if hasattr(o, "register_step_pre_hook")
        }
        for _, handle in self._watched.values():
            weakref.finalize(self, handle.remove)

    def _note(self, i: int, optimizer: Optimizer) -> None:
        if not self.steps:
            return
        found = [p.grad for group in optimizer.param_groups for p in group["params"]]
        with self._boundary("noting the gradients"), modes_off(), torch.no_grad():
            self.steps[-1].norms[i] = norms_of(found)
            self.steps[-1].settings[i] = [_settings(group) for group in optimizer.param_groups]


def _noted(noting: Callable[[], Any], i: int, optimizer: Optimizer, *_: Any) -> None:
    note = noting()
    if note is not None:
        note(i, optimizer)


def _settings(group: dict[str, Any]) -> dict[str, Any]:
    """The settings of a parameter group: schedules change them from step to step."""
    others = ((name, value) for name, value in group.items() if name != "params")
    return {n: v.detach().cpu().clone() if isinstance(v, Tensor) else v for n, v in others}
