"""Functions between modules, and the shape of what passes, as an outline shows them."""

from __future__ import annotations

from collections.abc import Iterator

from taiyi_fx.outline.items import Edge, Outline


def functions_before(outline: Outline, module: str) -> list[str]:
    """The functions that make what a module is given from what other modules return.

    Args:
        outline: The model.
        module: The module's name in records, with its call.

    Returns:
        Their names, in the order of execution; none if the outline does not show the module.
    """
    items = outline.items
    into: dict[int, list[Edge]] = {}
    for edge in outline.edges:
        into.setdefault(edge.target, []).append(edge)
    level = [*_shown(outline, module)]
    found = set[int]()
    while level:
        new = {edge.source for i in level for edge in into.get(i, ()) if edge.source not in found}
        level = [i for i in new if items[i].kind in ("op", "plumbing") and not items[i].module]
        found.update(level)
    return [items[i].label for i in sorted(found) if items[i].kind == "op"]


def shape_before(outline: Outline, module: str) -> str:
    """The shape of what a module is given, such as ``"8×64"``; empty if it is not known, or many.

    Args:
        outline: The model.
        module: The module's name in records, with its call.
    """
    places = {*_shown(outline, module)}
    shapes = {edge.shape for edge in outline.edges if edge.target in places}
    return shapes.pop() if len(shapes) == 1 else ""


def _shown(outline: Outline, module: str) -> Iterator[int]:
    every = enumerate(outline.items)
    return (i for i, item in every if item.module == module and item.kind == "module")
