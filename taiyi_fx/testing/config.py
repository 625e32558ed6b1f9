"""Configurations as a strategy: any valid one of a model, over the declared quantities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import strategies as st
from torch import nn

import taiyi_fx.quantities.stock  # noqa: F401 - declares them
from taiyi_fx.config.match import match
from taiyi_fx.quantities.declare import Quantity, find_quantity, quantity_names
from taiyi_fx.quantities.source import NotApplicable

_SCHEDULES = (
    "linear(0, 0)",
    "every(1)",
    "every(2)",
    "linear(2, 1)",
    "adaptive(3, 1)",
    "at_steps(0, 1)",
)
_OPTIONS: dict[str, tuple[Any, ...]] = {
    "centered": (True, False),
    "eps": (0.0, 0.5),
    "feature_axis": (-1, "auto"),
    "max_elements": (1, 100),
    "normalize": (True, False),
    "p": (0.0, 0.3),
    "reduce": ("all", "feature"),
    "threshold": (-0.5, 0.5),
    "variant": ("norm", "paper"),
}


def is_leaf(name: str, module: nn.Module) -> bool:
    """True if a module has no submodules: a predicate for a configuration's key."""
    return next(module.children(), None) is None


@st.composite
def configs(
    draw: st.DrawFn, model: nn.Module, *, quantities: Sequence[str] | None = None
) -> dict[Any, list[Any]]:
    """Draws valid configurations of a model.

    Keys are names, names of classes, classes, patterns and a predicate; entries have schedules
    and options, or not.

    Args:
        draw: Hypothesis's own.
        model: The model.
        quantities: The names to draw from; by default those of all declared quantities.

    Raises:
        LookupError: No quantity has one of the names.
    """
    names = quantity_names() if quantities is None else quantities
    found = {name: find_quantity(name) for name in names}
    unknown = [name for name, quantity in found.items() if quantity is None]
    if unknown:
        raise LookupError(f"no quantity is named {', '.join(map(repr, unknown))}")
    declared = [quantity for quantity in found.values() if quantity is not None]
    keys = draw(st.lists(st.sampled_from(_keys(model)), min_size=1, max_size=4, unique=True))
    made: dict[Any, list[Any]] = {}
    for key in keys:
        offered = _offered(match(model, key, "", []), declared)
        if offered:
            chosen = draw(st.lists(st.sampled_from(offered), min_size=1, max_size=4, unique=True))
            made[key] = [draw(_entries(quantity)) for quantity in chosen]
    return made


def _keys(model: nn.Module) -> list[Any]:
    modules = {name: module for name, module in model.named_modules() if name}
    classes = list(dict.fromkeys(type(module) for module in modules.values()))
    patterns = dict.fromkeys(f"{name[0]}*" for name in modules)
    return [*modules, *(c.__name__ for c in classes), *classes, nn.Module, *patterns, is_leaf]


def _offered(modules: Mapping[str, nn.Module], declared: Sequence[Quantity]) -> list[Quantity]:
    """The quantities that all of the modules can have."""
    of_parts = [q for q in declared if not (q.is_of_whole_model or q.needs_model)]
    return [q for q in of_parts if all(_has(module, q) for module in modules.values())]


def _has(module: nn.Module, quantity: Quantity) -> bool:
    try:
        quantity.for_each(module, {})
    except NotApplicable:
        return False
    return True


@st.composite
def _entries(draw: st.DrawFn, quantity: Quantity) -> Any:
    form = draw(st.sampled_from(("name", "in a list", "scheduled", "with options")))
    if form == "name":
        return quantity.name
    if form == "in a list":
        return [quantity.name]
    schedule = draw(st.sampled_from(_SCHEDULES))
    if form == "scheduled":
        return [quantity.name, schedule]
    known = {k: st.sampled_from(v) for k, v in _OPTIONS.items() if k in quantity.options}
    return [quantity.name, schedule, draw(st.fixed_dictionaries({}, optional=known))]
