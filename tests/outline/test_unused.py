"""Unused values: unpacked, and left out of a drawing."""

import networkx as nx

from taiyi_fx.outline import Item, Mark, Marks
from taiyi_fx.outline.unused import without_unused


def left(*items):
    """Of a chain of operations, the labels that are left."""
    graph = nx.DiGraph()
    graph.add_nodes_from((i, {"item": item}) for i, item in enumerate(items))
    nx.add_path(graph, range(len(items)))
    return [item.label for _, item in without_unused(graph).nodes(data="item")]


def test_unpacking_of_what_nothing_uses_is_left_out_to_the_last_step():
    assert left(Item("module", "lstm"), Item("op", "getitem"), Item("op", "select")) == ["lstm"]


def test_what_is_used_marked_or_computed_stays():
    marked = Item("op", "getitem", marks=Marks(forward=(Mark("OutputRMS", ""),)))
    assert left(Item("op", "getitem"), Item("output", "output")) == ["getitem", "output"]
    assert left(Item("module", "lstm"), marked) == ["lstm", "getitem"]
    assert left(Item("module", "lstm"), Item("op", "tanh")) == ["lstm", "tanh"]
