"""Containers: modules that are never called, such as a ModuleList, drawn around their members."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import networkx as nx
from torch import nn

from taiyi_fx.outline.items import Item
from taiyi_fx.outline.parts import Part, grouped

_LOOSE = ("op", "plumbing", "parameter")


def with_containers(
    inside: nx.DiGraph, within: str, modules: Mapping[str, nn.Module]
) -> nx.DiGraph:
    """A level with containers around their members, and labels relative to the module or container.

    A container includes the operations between its modules, such as the additions of residual
    blocks. Where other modules stand between them no container is drawn, and labels are longer:
    ``a.0`` instead of ``0`` in ``a``.

    Args:
        inside: The level.
        within: The name of the module whose level it is.
        modules: All modules by name.
    """
    names = {part: _below(_name(part, modules), within) for part in inside}
    found: dict[str, list[Part]] = {}
    for part, name in names.items():
        if len(name) > 1:
            found.setdefault(name[0], []).append(part)
    taken: set[Part] = set()
    for label, members in found.items():
        hull = _hull(inside, members)
        if len(members) < 2 or any(names[part] and part not in members for part in hull):
            continue
        path = f"{within}.{label}" if within else label
        item = Item("container", label, type(modules[path]).__name__, module=path)
        inside, group = grouped(inside, hull, item)
        group.inside = with_containers(group.inside, path, modules)
        taken.update(members)
    for part in set(names).difference(taken):
        _relabel(part, names[part])
    return inside


def _name(part: Part, modules: Mapping[str, nn.Module]) -> str:
    """The name of the module that a part is a call of; empty for operations and parameters."""
    if part.item.kind in _LOOSE:
        return ""
    called = part.item.module
    return called if called in modules else called.rpartition("@")[0]


def _below(name: str, within: str) -> Sequence[str]:
    """The path from a module to one below it, split at dots; empty if it is not below."""
    if not name or not within:
        return name.split(".") if name else ()
    return name[len(within) + 1 :].split(".") if name.startswith(f"{within}.") else ()


# A container becomes one box, so the level stays without cycles only if no path leads out of the
# container and back. All that lies on a path between two members is both after one and before the
# other; that is the hull. Operations that only join members, such as the sum of parallel experts,
# come after all members and before none: they are taken in as well, again and again, as one may
# join what another has joined.
def _hull(inside: nx.DiGraph, members: Sequence[Part]) -> set[Part]:
    """Some parts, all parts on paths between them, and operations that only join these."""
    after, before = set(members), set(members)
    for part in members:
        if part in inside:
            after |= nx.descendants(inside, part)
            before |= nx.ancestors(inside, part)
    hull = (after & before) | set(members)
    while joins := [part for part in inside if part not in hull and _joins(inside, part, hull)]:
        hull.update(joins)
    return hull


def _joins(inside: nx.DiGraph, part: Part, hull: set[Part]) -> bool:
    """True if a part is an operation with several inputs, all of them from the hull."""
    before = set(inside.predecessors(part))
    return part.item.kind == "op" and len(before) > 1 and before <= hull


def _relabel(part: Part, name: Sequence[str]) -> None:
    if len(name) > 1:
        call = part.item.label.removeprefix(name[-1])
        part.item = dataclasses.replace(part.item, label=".".join(name) + call)
