"""Kept steps run again under watch: forward, backward, and the optimizer's step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from taiyi_fx.passes.module_tree import named_modules, parameters_of
from taiyi_fx.passes.structure import tensors_in
from taiyi_fx.recorder.replay.alone import alone
from taiyi_fx.recorder.replay.calls import Call, bad_arguments
from taiyi_fx.recorder.replay.checkpoint import Checkpoint, capture
from taiyi_fx.recorder.replay.factor import common_factor, exact_factor
from taiyi_fx.recorder.replay.facts import has_nan, has_non_finite
from taiyi_fx.recorder.replay.function_rerun import FunctionRerun, Unread
from taiyi_fx.recorder.replay.kept_step import KeptStep
from taiyi_fx.recorder.replay.memory import CheckpointMemory
from taiyi_fx.recorder.replay.ran import Ran, run_replayed
from taiyi_fx.recorder.replay.result import REACHED
from taiyi_fx.recorder.replay.stage import (
    copied_arguments,
    eager,
    optimizer_on,
    staged,
    surroundings,
)
from taiyi_fx.recorder.replay.watched import OperationWatch, Origin
from taiyi_fx.snapshot.bitwise import difference

Forward = Callable[[tuple[Any, ...], dict[str, Any]], Any]
"""Calls the model with arguments by position and by name."""


@dataclass(frozen=True)
class Ways:
    """The ways to call a model whose steps are run again.

    Attributes:
        eager: Runs its operations one by one.
        compiled: Runs its compiled code, where that ran then and nothing is watched; None if it
            cannot.
        unread: Has the model be called without readings, a witness being told; None runs the calls
            of the model alone, and not the user's functions.
    """

    eager: Forward
    compiled: Forward | None = None
    unread: Unread | None = None


def run_again(
    model: nn.Module,
    ways: Ways,
    optimizers: Sequence[Optimizer],
    steps: Sequence[KeptStep],
    *,
    is_watched: bool = True,
    takes_sizes: bool = False,
    watched_from: int = 0,
) -> list[Ran]:
    """Runs kept steps again, the first from its checkpoint, up to one that goes wrong.

    Args:
        model: The model, which is as it was afterwards.
        ways: The ways to call it.
        optimizers: The optimizers that trained it.
        steps: The steps; the first has a checkpoint.
        is_watched: Watch each operation; otherwise compiled code runs as it did.
        takes_sizes: Keep the sizes of all numbers.
        watched_from: The first step that is watched; compiled code runs as it did in those before.

    Raises:
        StepFunctionFailed: A function of the user's raised an error, and brought no such numbers.
        MeetsOthers: The model waits for other ranks.
    """
    own = [*parameters_of(model)]
    checkpoint = steps[0].checkpoint
    if checkpoint is None:
        raise ValueError(f"nothing is kept of the state that step {steps[0].step} began from")
    with staged(model, checkpoint) as tensors:
        names = {id(vars(m)): name for name, m in named_modules(model)}

        def watch(step: int) -> OperationWatch:
            is_on = is_watched and step >= watched_from
            return OperationWatch(names, is_on=is_on, takes_sizes=takes_sizes)

        unread = ways.unread
        functions = None if unread is None else FunctionRerun(model, own, tensors, unread)
        rerun = _Rerun(model, ways, optimizers, tensors, watch, functions)
        return [*rerun.steps(steps)]


class _Rerun:
    def __init__(
        self,
        model: nn.Module,
        ways: Ways,
        optimizers: Sequence[Optimizer],
        tensors: Mapping[str, Tensor],
        watch: Callable[[int], OperationWatch],
        functions: FunctionRerun | None,
    ) -> None:
        self._modules, self._watch = dict(named_modules(model)), watch
        self._ways, self._functions = ways, functions
        self._tensors = tensors
        self._parameters = {n: x for n, x in tensors.items() if isinstance(x, nn.Parameter)}
        self._models, self._optimizers = [*optimizers], []

    def steps(self, steps: Sequence[KeptStep]) -> Iterator[Ran]:
        """Runs steps one after another, until one goes wrong.

        Those are left out that nothing leads to: neither a state, nor an optimizer's step, whose
        gradients this rank made alone.
        """
        ran: Ran | None = None
        for kept in steps:
            if kept.checkpoint is not None:
                if ran is not None:
                    ran.differences += self._differences(kept, kept.checkpoint)
                self._load(kept.checkpoint)
            elif not self._optimizers or kept.ranks > 1:
                continue
            if ran is not None:
                ran.began = None  # one of them takes memory enough
            ran = Ran(kept.step, began=kept.checkpoint or self._state(kept.step))
            self._run(kept, ran)
            if ran.origin is not None and self._is_new(kept):
                ran.differences.append(
                    "gradients are not finite, and were as the step was tracked: it depends on "
                    "something that is not kept, such as a variable of the script, or gradients "
                    "were mended in between"
                )
            yield ran
            if ran.origin is not None:
                return

    def _state(self, step: int) -> Checkpoint:
        return capture(step, self._modules[""], self._optimizers, None, CheckpointMemory().allocate)

    def _is_new(self, kept: KeptStep) -> bool:
        """True if a step that was run again has a gradient that is not finite, unlike then."""
        if kept.flags is None or not kept.flags[1].is_known_to_be_finite:
            return False
        gradients = (p.grad for p in self._parameters.values())
        return any(has_non_finite(g) for g in gradients if g is not None)

    def _load(self, checkpoint: Checkpoint) -> None:
        with torch.no_grad():
            for name, x in self._tensors.items():
                x.copy_(checkpoint.tensors[f"model.{name}"])
        pairs = zip(self._models, checkpoint.optimizers, strict=False)
        self._optimizers = [
            optimizer_on(o, state, checkpoint.tensors, self._parameters) for o, state in pairs
        ]

    def _differences(self, kept: KeptStep, after: Checkpoint) -> list[str]:
        """The difference from the state that the training reached, if an optimizer was run."""
        if not self._optimizers or kept.ranks > 1:
            return []
        for name, x in self._tensors.items():
            if difference(x.detach().cpu(), after.tensors[f"model.{name}"]):
                return [f"{name} has other bits after the step than it had then"]
        return []

    def _run(self, kept: KeptStep, ran: Ran) -> None:
        watch = self._watch(kept.step)
        ran.sizes = watch.sizes
        with eager() if watch.is_on else nullcontext():
            self._run_watched(kept, watch, ran)

    def _run_watched(self, kept: KeptStep, watch: OperationWatch, ran: Ran) -> None:
        self._begin(kept, watch)
        if self._functions is not None and kept.is_of_functions:
            ran.is_one_by_one = watch.is_on and any(call.is_compiled for call in kept.calls)
            self._functions.run(kept, watch, ran)
        else:
            self._run_calls(kept, watch, ran)
        if ran.origin is None and ran.is_complete:
            self._end(kept, watch, ran)

    def _run_calls(self, kept: KeptStep, watch: OperationWatch, ran: Ran) -> None:
        """Runs the calls of the model, and backward from the gradients that reached them."""
        for call in kept.calls:
            if not call.is_complete:
                ran.notes.append("a call of the model raised an error then")
                ran.is_complete = False
                return
            run_replayed(lambda call=call: self._call(call, watch, ran))
            if ran.origin is not None:
                return

    def _end(self, kept: KeptStep, watch: OperationWatch, ran: Ran) -> None:
        """Looks at the gradients, and runs the steps of optimizers."""
        ran.gradients = {name: p.grad for name, p in self._parameters.items()}
        ran.origin = watch.origin_of(ran.gradients.values())
        if ran.origin is None and kept.ranks > 1:
            ran.notes.append(
                "nothing went wrong in this rank's own part: look at the replays of the others"
            )
        elif ran.origin is None and kept.norms:
            run_replayed(lambda: self._optimize(kept, watch, ran))

    def _begin(self, kept: KeptStep, watch: OperationWatch) -> None:
        """Brings the modules' values, and gradients, to where the step began."""
        for name, x in self._tensors.items():
            if has_nan(x) or (name in self._parameters and has_non_finite(x)):
                watch.blame(name, x, "forward")
        for name, values in kept.values.items():
            if name in self._modules:  # a mended model may have others
                vars(self._modules[name]).update(values)
        for p in self._parameters.values():
            p.grad = torch.zeros_like(p) if kept.had_gradients and p.requires_grad else None

    def _call(self, call: Call, watch: OperationWatch, ran: Ran) -> None:
        """Runs a call's forward and, if that goes well, its backward."""
        with torch.no_grad():
            for name, x in call.buffers.items():
                self._tensors[name].copy_(x)
        args, kwargs = copied_arguments(call)
        for name, x in bad_arguments(args, kwargs):
            watch.blame(f"{name} of the model", x, "forward")
        compiled = self._ways.compiled if call.is_compiled and not watch.is_on else None
        ran.is_one_by_one |= call.is_compiled and compiled is None
        forward = compiled or self._ways.eager
        # Where such a mode is on, torch leaves compiled code aside. It runs in audits alone, which
        # all ranks make at one time.
        with surroundings(call), nullcontext() if compiled else alone():
            with watch.watching():
                value = forward(args, kwargs)
            outputs = [*tensors_in(value)]
            ran.compare(call, value)
            buffers = [x for name, x in self._tensors.items() if name not in self._parameters]
            found = watch.origin_of([*outputs, *buffers])
            ran.origin = None if found is None or found.is_meant else found
            if ran.origin is None:
                _backward(outputs, call, watch, ran)

    def _optimize(self, kept: KeptStep, watch: OperationWatch, ran: Ran) -> None:
        """Runs the steps of the optimizers that made one."""
        self._name_owners(watch)
        for i, optimizer in enumerate(self._optimizers):
            if i in kept.norms:
                _set(optimizer, kept.settings[i])
                self._scale(optimizer, kept.norms[i], ran)
                with watch.watching():
                    optimizer.step()
        moments = tensors_in([[*o.state.values()] for o in self._optimizers])
        ran.origin = watch.origin_of([*self._parameters.values(), *moments])
        if ran.origin is not None and not ran.origin.place.module:
            ran.origin = self._with_module(ran.origin, watch)

    def _with_module(self, origin: Origin, watch: OperationWatch) -> Origin:
        """The origin, in the module of the first parameter that it reached."""
        reached = (n for n, p in self._parameters.items() if watch.origin_of([p]) is origin)
        module = next(reached, "").rpartition(".")[0]
        return replace(origin, place=replace(origin.place, module=module))

    def _name_owners(self, watch: OperationWatch) -> None:
        for name, p in self._parameters.items():
            moments = tensors_in([o.state.get(p, {}) for o in self._optimizers])
            watch.own(name.rpartition(".")[0], [p, p.grad, *moments])

    def _scale(self, optimizer: Optimizer, then: Sequence[Tensor | None], ran: Ran) -> None:
        """Multiplies gradients as the training did between backward and an optimizer's step."""
        own = [p for group in optimizer.param_groups for p in group["params"]]
        factor = common_factor([p.grad for p in own], then)
        if factor is None:
            ran.differences.append(
                "the optimizer was given other gradients then: a change of them after backward, "
                "other than by one factor, is not made here"
            )
        elif factor != 1:
            ran.factor = exact_factor([p.grad for p in own], then, factor)
            for p in own:
                if p.grad is not None:
                    p.grad.mul_(ran.factor)


def _set(optimizer: Optimizer, settings: Sequence[Mapping[str, Any]]) -> None:
    for group, then in zip(optimizer.param_groups, settings, strict=False):
        for name, value in then.items():
            if isinstance(value, Tensor):
                group[name].copy_(value)
            else:
                group[name] = value


def _backward(outputs: Sequence[Tensor], call: Call, watch: OperationWatch, ran: Ran) -> None:
    reached = [i for i in call.gradients if outputs[i].grad_fn is not None]
    gradients = [call.gradients[i].detach().clone() for i in reached]
    for i, gradient in zip(reached, gradients, strict=True):
        if has_non_finite(gradient):
            if ran.differences:
                ran.notes.append(
                    "the gradients that reached the outputs then are not finite, and those are "
                    "other outputs: backward was not run"
                )
                return
            watch.blame(f"{REACHED} {i} of the model", gradient, "backward")
    with watch.watching():
        torch.autograd.backward([outputs[i] for i in reached], gradients)
