"""Models and their outlines, for the tests of outlines."""

import networkx as nx
import torch
from torch import nn

import taiyi_fx
from taiyi_fx.outline.view import shown


def outlined(model, cfg=None, *inputs):
    """The outline of a model, of which a forward was read if there are inputs."""
    cfg = cfg if cfg is not None else {"*": ["OutputRMS"]}
    instrumented = taiyi_fx.instrument(model, cfg)
    if inputs:
        instrumented(*inputs)
    return instrumented.monitor.outline


def labels(outline, parent=0):
    """Labels of the items that stand in an item, in order."""
    return [item.label for item in outline.items if item.parent == parent]


def at(outline, label):
    """The index of the only item of a label."""
    (found,) = [i for i, item in enumerate(outline.items) if item.label == label]
    return found


def leaves(outline):
    parents = {item.parent for item in outline.items}
    return [i for i in range(len(outline.items)) if i not in parents]


class Block(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, width)

    def forward(self, x):
        return x + torch.relu(self.up(self.norm(x)))


class Stack(nn.Module):
    """Blocks in a list, called by a loop."""

    def __init__(self, *blocks):
        super().__init__()
        self.stem = nn.Linear(4, 4)
        self.blocks = nn.ModuleList(blocks)
        self.head = nn.Linear(4, 4)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        b, t, d = x.shape
        q = self.q(x).view(b, t, 2, d // 2).transpose(1, 2)
        k = self.k(x).view(b, t, 2, d // 2).transpose(1, 2)
        return torch.softmax(q @ k.transpose(-2, -1) * (d // 2) ** -0.5, -1)


def quotient(outline, is_open):
    """The graph of the visible boxes with some items open."""
    view = shown(outline, is_open)
    graph = nx.DiGraph()
    graph.add_nodes_from(view.boxes)
    graph.add_edges_from((edge.source, edge.target) for edge in view.edges)
    return graph
