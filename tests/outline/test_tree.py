"""The tree: boxes in their modules, and each edge on the level where it belongs."""

import networkx as nx

from taiyi_fx.outline import Item, Mark, Marks
from taiyi_fx.outline.tree import tree


def drawn(scopes, edges):
    graph = nx.DiGraph()
    for name, scope in scopes.items():
        graph.add_node(name, item=Item("op", name), scope=scope)
    graph.add_edges_from(edges)
    return graph


def nested(part):
    return {inner.item.label: nested(inner) for inner in part.inside}


def edges(part):
    return [(a.item.label, b.item.label) for a, b in part.inside.edges]


def test_boxes_stand_in_their_scopes_and_edges_where_the_scopes_part():
    scopes = {"x": (), "p": ("m",), "q": ("m", "n"), "r": ("k",)}
    clusters = {scope: Item("module", scope[-1]) for scope in (("m",), ("m", "n"), ("k",))}
    graph = drawn(scopes, [("x", "p"), ("p", "q"), ("q", "r")])
    model = tree(graph, clusters, Item("module", "model"))
    assert nested(model) == {"x": {}, "m": {"p": {}, "n": {"q": {}}}, "k": {"r": {}}}
    m = list(model.inside)[1]
    assert edges(model) == [("x", "m"), ("m", "k")]
    assert edges(m) == [("p", "n")]


def test_a_cluster_without_boxes_is_there_only_if_it_is_marked():
    marks = Marks(forward=(Mark("OutputRMS", ""),))
    clusters = {("a",): Item("module", "a", marks=marks), ("b",): Item("module", "b")}
    model = tree(drawn({"x": ()}, []), clusters, Item("module", "model"))
    assert nested(model) == {"x": {}, "a": {}}
