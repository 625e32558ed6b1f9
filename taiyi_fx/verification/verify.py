"""Proving on a model and a batch of the user's own that monitoring changes nothing."""

from __future__ import annotations

from typing import Any

from torch import nn

from taiyi_fx.config.check import check
from taiyi_fx.config.edits import Edit
from taiyi_fx.config.merged import Cfg
from taiyi_fx.config.subscriptions import Config
from taiyi_fx.instrument import InstrumentedModule
from taiyi_fx.passes.runtime.random_state import random_state, restore_random_state
from taiyi_fx.snapshot.state import State
from taiyi_fx.verification.batch import Batch, Loss
from taiyi_fx.verification.phases import Subject, Task
from taiyi_fx.verification.result import Verification
from taiyi_fx.verification.side_by_side import compare


def verify(
    model: nn.Module,
    cfg: Cfg,
    /,
    *args: Any,  # the model's own arguments
    loss: Loss | None = None,
    steps: int = 2,
    **kwargs: Any,
) -> Verification:
    """Runs a model plain and instrumented, and reports all that differs.

    Both train for some steps on copies of one batch (forward, a loss, backward), from one random
    state, and are evaluated on it. The instrumented model does so twice: with all quantities due
    at each step, and with none. Compared are, bit for bit: outputs, the loss, gradients of
    parameters and of what in the batch asks for one, what a forward does to the batch, buffers,
    parameters, random states, and attributes of modules. Then the model and all generators are put
    back to where they were, whatever happened: tensors in place, gradients, training flags, hooks,
    and attributes as far as lists, dictionaries, sets and objects of Python classes go.

    A model in evaluation is trained by its ``train()``; one in training as its flags stand. The
    model is not to be instrumented or wrapped yet; the schedules of ``cfg`` do not matter here.

    Args:
        model: The model.
        cfg: The configuration, as for `instrument`, without edits.
        *args: What the model is called with.
        loss: Takes the model's output and returns the scalar to go backward from. By default that
            is the output's attribute ``loss`` if it is a scalar, or else the sum of all its
            elements, each times a fixed number. An argument of the model's own with this name, or
            ``steps``, has to go by position.
        steps: The number of training steps.
        **kwargs: What the model is called with by name; ``model`` and ``cfg`` may be among them.

    Raises:
        ConfigError: The configuration is wrong; everything that is, is listed.
        TypeError: The model cannot be instrumented, the batch cannot be copied, or
            ``loss`` is no function that returns a scalar.
        ValueError: There are edits in the configuration, weights that have no shape or no memory
            yet, or no step.
        Exception: Any that the plain model raises.
    """
    config = _checked(model, cfg, loss, steps)
    state, task = State(model), Task(Batch(args, kwargs), loss, steps, random_state())
    try:
        return compare(Subject(model, state), cfg, config, task)
    finally:
        state.restore()
        restore_random_state(task.random)


def _checked(model: Any, cfg: Cfg, loss: Any, steps: Any) -> Config:
    if not isinstance(model, nn.Module):
        raise TypeError(f"verify takes a torch.nn.Module, not a {type(model).__name__}")
    if isinstance(model, InstrumentedModule):
        raise TypeError("the model is instrumented already; verify takes the model it came from")
    if loss is not None and not callable(loss):
        raise TypeError(
            f"loss is a function of the model's output, not a {type(loss).__name__}; an argument "
            "of the model's own that is called loss has to go by position"
        )
    if type(steps) is not int or steps < 1:
        raise ValueError(f"steps is a whole number of at least 1, not {steps!r}")
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        if nn.parameter.is_lazy(tensor):
            raise ValueError(f"{name!r} has no shape yet: run the model once before")
        if tensor.is_meta:
            raise ValueError(f"{name!r} is on the meta device, where nothing can be run")
    config = check(model, cfg)
    asked = [request for of in config.of_functions for _, request in of.requests]
    if config.edits or any(isinstance(request, Edit) for request in asked):
        raise ValueError(
            "the configuration edits the model, which changes what it computes: verify it without"
        )
    return config
