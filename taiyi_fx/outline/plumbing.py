"""Plumbing: connected operations that only rearrange, such as views and slices, as one box."""

from __future__ import annotations

import dataclasses

import networkx as nx

from taiyi_fx.outline.items import Item
from taiyi_fx.outline.parts import Part, grouped

_REARRANGING = frozenset(
    "reshape view transpose permute getitem contiguous chunk split unbind unsqueeze squeeze expand "
    "flatten unflatten to type_as movedim moveaxis swapaxes t T mT H narrow select clone detach "
    "expand_as view_as reshape_as repeat repeat_interleave float half bfloat16 setitem roll data "
    "indices values".split()
)


def with_plumbing(inside: nx.DiGraph) -> nx.DiGraph:
    """A level with connected operations that only rearrange merged into one part.

    Two are merged only if no other path leads from one to the other. A path around through
    another box would turn into a cycle: into that box out of the merged part, and back.
    """
    pipes = [part for part in inside if _is_pipe(part.item)]
    for part in pipes:
        part.item = dataclasses.replace(part.item, kind="plumbing")
    joined = inside.copy()
    owner = {part: part for part in pipes}
    for source, target in list(inside.edges):
        if source in pipes and target in pipes:
            _merge(joined, owner, _root(owner, source), _root(owner, target))
    found: dict[Part, list[Part]] = {}
    for part in pipes:
        found.setdefault(_root(owner, part), []).append(part)
    for members in found.values():
        if len(members) > 1:
            inside, _ = grouped(inside, members, Item("plumbing", _label(members)))
    return inside


def _is_pipe(item: Item) -> bool:
    return item.kind == "op" and not item.marks and item.label in _REARRANGING


def _root(owner: dict[Part, Part], part: Part) -> Part:
    while owner[part] is not part:
        part = owner[part]
    return part


def _merge(joined: nx.DiGraph, owner: dict[Part, Part], source: Part, target: Part) -> None:
    """Merges two parts, unless another path leads from the first to the second."""
    if source is target or _has_detour(joined, source, target):
        return
    owner[target] = source
    joined.add_edges_from((a, source) for a in list(joined.predecessors(target)) if a is not source)
    joined.add_edges_from((source, b) for b in list(joined.successors(target)))
    joined.remove_node(target)


def _has_detour(joined: nx.DiGraph, source: Part, target: Part) -> bool:
    waiting = [part for part in joined.successors(source) if part is not target]
    seen = set(waiting)
    while waiting:
        for part in joined.successors(waiting.pop()):
            if part is target:
                return True
            if part not in seen:
                seen.add(part)
                waiting.append(part)
    return False


_SHOWN = 3


def _label(members: list[Part]) -> str:
    labels = list(dict.fromkeys(part.item.label for part in members))
    return " · ".join(labels[:_SHOWN]) + (" …" if len(labels) > _SHOWN else "")
