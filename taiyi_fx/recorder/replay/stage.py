"""The stage for a replay: the model with other parameters, all put back as it was afterwards."""

from __future__ import annotations

import copy
import sys
from collections import OrderedDict, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import Parameter
from torch.optim import Optimizer

from taiyi_fx.passes.module_tree import modules_of, named_buffers, named_parameters
from taiyi_fx.passes.runtime.random_state import random_state, restore_random_state
from taiyi_fx.passes.structure import tensors_in
from taiyi_fx.recorder.replay.calls import Call
from taiyi_fx.recorder.replay.checkpoint import Checkpoint, Key, OptimizerState
from taiyi_fx.recorder.replay.iterators import CannotRepeat, check_repeatable
from taiyi_fx.recorder.replay.step_function import StepCall
from taiyi_fx.snapshot.state import State


# A replay never touches the training's tensors. The modules are given other parameters and buffers,
# made of the checkpoint, for as long as it lasts: so no hook of a parallel wrapper fires on them,
# which would wait for other ranks, and gradients of the training stay as they are. What forwards
# change beside, a counter or a cache, is restored from a snapshot; random generators are as well.
@contextmanager
def staged(model: nn.Module, checkpoint: Checkpoint) -> Iterator[dict[str, Tensor]]:
    """In the body, a model has the parameters and buffers of a checkpoint.

    Yields:
        The parameters and buffers that it has for now, by name.
    """
    state, random = State(model), random_state()
    try:
        with torch.enable_grad():
            yield _put(model, checkpoint)
    finally:
        state.restore()
        restore_random_state(random)


def eager() -> AbstractContextManager[Any]:
    """In the body, nothing that torch.compile made runs."""
    if "torch._dynamo" not in sys.modules:  # nothing was compiled
        return nullcontext()
    return torch.compiler.set_stance("force_eager")


@contextmanager
def surroundings(call: Call | StepCall) -> Iterator[None]:
    """In the body, random generators and autocast are as they were when a call began."""
    restore_random_state(call.random)
    with ExitStack() as stack:
        for kind, (is_on, dtype) in call.autocast.items():
            stack.enter_context(torch.autocast(kind, dtype=dtype, enabled=is_on))
        yield


def copied_arguments(call: Call) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Copies of a call's arguments, apart from any graph; equal tensors are one again.

    Raises:
        CannotRepeat: One is an iterator, or of a class that has no copies.
    """
    check_repeatable(call.args, call.kwargs, "the model")
    copies: dict[int, Any] = {}
    for x in tensors_in((call.args, call.kwargs)):
        if id(x) not in copies:
            copies[id(x)] = x.detach().clone().requires_grad_(x.requires_grad)
    try:
        return copy.deepcopy((call.args, dict(call.kwargs)), copies)
    except Exception as error:
        raise CannotRepeat(f"an argument of the model has no copy: {error}") from error


def _put(model: nn.Module, checkpoint: Checkpoint) -> dict[str, Tensor]:
    made: dict[int, Tensor] = {}
    for name, x in (*named_parameters(model), *named_buffers(model)):
        made[id(x)] = _remade(x, checkpoint.tensors[f"model.{name}"])
    found = {n: made[id(x)] for n, x in (*named_parameters(model), *named_buffers(model))}
    for module in modules_of(model):
        for kind in (module._parameters, module._buffers):
            for key, x in [*kind.items()]:
                if x is not None:
                    setattr(module, key, made[id(x)])  # recurrent modules keep a list beside
    return found


def _remade(x: Tensor, saved: Tensor) -> Tensor:
    """A tensor of a checkpoint in place of one of the model."""
    own = torch.empty_like(x.detach()).copy_(saved)
    if not isinstance(x, Parameter):
        return own
    made = Parameter(own, requires_grad=x.requires_grad)
    vars(made).update(vars(x))
    for hook in (x._backward_hooks or {}).values():
        made.register_hook(hook)
    return made


def optimizer_on(
    optimizer: Optimizer,
    state: OptimizerState,
    tensors: Mapping[str, Tensor],
    parameters: Mapping[str, Tensor],
) -> Optimizer:
    """Another optimizer of the same class, with a checkpoint's state, of other parameters.

    Args:
        optimizer: The training's.
        state: Its state in the checkpoint.
        tensors: The checkpoint's tensors.
        parameters: The parameters that the other one updates.
    """
    made: Any = object.__new__(type(optimizer))
    own = {**vars(optimizer), **_without_hooks(optimizer)}
    memo: dict[int, Any] = {id(p): p for g in optimizer.param_groups for p in g["params"]}
    kept = {k: v for k, v in own.items() if k not in ("state", "param_groups", "step")}
    vars(made).update(copy.deepcopy(kept, memo))
    made.param_groups, made.state = _groups(state, tensors, parameters), defaultdict(dict)
    for name, entries in state.states.items():
        loaded = {key: _loaded(value, tensors) for key, value in entries.items()}
        made.state[parameters[name]] = loaded
    return made


def _without_hooks(optimizer: Optimizer) -> dict[str, Any]:
    return {name: OrderedDict() for name in vars(optimizer) if name.endswith("_hooks")}


def _groups(
    state: OptimizerState, tensors: Mapping[str, Tensor], parameters: Mapping[str, Tensor]
) -> list[dict[str, Any]]:
    return [
        {
            **{k: _loaded(v, tensors) for k, v in group.items() if k != "params"},
            "params": [parameters[n] for n in group["params"] if n is not None],
        }
        for group in state.groups
    ]


def _loaded(value: Any, tensors: Mapping[str, Tensor]) -> Any:
    """A copy of a value of a checkpoint, on the device that it was on."""
    if not isinstance(value, Key):
        return copy.deepcopy(value)
    return torch.empty_like(tensors[value.name], device=value.device).copy_(tensors[value.name])
