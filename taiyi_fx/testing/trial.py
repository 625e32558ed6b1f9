"""Trials: examples for a quantity, run once plain and once with the monitor."""

from __future__ import annotations

import copy
import dataclasses
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

import taiyi_fx
from taiyi_fx.quantities.declare import Quantity
from taiyi_fx.records.record import Value
from taiyi_fx.testing.module import ModuleRecipe
from taiyi_fx.testing.seen import Seen
from taiyi_fx.testing.steps import Step
from taiyi_fx.testing.tensor import TensorRecipe, overwrite

Recorded = Mapping[str, Value]
"""The values of a step, by suffix; ``""`` is the quantity itself."""
Forward = Callable[..., Any]


@dataclass(frozen=True)
class TrialStep:
    """The tensors put through a module in one step.

    Attributes:
        step: Its micro-batches, schedule and scale.
        x: The input, all micro-batches together.
        g: The gradient that reaches the output, or None for no backward.
        parameters: New values of parameters, by name.
        gradients: Gradients of parameters to set, by name.
    """

    step: Step
    x: TensorRecipe
    g: TensorRecipe | None = None
    parameters: Mapping[str, TensorRecipe] = field(default_factory=dict)
    gradients: Mapping[str, TensorRecipe] = field(default_factory=dict)


@dataclass(frozen=True)
class Trial:
    """One example that a quantity is tried on.

    Attributes:
        layer: The module.
        steps: The steps that it runs.
        options: The quantity's options.
        overwrites: True if the memory of inputs, outputs and gradients is overwritten before
            ``track``, as a loader that uses its memory again does.
    """

    layer: ModuleRecipe
    steps: tuple[TrialStep, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    overwrites: bool = False

    @property
    def due(self) -> tuple[int, ...]:
        """The steps at which the quantity is due."""
        return tuple(i for i, s in enumerate(self.steps) if s.step.is_due)

    @property
    def schedule(self) -> str:
        """A schedule that is due at these steps."""
        every = len(self.due) == len(self.steps)
        return "every(1)" if every else f"at_steps({', '.join(map(str, self.due))})"

    def alone(self, step: int) -> Trial:
        """The same trial with one of its steps only."""
        chosen = self.steps[step]
        due = dataclasses.replace(chosen, step=dataclasses.replace(chosen.step, is_due=True))
        return dataclasses.replace(self, steps=(due,))

    def whole(self) -> Trial:
        """The same trial without micro-batches."""
        steps = (
            dataclasses.replace(s, step=dataclasses.replace(s.step, sizes=(s.step.rows,)))
            for s in self.steps
        )
        return dataclasses.replace(self, steps=tuple(steps))


def see(trial: Trial) -> dict[int, Seen]:
    """The input of a reference at each step that is due, captured on a plain model."""
    plain = nn.Sequential(trial.layer.make())
    seen: dict[int, Seen] = {}
    window: list[Seen] = []
    parts: list[_Part] = []
    before = None

    def after_step(i: int, step: TrialStep) -> None:
        nonlocal before
        now = _joined(parts, plain[0], trial.options, i, step.step.grad_scale)
        parts.clear()
        window.append(now)
        if step.step.is_due:
            now = dataclasses.replace(now, before=before, window=tuple(window))
            before = seen[i] = now
            window.clear()

    train(plain, plain, trial, after_batch=parts.append, after_step=after_step)
    return seen


def record(
    quantity: Quantity, trial: Trial, *, wrap: Callable[[nn.Module], Forward] | None = None
) -> dict[int, Recorded]:
    """The values that the monitor records of a quantity at each step that is due.

    Args:
        quantity: The quantity.
        trial: The module and its steps.
        wrap: Makes the function to call of the instrumented model, such as ``torch.compile``.
    """
    entry = [quantity, trial.schedule, dict(trial.options)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", taiyi_fx.MonitorWarning)
        model = taiyi_fx.instrument(nn.Sequential(trial.layer.make()), {"0": [entry]}, strict=True)
        run = wrap(model) if wrap else model

        def after_step(i: int, step: TrialStep) -> None:
            scale = step.step.grad_scale
            model.monitor.track(i, grad_scale=None if scale == 1.0 else scale)

        train(model, run, trial, after_step=after_step)
    return recorded(model.monitor.records, quantity.name, trial.due)


def recorded(records: taiyi_fx.Records, name: str, steps: tuple[int, ...]) -> dict[int, Recorded]:
    """The values of one quantity by step and suffix."""
    found: dict[int, dict[str, Value]] = {step: {} for step in steps}
    for entry in records:
        suffix = entry.quantity.removeprefix(name)
        is_ours = entry.quantity.startswith(name) and suffix[:1] in ("", ".")
        if is_ours and entry.step in found:
            found[entry.step][suffix[1:]] = entry.value
    return {**found}


@dataclass(frozen=True)
class _Part:
    """One micro-batch as it went through, in float64."""

    x: Tensor
    y: Tensor
    g_x: Tensor | None
    g_y: Tensor | None
    dtypes: Mapping[str, torch.dtype]


def train(
    model: nn.Module,
    run: Forward,
    trial: Trial,
    *,
    after_step: Callable[[int, TrialStep], None],
    after_batch: Callable[[_Part], None] | None = None,
) -> None:
    """Puts a trial through a model, whose first part is the module that is tried.

    Args:
        model: The model, plain or instrumented.
        run: The function to call: the model, or its compiled form.
        trial: The module and its steps.
        after_step: Called where ``track`` belongs.
        after_batch: Called with the tensors of each micro-batch.
    """
    for i, step in enumerate(trial.steps):
        model.zero_grad()
        _set_parameters(model, step)
        x, g = step.x.make(), None if step.g is None else step.g.make()
        if step.step.aside:
            _forward_aside(model, run, x, step.step)
        for batch, gradient in _micro_batches(x, g, step.step):
            leaf = batch.detach()
            if g is not None and leaf.is_floating_point():
                leaf.requires_grad_()
            given = leaf.detach().clone() if after_batch else leaf
            # What changes its input in place may not be given a leaf.
            y = run(leaf * 1 if trial.layer.is_in_place and leaf.requires_grad else leaf)
            if gradient is not None:
                first_tensor(y).backward(gradient)
            if after_batch:
                after_batch(_part(given, first_tensor(y), leaf.grad, gradient))
            if trial.overwrites:
                overwrite(first_tensor(y))
        if trial.overwrites:
            for tensor in (x,) if g is None else (x, g):
                overwrite(tensor)
        _set_gradients(model, step)
        after_step(i, step)


def _micro_batches(
    x: Tensor, g: Tensor | None, step: Step
) -> Iterator[tuple[Tensor, Tensor | None]]:
    batches = x.split(step.sizes)
    if g is None:
        yield from ((batch, None) for batch in batches)
        return
    for batch, gradient in zip(batches, g.split(step.sizes), strict=True):
        yield batch, gradient if step.grad_scale == 1.0 else gradient * step.grad_scale


def _forward_aside(model: nn.Module, run: Forward, x: Tensor, step: Step) -> None:
    if step.aside == "eval":
        model.eval()
        run(x.clone())
        model.train()
    else:
        with torch.no_grad():
            run(x.clone())


def _set_parameters(model: nn.Module, step: TrialStep) -> None:
    named = dict(model.get_submodule("0").named_parameters())
    with torch.no_grad():
        for name, recipe in step.parameters.items():
            named[name].copy_(recipe.make())


def _set_gradients(model: nn.Module, step: TrialStep) -> None:
    named = dict(model.get_submodule("0").named_parameters())
    for name, recipe in step.gradients.items():
        named[name].grad = recipe.make()


def first_tensor(value: Any) -> Tensor:
    """The first tensor in what a module returned."""
    if isinstance(value, Tensor):
        return value
    parts = value.values() if isinstance(value, Mapping) else value
    return first_tensor(next(iter(parts)))


def _part(x: Tensor, y: Tensor, g_x: Tensor | None, g_y: Tensor | None) -> _Part:
    tensors = {"x": x, "y": y, "g_x": g_x, "g_y": g_y}
    dtypes = {name: t.dtype for name, t in tensors.items() if t is not None}
    double = {name: None if t is None else _double(t) for name, t in tensors.items()}
    assert double["x"] is not None
    assert double["y"] is not None
    return _Part(double["x"], double["y"], double["g_x"], double["g_y"], dtypes)


def _double(x: Tensor) -> Tensor:
    x = x.detach()
    return (x.abs() if x.is_complex() else x).to("cpu", torch.float64, copy=True)


def _joined(
    parts: list[_Part], module: nn.Module, options: Mapping[str, Any], step: int, scale: float
) -> Seen:
    named = dict(module.named_parameters())
    gradients = {k: _double(p.grad) / scale for k, p in named.items() if p.grad is not None}
    return Seen(
        x=_cat([part.x for part in parts]),
        y=_cat([part.y for part in parts]),
        g_x=_gradient([part.g_x for part in parts], scale),
        g_y=_gradient([part.g_y for part in parts], scale),
        module=_on_host(module),
        options=options,
        parameters={k: _double(p) for k, p in named.items()},
        gradients=gradients,
        buffers={k: _double(b) for k, b in module.named_buffers()},
        dtypes={**parts[0].dtypes, **{k: p.dtype for k, p in named.items()}},
        grad_scale=scale,
        step=step,
        sizes=tuple(len(part.x) for part in parts if part.x.ndim),
    )


def _on_host(module: nn.Module) -> nn.Module:
    tensors = (*module.parameters(), *module.buffers())
    return module if all(t.is_cpu for t in tensors) else copy.deepcopy(module).cpu()


def _gradient(parts: list[Tensor | None], scale: float) -> Tensor | None:
    there = [part for part in parts if part is not None]
    return _cat(there) / scale if there else None


def _cat(parts: list[Tensor]) -> Tensor:
    return torch.stack(parts) if parts[0].ndim == 0 else torch.cat(parts)
