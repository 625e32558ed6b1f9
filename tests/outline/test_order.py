"""The order of execution that an outline shows."""

import torch
from torch import nn

import taiyi_fx
from taiyi_fx.outline.order import execution_order, places_of_outputs


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.second, self.first = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        return x + self.second(self.first(x))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.head, self.stem = nn.Linear(4, 2), nn.Linear(3, 4)
        self.blocks = nn.ModuleList([Block(), Block()])

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def test_it_is_that_of_the_forward_and_not_that_of_the_definition():
    model = taiyi_fx.instrument(Net(), {"Linear": ["OutputRMS"]})
    model(torch.rand(3, 3))
    order = execution_order(model.monitor.outline)
    leaves = [name for name in order if name.rpartition(".")[2] in ("stem", "head", "first")]
    assert leaves[0] == "stem"
    assert leaves[-1] == "head"
    assert order.index("blocks.0.first") < order.index("blocks.0.second")
    assert len(order) == len(set(order))


def test_an_output_comes_after_those_of_the_parts_of_its_module():
    places = places_of_outputs(["", "a", "a.x", "a.y", "b"])
    assert sorted(places, key=lambda name: places[name]) == ["a.x", "a.y", "a", "b", ""]
