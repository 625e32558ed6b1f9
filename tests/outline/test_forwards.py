"""The forward of each module, as an outline shows it."""

import torch
from torch import nn

from taiyi_fx.outline import Edge, Item, Outline
from taiyi_fx.outline.forwards import forwards_of
from tests.outline.outlined import outlined


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(4), nn.Linear(4, 8), nn.Linear(8, 4)
        self.acts = nn.ModuleList([nn.ReLU()])

    def forward(self, x):
        y = self.up(self.norm(self.norm(x)))
        return x.detach().unsqueeze(0).squeeze(0) + self.down(self.acts[0](y))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.Sequential(*(Block() for _ in range(3)))

    def forward(self, x):
        return self.blocks(x).log()


def test_calls_are_those_of_a_modules_own_with_functions_that_only_rearrange_one_by_one():
    forwards = forwards_of(outlined(Net(), None, torch.rand(2, 4)))
    assert dict(forwards["blocks.1"].calls) == {
        **dict.fromkeys(("up", "down", "acts.0"), 1),
        **dict.fromkeys(("detach()", "unsqueeze()", "squeeze()", "add()"), 1),
        "norm": 2,
    }
    assert forwards["blocks.1"].ways == {
        *(("", "norm"), ("norm", "norm"), ("norm", "up"), ("up", "acts.0"), ("acts.0", "down")),
        *(("", "detach()"), ("detach()", "unsqueeze()"), ("unsqueeze()", "squeeze()")),
        *(("squeeze()", "add()"), ("down", "add()"), ("add()", "")),
    }
    assert not forwards["blocks.1"].is_followed
    assert len({forwards[f"blocks.{i}"] for i in range(3)}) == 1
    assert dict(forwards["blocks"].calls) == {"0": 1, "1": 1, "2": 1}
    assert "blocks.1.norm" not in forwards


def test_later_calls_and_what_stayed_python_are_as_they_are_drawn():
    items = (
        Item("module", "model"),
        Item("python", "fc (call 2)", module="a@1", parent=0),
        Item("container", "parts", module="a.parts", parent=1),
        Item("op", "attention (call 2)", module="a.attention()@1", parent=2),
        Item("module", "norm", module="a.norm@1", parent=2),
        Item("module", "shared", module="b.shared", parent=1),
        Item("parameter", "gain", "parameter", parent=1),
    )
    edges = (Edge(3, 4), Edge(6, 4), Edge(4, 5))
    (forward,) = forwards_of(Outline(items, edges)).values()
    assert dict(forward.calls) == {"attention()": 1, "norm": 1, "b.shared": 1}
    assert forward.ways == {("attention()", "norm"), ("", "norm"), ("norm", "b.shared")}
    assert forward.is_followed


def test_a_part_that_is_never_called_is_no_call():
    items = (
        Item("module", "model"),
        Item("python", "a", module="a", parent=0),
        Item("module", "fc", module="a.fc", parent=1),
        Item("module", "dropout", module="a.dropout", parent=1, is_called=False),
    )
    assert dict(forwards_of(Outline(items, ()))["a"].calls) == {"fc": 1}
