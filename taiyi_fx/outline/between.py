"""Functions between modules, and the shape of what passes, as an outline shows them."""

from __future__ import annotations

from collections.abc import Collection

from taiyi_fx.outline.items import Outline


def functions_before(outline: Outline, module: str) -> list[str]:
    """The functions that make what a module is given from what other modules return.

    Args:
        outline: The model.
        module: The module's name in records, with its call.

    Returns:
        Their names, in the order of execution; none if the outline does not show the module.
    """
    items, into = outline.items, outline.edges_into
    level = _shown(outline, module)
    found = set[int]()
    while level:
        new = {edge.source for i in level for edge in into.get(i, ()) if edge.source not in found}
        level = [i for i in new if items[i].kind in ("op", "plumbing") and not items[i].module]
        found.update(level)
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
    level, seen = _shown(outline, module), set[int]()
    found = set[str]()
    while level:
        new = {edge.source for i in level for edge in into.get(i, ())} - seen
        seen |= new
        found |= {name for i in new if (name := outline.items[i].module) and name in known}
        level = [i for i in new if outline.items[i].module not in found]
    return found


def shape_before(outline: Outline, module: str) -> str:
    """The shape of what a module is given, such as ``"8×64"``; empty if it is not known, or many.

    Args:
        outline: The model.
        module: The module's name in records, with its call.
    """
    into = outline.edges_into
    shapes = {edge.shape for i in _shown(outline, module) for edge in into.get(i, ())}
    return shapes.pop() if len(shapes) == 1 else ""


def _shown(outline: Outline, module: str) -> list[int]:
    """The items that are calls of a module, and not its functions or what stands around it."""
    return [i for i in outline.places.get(module, ()) if outline.items[i].kind == "module"]
