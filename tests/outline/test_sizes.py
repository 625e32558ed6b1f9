"""Sizes: integers are left out of a drawing."""

import networkx as nx

from taiyi_fx.outline import Item, Mark, Marks
from taiyi_fx.outline.sizes import without_sizes
from tests.outline.outlined import Attention, labels, outlined


def test_sizes_are_left_out_and_what_rearranges_is_put_together():
    outline = outlined(Attention())
    assert labels(outline) == [
        *("x", "q", "view · transpose", "k", "view · transpose"),
        *("matmul", "mul", "softmax", "output"),
    ]


def drawn(*nodes, edges=()):
    graph = nx.DiGraph()
    graph.add_nodes_from((item.label, {"item": item}) for item in nodes)
    graph.add_edges_from(edges)
    return graph


def test_arithmetic_is_left_out_if_all_its_inputs_are_sizes():
    x, size, mul, view = Item("input", "x"), *(Item("op", name) for name in ("size", "mul", "view"))
    of_sizes = [("x", "size"), ("size", "mul"), ("mul", "view"), ("x", "view")]
    kept = without_sizes(drawn(x, size, mul, view, edges=of_sizes))
    assert set(kept.edges) == {("x", "view")}
    kept = without_sizes(drawn(x, size, mul, view, edges=[*of_sizes, ("x", "mul")]))
    assert set(kept) == {"x", "mul", "view"}


def test_a_size_that_is_read_by_a_quantity_stays():
    marked = Item("op", "size", marks=Marks(forward=(Mark("OutputRMS", ""),)))
    assert "size" in without_sizes(drawn(marked))
