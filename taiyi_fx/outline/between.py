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
    items = outline.items
    return [items[i].label for i in _between(outline, module) if items[i].kind == "op"]


def inputs_before(outline: Outline, module: str) -> list[str]:
    """The model's inputs that a module is given, as they are or through functions alone.

    Args:
        outline: The model.
        module: The module's name in records, with its call.

    Returns:
        Their names; none if the outline does not show the module.
    """
    into, functions = outline.edges_into, _between(outline, module)
    edges = [*_entering(outline, module), *(e for i in functions for e in into.get(i, ()))]
    sources = sorted({edge.source for edge in edges})
    return [outline.items[i].label for i in sources if outline.items[i].kind == "input"]


_CONSTANT = frozenset("full_like zeros_like ones_like new_full new_zeros new_ones".split())
"""Functions that take the shape of what they are given, and none of its values."""


def constants_before(outline: Outline, module: str) -> list[tuple[str, str]]:
    """The functions by which no value of what they take reaches a module, each with what it takes.

    Args:
        outline: The model.
        module: The module's name in records, with its call.

    Returns:
        The name of each function, with that of the model's input or of the module that it takes;
        none if any value of an input, or of what another module returns, reaches the module.
    """
    items, into = outline.items, outline.edges_into
    edges, seen = _entering(outline, module), set[int]()
    found: list[tuple[str, str]] = []
    while edges:
        level = {edge.source for edge in edges} - seen
        seen |= level
        constant = {i for i in level if items[i].kind == "op" and items[i].label in _CONSTANT}
        if any(items[i].module or items[i].kind == "input" for i in level):
            return []
        of = [(i, edge.source) for i in sorted(constant) for edge in into.get(i, ())]
        found += [(items[i].label, items[source].module or items[source].label) for i, source in of]
        edges = [edge for i in level - constant for edge in into.get(i, ())]
    return found


_WITHOUT_GRADIENT = frozenset(
    "detach detach_ argmax argmin argsort max min topk sort kthvalue multinomial bernoulli one_hot "
    "round floor ceil trunc sign heaviside gt ge lt le eq ne long int bool item tolist numpy "
    "bucketize searchsorted nonzero".split()
)
"""Functions that pass no gradient back, or none to the indices that they return beside values."""


def cuts_behind(outline: Outline, module: str, known: Collection[str]) -> list[str]:
    """The first functions on the ways from a module that may pass no gradient back to it.

    Args:
        outline: The model.
        module: The module's name in records, with its call.
        known: The names of modules at which the ways end.

    Returns:
        Their names, in the order of execution; none if the outline does not show the module.
    """
    items, out = outline.items, outline.edges_out_of
    level, seen, found = {*_shown(outline, module)}, set[int](), set[int]()
    while level:
        seen |= level
        reached = {edge.target for i in level for edge in out.get(i, ())} - seen
        found |= {i for i in reached if items[i].label in _WITHOUT_GRADIENT and not items[i].module}
        level = {i for i in reached - found if items[i].module not in known}
    return list(dict.fromkeys(items[i].label for i in sorted(found)))


def _between(outline: Outline, module: str) -> list[int]:
    """The functions between other modules and this one, in the order of execution."""
    items, into = outline.items, outline.edges_into
    edges = _entering(outline, module)
    found = set[int]()
    while edges:
        new = {edge.source for edge in edges if edge.source not in found}
        level = [i for i in new if items[i].kind in ("op", "plumbing") and not items[i].module]
        found.update(level)
        edges = [edge for i in level for edge in into.get(i, ())]
    return sorted(found)


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
