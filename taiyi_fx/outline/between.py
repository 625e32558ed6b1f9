"""Functions between modules, and the shape of what passes, as an outline shows them."""

from __future__ import annotations

from collections.abc import Collection

from taiyi_fx.outline.items import Edge, Outline


def functions_before(outline: Outline, module: str) -> list[str]:
    """The functions that make what a module is given from what other modules return.

    Args:
        outline: The model.
        module: The module's name in records, with its call.

    Returns:
        Their names, in the order of execution; none if the outline does not show the module.
    """
    items, into = outline.items, outline.edges_into
    edges = _entering(outline, module)
    found = set[int]()
    while edges:
        new = {edge.source for edge in edges if edge.source not in found}
        level = [i for i in new if items[i].kind in ("op", "plumbing") and not items[i].module]
        found.update(level)
        edges = [edge for i in level for edge in into.get(i, ())]
    return [items[i].label for i in sorted(found) if items[i].kind == "op"]


def modules_before(outline: Outline, module: str, known: Collection[str]) -> set[str]:
    """The nearest of some modules, on each way to what a module is given.

    Args:
        outline: The model.
        module: The module's name in records, with its call.
        known: The names of modules, of which those on the ways to it are wanted.

    Returns:
        Their names: what it is given is made of what they return, of the model's inputs and of
        parameters; none if the outline does not show the module.
    """
    into = outline.edges_into
    edges, seen = {*_entering(outline, module)}, set[Edge]()
    found = set[str]()
    while edges:
        seen |= edges
        returned = {edge: _returned_by(outline, edge, known) for edge in edges}
        found |= {name for name in returned.values() if name}
        level = [edge.source for edge, name in returned.items() if not name]
        edges = {edge for i in level for edge in into.get(i, ())} - seen
    return found


def _returned_by(outline: Outline, edge: Edge, known: Collection[str]) -> str:
    """The innermost of some modules that the value of an edge is returned by; empty if none is.

    A module with parts returns what leads from one of these to an item that is not within it.
    """
    around = {*outline.around(edge.target)}
    left = (i for i in outline.around(edge.source) if i not in around)
    return next((name for i in left if (name := outline.items[i].module) and name in known), "")


def _entering(outline: Outline, module: str) -> list[Edge]:
    """The edges into a module, or into what is within it, from elsewhere."""
    return [edge for i in _shown(outline, module) for edge in outline.edges_into.get(i, ())]


def shape_before(outline: Outline, module: str) -> str:
    """The shape of what a module is given, such as ``"8×64"``; empty if it is not known, or many.

    Args:
        outline: The model.
        module: The module's name in records, with its call.
    """
    shapes = {edge.shape for edge in _entering(outline, module)}
    return shapes.pop() if len(shapes) == 1 else ""


def _shown(outline: Outline, module: str) -> list[int]:
    """The items that are calls of a module, and not its functions or what stands around it."""
    return [i for i in outline.places.get(module, ()) if outline.items[i].kind == "module"]
