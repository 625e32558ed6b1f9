"""Models and their outlines, for the tests of outlines."""

import torch
from torch import nn

import taiyi_fx


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
