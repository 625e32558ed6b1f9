"""Ranges: levels with very many parts, cut into stretches of consecutive ones."""

from __future__ import annotations

import math

import networkx as nx

from taiyi_fx.outline.items import Item
from taiyi_fx.outline.parts import Part, grouped

_MOST = 48


def with_ranges(inside: nx.DiGraph) -> nx.DiGraph:
    """A level of at most 48 parts, each of which may be a stretch of consecutive ones.

    Parts are in topological order: no path leaves a stretch and comes back, so there are no cycles.
    """
    while len(inside) > _MOST:
        parts = list(inside)
        length = math.ceil(len(parts) / math.ceil(len(parts) / _MOST))
        for start in range(0, len(parts), length):
            members = parts[start : start + length]
            inside, _ = grouped(inside, members, _item(members))
    return inside


def _item(members: list[Part]) -> Item:
    return Item(
        "range",
        f"{members[0].item.label} … {members[-1].item.label}",
        f"{len(members)} boxes",
    )
