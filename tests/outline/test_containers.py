"""Containers: which modules that are never called are drawn, and around what."""

from torch import nn

from tests.outline.outlined import Block, Stack, at, labels, outlined


def test_a_list_of_modules_stands_around_them():
    outline = outlined(Stack(Block(), nn.Linear(4, 4)))
    assert labels(outline) == ["x", "stem", "blocks", "head", "output"]
    blocks = outline.items[at(outline, "blocks")]
    assert (blocks.kind, blocks.class_name, blocks.module) == ("container", "ModuleList", "blocks")


def test_lists_that_take_turns_are_none_and_names_are_longer():
    class Turns(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.ModuleList(nn.Linear(4, 4) for _ in range(2))
            self.b = nn.ModuleList(nn.LayerNorm(4) for _ in range(2))

        def forward(self, x):
            for a, b in zip(self.a, self.b, strict=True):
                x = b(a(x))
            return x

    assert labels(outlined(Turns())) == ["x", "a.0", "b.0", "a.1", "b.1", "output"]
