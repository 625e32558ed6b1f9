"""Identical consecutive parts become one: what does, and what does not."""

import pytest
import torch
from torch import nn

from tests.outline.outlined import Block, Stack, at, labels, leaves, outlined


def kinds(outline):
    return [(item.kind, item.label, item.count) for item in outline.items if item.count > 1]


def test_identical_blocks_fold_into_the_first_and_the_rest():
    outline = outlined(Stack(*(Block() for _ in range(5))))
    assert kinds(outline) == [("fold", "0 … 4", 5), ("rest", "1 … 4", 4)]
    fold, rest = at(outline, "0 … 4"), at(outline, "1 … 4")
    assert labels(outline, fold) == ["0", "1 … 4"]
    assert labels(outline, rest) == ["1", "2", "3", "4"]
    assert outline.items[fold].class_name == outline.items[rest].class_name == "Block"


def test_blocks_that_hand_on_a_cache_fold_and_so_do_those_with_parameters_of_their_own():
    class Cached(nn.Module):
        def __init__(self):
            super().__init__()
            self.up, self.gain = nn.Linear(4, 4), nn.Parameter(torch.ones(4))

        def forward(self, x, cache):
            x = self.up(x) * self.gain
            cache.append(x)
            return x

    class Caching(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.ModuleList(Cached() for _ in range(5))

        def forward(self, x):
            cache = []
            for block in self.blocks:
                x = block(x, cache)
            return x, len(cache)

    outline = outlined(Caching(), {"Linear": ["OutputRMS"]}, torch.randn(2, 4))
    assert kinds(outline) == [("fold", "0 … 4", 5), ("rest", "1 … 4", 4)]


def test_two_blocks_need_no_rest():
    outline = outlined(Stack(Block(), Block()))
    assert kinds(outline) == [("fold", "0 … 1", 2)]
    assert labels(outline, at(outline, "0 … 1")) == ["0", "1"]


def test_a_block_of_another_width_or_with_other_probes_is_not_folded():
    class Narrow(Block):
        def __init__(self):
            super().__init__()
            self.up = nn.Linear(4, 4, bias=False)

    blocks = [Block(), Block(), Narrow(), Block(), Block()]
    assert kinds(outlined(Stack(*blocks))) == [("fold", "0 … 1", 2), ("fold", "3 … 4", 2)]
    same = Stack(*(Block() for _ in range(3)))
    probed = outlined(same, {"blocks.1.up": ["OutputRMS"]})
    assert kinds(probed) == []


def test_layers_fold_from_four_repetitions():
    def layers(n):
        made = [nn.Linear(4, 4) if i % 2 == 0 else nn.ReLU() for i in range(2 * n)]
        return outlined(nn.Sequential(*made))

    assert kinds(layers(3)) == []
    outline = layers(4)
    assert kinds(outline) == [("fold", "0 … 7", 4), ("rest", "2 … 7", 3)]
    assert outline.items[at(outline, "0 … 7")].class_name == "Linear · ReLU"


def test_residual_blocks_whose_addition_is_outside_fold_with_it():
    class Residual(Stack):
        def forward(self, x):
            x = self.stem(x)
            for block in self.blocks:
                x = x + block(x)
            return self.head(x)

    outline = outlined(Residual(*(Block() for _ in range(4))))
    assert ("fold", "0 … 3", 4) in kinds(outline)
    assert outline.items[at(outline, "0 … 3")].class_name == "Block · add"
    assert [item.label for item in outline.items if item.kind == "container"] == ["blocks"]


def test_what_stands_side_by_side_folds_from_four():
    class Experts(nn.Module):
        def __init__(self, n):
            super().__init__()
            self.experts = nn.ModuleList(nn.Linear(4, 4) for _ in range(n))

        def forward(self, x):
            return torch.stack([expert(x) for expert in self.experts]).sum(0)

    assert kinds(outlined(Experts(3))) == []
    assert kinds(outlined(Experts(4)))[0] == ("fold", "0 … 3", 4)


def test_layers_between_rearranging_are_no_blocks():
    class Heads(nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.k, self.v = (nn.Linear(4, 4) for _ in range(3))

        def forward(self, x):
            q, k, v = (f(x).unflatten(-1, (2, 2)).transpose(0, 1) for f in (self.q, self.k, self.v))
            return q * k * v

    assert kinds(outlined(Heads())) == []


def test_a_loop_of_operations_folds():
    class Loop(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(4, 4)

        def forward(self, x):
            x = self.first(x)
            for _ in range(6):
                x = torch.tanh(torch.sin(x) + torch.cos(x))
            return x

    outline = outlined(Loop(), {"first": ["OutputRMS"]})
    folds = [item for item in outline.items if item.count > 1]
    assert [(item.kind, item.label, item.count) for item in folds] == [
        ("fold", "sin · cos · add …", 6),
        ("rest", "sin · cos · add …", 5),
    ]


@pytest.mark.parametrize("n", [1, 2, 3, 7])
def test_folding_loses_nothing(n):
    model = Stack(*(Block() for _ in range(n)))
    outline = outlined(model)
    names = [outline.items[i].module for i in leaves(outline) if outline.items[i].kind == "module"]
    called = [name for name, m in model.named_modules() if not list(m.children())]
    assert sorted(names) == sorted(called)
