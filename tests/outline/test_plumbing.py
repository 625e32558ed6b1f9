"""Plumbing: which operations that only rearrange become one box."""

import networkx as nx
import torch
from torch import nn

from tests.outline.outlined import Attention, outlined, quotient


def test_plumbing_never_closes_a_way_around():
    class Around(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 4)

        def forward(self, x):
            y = x.reshape(-1, 4)  # one way leads through fc, the other past it
            return torch.stack([y, self.fc(y).reshape(-1, 4)]).transpose(0, 1)

    outline = outlined(Around())
    assert [i.label for i in outline.items if i.kind == "plumbing"] == [
        *("reshape", "reshape", "transpose")
    ]
    assert nx.is_directed_acyclic_graph(quotient(outline, {0}))


def test_what_is_probed_or_edited_is_no_plumbing():
    outline = outlined(Attention(), {torch.Tensor.transpose: ["OutputRMS"]})
    probed = [item for item in outline.items if item.marks]
    assert {(item.kind, item.label.partition(" ")[0]) for item in probed} == {("op", "transpose")}
