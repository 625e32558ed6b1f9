"""Trials drawn for a quantity: what it reads decides what is put through, and for how long."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from hypothesis import strategies as st

from taiyi_fx.quantities.declare import Quantity
from taiyi_fx.quantities.source import NotApplicable
from taiyi_fx.testing.module import ModuleRecipe, likes
from taiyi_fx.testing.steps import one_step
from taiyi_fx.testing.tensor import TensorRecipe
from taiyi_fx.testing.trial import Trial, TrialStep, first_tensor

Options = Mapping[str, Any] | st.SearchStrategy[Mapping[str, Any]] | None


@dataclass(frozen=True)
class _Needs:
    """The parts of a trial that a quantity needs."""

    backward: bool
    parameters: bool
    parameter_gradients: bool
    steps: int

    @staticmethod
    def of(quantity: Quantity) -> _Needs:
        sources = quantity.sources.values()
        ports = {source.port for source in sources}
        spans = quantity.window or any(source.ago for source in sources)
        return _Needs(
            backward=bool(ports & {"input_grad", "output_grad", "pair", "parameter_grad"}),
            parameters=bool(ports & {"parameter", "parameter_grad"}),
            parameter_gradients="parameter_grad" in ports,
            steps=4 if spans else 2,
        )


def trials(
    quantity: Quantity,
    tensors: st.SearchStrategy[TensorRecipe],
    modules: st.SearchStrategy[ModuleRecipe] | None,
    options: Options,
    max_steps: int | None = None,
) -> st.SearchStrategy[Trial]:
    """Draws trials of a quantity.

    Args:
        quantity: The quantity to check.
        tensors: Inputs and gradients; where a module fixes their shape, only what they are like.
        modules: Modules to put them through; by default those of the kit that any tensor fits.
        options: The quantity's options, or a strategy of them.
        max_steps: How many steps at most.
    """
    needs = _Needs.of(quantity)
    steps = needs.steps if max_steps is None else min(needs.steps, max_steps)
    drawn = options if isinstance(options, st.SearchStrategy) else st.just(dict(options or {}))
    return _trials(quantity, dataclasses.replace(needs, steps=steps), tensors, modules, drawn)


@st.composite
def _trials(
    draw: st.DrawFn,
    quantity: Quantity,
    needs: _Needs,
    tensors: st.SearchStrategy[TensorRecipe],
    modules: st.SearchStrategy[ModuleRecipe] | None,
    options: st.SearchStrategy[Mapping[str, Any]],
) -> Trial:
    chosen = draw(options)
    x = draw(tensors)
    if modules is None:
        layer = draw(st.sampled_from(_holders(quantity, chosen, x)))
        layer = _with_parameters(draw, layer, tensors) if needs.parameters else layer
    else:
        layer = draw(modules)
    layer = layer if layer.device == x.device else dataclasses.replace(layer, device=x.device)
    count = draw(st.integers(1, needs.steps))
    steps = []
    for i in range(count):
        rows = x.shape[0] if i == 0 or not draw(st.booleans()) else draw(tensors).shape[0]
        values = x if i == 0 else dataclasses.replace(draw(tensors), dtype=x.dtype)
        steps.append(_step(draw, layer, needs, tensors, values, rows, (i, count), modules is None))
    return Trial(layer, tuple(steps), chosen, overwrites=draw(st.booleans()))


def _holders(
    quantity: Quantity, options: Mapping[str, Any], x: TensorRecipe
) -> tuple[ModuleRecipe, ...]:
    """Modules of the kit that can have the quantity."""
    found = []
    for recipe in likes(x, min(max(x.scale, 1e-15), 1e15)):
        try:
            quantity.for_each(recipe.make(), options)
            found.append(recipe)
        except NotApplicable:
            continue
    if not found:
        raise TypeError(
            f"{quantity.name} is not available at any module of the kit: give modules=, such as "
            "modules(nn.Embedding)"
        )
    return tuple(found)


def _with_parameters(
    draw: st.DrawFn,
    layer: ModuleRecipe,
    tensors: st.SearchStrategy[TensorRecipe],
) -> ModuleRecipe:
    weight = draw(tensors)
    options = {"weight": _dense(weight)}
    if draw(st.booleans()):
        options["bias"] = _dense(draw(tensors), shape=weight.shape[:1])
    return dataclasses.replace(layer, options={**layer.options, **options})


def _dense(recipe: TensorRecipe, **changes: Any) -> TensorRecipe:
    """The same for a parameter, whose memory has to be its own."""
    layout = "contiguous" if recipe.layout == "expanded" else recipe.layout
    return dataclasses.replace(recipe, layout=layout, **changes)


def _step(
    draw: st.DrawFn,
    layer: ModuleRecipe,
    needs: _Needs,
    tensors: st.SearchStrategy[TensorRecipe],
    values: TensorRecipe,
    rows: int,
    place: tuple[int, int],
    is_like: bool,
) -> TrialStep:
    i, count = place
    x = _fitting(layer, values, rows, is_like)
    made = draw(one_step(rows, is_last=i == count - 1, is_scaled=needs.backward))
    g = None
    if needs.backward:
        like = draw(tensors)
        shape, dtype = _output(layer, x, is_like)
        g = dataclasses.replace(like, shape=shape, dtype=dtype, device=x.device)
    return TrialStep(made, x, g, *_of_parameters(draw, layer, needs, tensors, i, is_like))


def _fitting(layer: ModuleRecipe, values: TensorRecipe, rows: int, is_like: bool) -> TensorRecipe:
    if is_like:
        return dataclasses.replace(values, shape=(rows, *layer.shape))
    how = {k: getattr(values, k) for k in ("kind", "seed", "scale", "layout")}
    return layer.input(rows, **how)


def _output(
    layer: ModuleRecipe, x: TensorRecipe, is_like: bool
) -> tuple[tuple[int, ...], torch.dtype]:
    if is_like:
        return x.shape, x.dtype
    with torch.no_grad():
        y = first_tensor(layer.make().eval()(x.make()))
    return tuple(y.shape), y.dtype


def _of_parameters(
    draw: st.DrawFn,
    layer: ModuleRecipe,
    needs: _Needs,
    tensors: st.SearchStrategy[TensorRecipe],
    i: int,
    is_like: bool,
) -> tuple[dict[str, TensorRecipe], dict[str, TensorRecipe]]:
    """New values of the parameters behind the first step, and gradients where none will come."""
    if not needs.parameters:
        return {}, {}
    values, gradients = {}, {}
    for name, parameter in layer.make().named_parameters():
        shape, dtype = tuple(parameter.shape), parameter.dtype
        if i:
            values[name] = _dense(draw(tensors), shape=shape, dtype=dtype)
        if is_like and needs.parameter_gradients and not draw(st.booleans()):
            gradients[name] = _dense(draw(tensors), shape=shape, dtype=dtype)
    return values, gradients
