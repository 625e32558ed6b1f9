"""The outlines of several models as one, as a run of several parts has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from taiyi_fx.outline.items import Edge, Item, Outline

Named = tuple[str, Outline, Mapping[str, str]]
"""A model's label, its outline, and other names of its modules."""


def joined(models: Sequence[Named]) -> Outline | None:
    """One box with each model as a box inside; None of no model, and the model itself of one."""
    if len(models) < 2:
        return _renamed(*models[0]) if models else None
    items = [Item("container", "parts")]
    edges: list[Edge] = []
    for model in models:
        own = _renamed(*model)
        first = len(items)
        items += (replace(item, parent=item.parent + first) for item in own.items)
        items[first] = replace(own.items[0], parent=0, label=model[0])
        edges += (Edge(e.source + first, e.target + first, e.shape) for e in own.edges)
    return Outline(tuple(items), tuple(edges))


def _renamed(_: str, outline: Outline, names: Mapping[str, str]) -> Outline:
    items = [replace(item, module=names.get(item.module, item.module)) for item in outline.items]
    return Outline(tuple(items), outline.edges)
