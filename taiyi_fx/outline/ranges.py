"""Levels of very many parts, cut into stretches."""

from __future__ import annotations

import math

import networkx as nx

from taiyi_fx.outline.items import Item
from taiyi_fx.outline.parts import Part, grouped

_MOST = 48


def with_ranges(inside: nx.DiGraph) -> nx.DiGraph:
    """A level of at most 48 parts: stretches in order of execution stand for what they hold.

    A stretch of such an order has no way out of it and back, so the level stays without cycles.
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
