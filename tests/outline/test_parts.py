"""Levels of parts: groups of them, and their order."""

import networkx as nx

from taiyi_fx.outline import Item
from taiyi_fx.outline.parts import Part, grouped, in_order, selected


def level(edges):
    """Parts by label, in order of their first edge, and the level of them."""
    parts = {name: Part(Item("op", name)) for name in dict.fromkeys("".join(edges))}
    graph = nx.DiGraph()
    graph.add_nodes_from(parts.values())
    graph.add_edges_from((parts[a], parts[b]) for a, b in edges)
    return parts, graph


def labels(graph):
    return "".join(part.item.label for part in graph)


def test_a_group_takes_the_place_of_its_members_and_their_edges():
    parts, graph = level(["ab", "bc", "cd", "ac", "bd"])
    made, group = grouped(graph, [parts["b"], parts["c"]], Item("fold", "G"))
    assert labels(made) == "aGd"
    assert {(a.item.label, b.item.label) for a, b in made.edges} == {("a", "G"), ("G", "d")}
    assert labels(group.inside) == "bc"
    assert [part.item.label for part in group.walk()] == ["G", "b", "c"]


def test_only_edges_between_selected_parts_are_kept():
    parts, graph = level(["ab", "bc", "ac"])
    chosen = selected(graph, {parts["a"], parts["c"]})
    assert labels(chosen) == "ac"
    assert list(chosen.edges) == [(parts["a"], parts["c"])]


def test_parts_that_are_executed_earlier_come_first_and_the_others_stay_as_they_were():
    _, graph = level(["ca", "cb", "dc"])
    assert labels(graph) == "cabd"
    assert labels(in_order(graph)) == "dcab"


def test_a_level_with_a_cycle_stays_as_it_is():
    _, graph = level(["ab", "ba"])
    assert in_order(graph) is graph
