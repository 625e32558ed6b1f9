"""Marks become probes, or go."""

from torch import nn

from taiyi_fx.passes.capture.marks import enter, leave
from taiyi_fx.passes.rewrite.insert_probes import is_probe
from tests.passes.rewrite.given import VALUE, probed, probes


def test_every_mark_becomes_a_probe_or_goes():
    graph, _ = probed(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), ["0"], fuse=False)
    assert probes(graph) == {"0.input": ["0.input", "0.input_grad"], "0.output": ["0.output", "0.output_grad"]}  # fmt: skip
    assert not [n for n in graph.nodes if n.target in (enter, leave)]


def test_a_probe_of_values_is_not_in_the_path():
    graph, _ = probed(nn.Sequential(nn.Linear(4, 4)), ["0"], ports=VALUE)
    assert all(not node.users for node in graph.nodes if is_probe(node))
