"""Messages that reach the first rows alone, or come back."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import taiyi_fx

GRAPHS, NODES = 16, 10


class Layer(nn.Module):
    def __init__(self, ends):
        super().__init__()
        self.ends, self.own, self.other = ends, nn.Linear(8, 8), nn.Linear(8, 8, bias=False)

    def forward(self, x, edges):
        source, target = edges[self.ends]
        return self.own(x) + self.other(torch.zeros_like(x).index_add_(0, target, x[source]))


class Graphs(nn.Module):
    def __init__(self, ends):
        super().__init__()
        self.layers, self.head = nn.ModuleList(Layer(ends) for _ in range(2)), nn.Linear(8, 2)

    def forward(self, x, edges):
        for layer in self.layers:
            x = layer(x, edges).relu()
        return self.head(x.view(GRAPHS, NODES, -1).mean(1))


def batch_of(offset):
    each = [torch.randint(0, NODES, (2, 12)) + offset * i for i in range(GRAPHS)]
    return torch.randn(GRAPHS * NODES, 8), torch.cat(each, 1)


def torn_batch(_):
    rows = torch.arange(GRAPHS * NODES)
    pairs = torch.stack([rows, (rows + 1) % len(rows), (rows + 1) % len(rows), rows], 1)
    return torch.randn(GRAPHS * NODES, 8), pairs.reshape(2, -1)


@pytest.mark.parametrize(
    ("made", "offset", "ends", "kinds"),
    [
        (batch_of, NODES, [0, 1], []),
        (batch_of, 0, [0, 1], ["unreached_rows"]),
        (batch_of, NODES, [0, 0], ["returned_messages"]),
        (torn_batch, 0, [0, 1], ["torn_edges"]),
    ],
    ids=["sound", "without offsets", "sent back", "cut in halves"],
)
def test_messages_that_go_astray_are_told(made, offset, ends, kinds):
    torch.manual_seed(0)
    watched = taiyi_fx.instrument(Graphs(ends))
    for step in range(3):
        loss = F.cross_entropy(watched(*made(offset)), torch.randint(2, (GRAPHS,)))
        watched.monitor.log("loss", loss)
        loss.backward()
        watched.monitor.track(step)
    found = [
        x
        for x in watched.monitor.findings
        if x.kind in ("unreached_rows", "returned_messages", "torn_edges")
    ]
    assert [x.kind for x in found] == kinds
    if kinds == ["unreached_rows"]:
        assert "between the first 10 of 160 rows alone" in found[0].text
