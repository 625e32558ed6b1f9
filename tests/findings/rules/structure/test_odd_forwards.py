"""Modules whose forward is not that of their siblings."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import taiyi_fx
from taiyi_fx.findings import Attributes, Forward
from taiyi_fx.findings.rules.structure.odd_forwards import odd_forwards
from tests.findings.given import evidence, knowing

WIDTH = 8


def usual(self, x):
    return x + self.down(F.relu(self.up(self.norm(x))))


class Block(nn.Module):
    """A block before whose layers is a norm, and which adds what it is given."""

    def __init__(self, forward=None):
        super().__init__()
        self.norm, self.up = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 2 * WIDTH)
        self.down, self.how = nn.Linear(2 * WIDTH, WIDTH), forward or usual

    def forward(self, x):
        return self.how(self, x)


class Net(nn.Module):
    def __init__(self, *blocks):
        super().__init__()
        self.first, self.head = nn.Linear(4, WIDTH), nn.Linear(WIDTH, 2)
        self.blocks = nn.ModuleList(blocks)

    def forward(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def without_its_input(self, x):
    return self.down(F.relu(self.up(self.norm(x))))


def without_relu(self, x):
    return x + self.down(self.up(self.norm(x)))


def of_a_norm_twice(self, x):
    return x + self.down(F.relu(self.up(self.norm(self.norm(x)))))


def with_a_detached_skip(self, x):
    return x.detach() + self.down(F.relu(self.up(self.norm(x))))


def with_a_detached_branch(self, x):
    return x + self.down(F.relu(self.up(self.norm(x)))).detach()


def around_its_norm(self, x):
    return self.norm(x) + self.down(F.relu(self.up(x)))


def with_a_scale(self, x):
    return x + self.down(2 * F.relu(self.up(self.norm(x))))


ODD = {
    without_its_input: "'blocks.2' does not add its input, as its 3 siblings do",
    without_relu: "'blocks.2' does not call `relu`, as its 3 siblings do",
    of_a_norm_twice: "'blocks.2' calls 'norm' twice, and its 3 siblings once",
    with_a_detached_skip: "'blocks.2' calls `detach`, which none of its 3 siblings does",
    with_a_detached_branch: "'blocks.2' calls `detach`, which none of its 3 siblings does",
    around_its_norm: "'blocks.2' does not give `add` its input, as its 3 siblings do",
    with_a_scale: "'blocks.2' calls `mul`, which none of its 3 siblings does",
}


def found_in(model, steps=3, **batch):
    torch.manual_seed(0)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    watched = taiyi_fx.instrument(model, optimizer=optimizer)
    for step in range(steps):
        loss = watched(torch.randn(16, 4), **batch).square().mean()
        optimizer.zero_grad()
        loss.backward()
        watched.monitor.track(step)
        optimizer.step()
    return watched.monitor.findings


def blocks_with(forward, odd=2, n=4):
    return [Block(forward if i == odd else None) for i in range(n)]


@pytest.mark.parametrize("forward", ODD, ids=lambda forward: forward.__name__)
def test_one_that_alone_does_something_else_is_named_with_what_it_is(forward):
    every = found_in(Net(*blocks_with(forward)))
    (found,) = (one for one in every if one.kind == "odd_forward")
    assert (found.module, found.severity) == ("blocks.2", "warning")
    assert found.text.startswith(ODD[forward])


def test_blocks_that_are_all_alike_are_none():
    assert found_in(Net(*blocks_with(None))) == []


@pytest.mark.parametrize(
    ("forward", "odd", "n", "is_told"),
    [
        (without_relu, 0, 4, False),
        (without_relu, 3, 4, False),
        (without_relu, 1, 3, False),
        (with_a_detached_skip, 0, 4, True),
        (with_a_detached_skip, 3, 4, True),
        (with_a_detached_skip, 1, 3, False),
    ],
)
def test_of_the_first_and_the_last_a_detach_alone_is_told_and_of_three_none(
    forward, odd, n, is_told
):
    every = found_in(Net(*blocks_with(forward, odd, n)))
    assert [one.module for one in every if one.kind == "odd_forward"] == is_told * [f"blocks.{odd}"]


def test_two_of_a_kind_are_a_pattern():
    blocks = blocks_with(without_relu, n=6)
    blocks[4] = Block(without_relu)
    assert found_in(Net(*blocks)) == []


@pytest.mark.parametrize(
    ("setting", "own", "others"),
    [("shift", 3, 0), ("is_global", True, False), ("window", (2, 2), None), ("eps", 1e-3, 1e-5)],
)
def test_one_with_a_setting_of_its_own_is_meant_to(setting, own, others):
    blocks = blocks_with(with_a_scale)
    for i, block in enumerate(blocks):
        setattr(block, setting, own if i == 2 else others)
    assert not any(one.kind == "odd_forward" for one in found_in(Net(*blocks)))


def test_so_is_one_of_which_a_part_has_one():
    blocks = blocks_with(with_a_scale)
    blocks[2].up.scales = True
    assert not any(one.kind == "odd_forward" for one in found_in(Net(*blocks)))


def test_numbers_that_count_blocks_explain_nothing():
    blocks = blocks_with(with_a_scale)
    for i, block in enumerate(blocks):
        block.number = i
    assert [one.kind for one in found_in(Net(*blocks))] == ["odd_forward"]


class Leaner(Block):
    """A block of a class of its own, which leaves something out."""

    def forward(self, x):
        return without_its_input(self, x)


class Richer(Block):
    """A block of a class of its own, which does more."""

    def forward(self, x):
        return with_a_scale(self, x)


@pytest.mark.parametrize(("odd", "n"), [(Leaner, 1), (Richer, 0)])
def test_a_class_of_its_own_says_that_more_is_meant_and_not_less(odd, n):
    blocks = blocks_with(None)
    blocks[2] = odd()
    assert sum(one.kind == "odd_forward" for one in found_in(Net(*blocks))) == n


class InPython(Block):
    """A block that stayed Python."""

    def forward(self, x):
        return self.how(self, x if float(x.detach().sum()) < 1e9 else -x)


@pytest.mark.parametrize("forward", [without_its_input, with_a_detached_skip])
def test_of_what_stayed_python_joins_are_compared(forward):
    blocks = [InPython(forward if i == 2 else None) for i in range(4)]
    (found,) = (one for one in found_in(Net(*blocks)) if one.kind == "odd_forward")
    expected = "'blocks.2' does not add its input, or not so that a gradient passes, as its 3"
    assert found.text.startswith(expected)


def without_its_branch(self, x):
    return self.norm(x)


def test_a_branch_that_is_left_out_as_if_dropped_at_random_is_none():
    blocks = [InPython(without_its_branch if i == 2 else None) for i in range(4)]
    assert not any(one.kind == "odd_forward" for one in found_in(Net(*blocks)))


def test_one_that_stayed_python_alone_is_compared_with_none():
    blocks = blocks_with(None)
    blocks[2] = InPython()
    assert not any(one.kind == "odd_forward" for one in found_in(Net(*blocks)))


class Gated(nn.Module):
    """A layer that multiplies what it returns by what it is handed."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(WIDTH, WIDTH)

    def forward(self, x, gate=None):
        return self.fc(x) if gate is None else self.fc(x) * gate


class Handing(nn.Module):
    """Layers of which one is not handed the gate."""

    def __init__(self):
        super().__init__()
        self.first, self.gate = nn.Linear(4, WIDTH), nn.Linear(4, WIDTH)
        self.layers = nn.ModuleList(Gated() for _ in range(4))

    def forward(self, x):
        gate, x = self.gate(x), self.first(x)
        for i, layer in enumerate(self.layers):
            x = x + layer(x, None if i == 1 else gate)
        return x


def test_one_that_is_not_handed_what_all_others_are_is_named():
    (found,) = (one for one in found_in(Handing()) if one.kind == "odd_forward")
    assert found.text.startswith("'layers.1' does not call `mul`, as its 3 siblings do")


def of_forwards(*forwards):
    names = [f"h.{i}" for i in range(len(forwards))]
    known = evidence({(name, "OutputRMS"): 1.0 for name in names})
    attributes = dict.fromkeys(names, Attributes("Block", {}))
    forwards = dict(zip(names, forwards, strict=True))
    return [*odd_forwards(knowing(known, attributes=attributes, forwards=forwards))]


def test_without_an_outline_or_attributes_nothing_is_said():
    plain, odd = (Forward(frozenset({(name, 1)}), frozenset()) for name in ("add()", "mul()"))
    (found,) = of_forwards(plain, plain, odd, plain)
    assert found.text == (
        "'h.2' does not call `add`, as its 3 siblings do and calls `mul`, which none of its "
        "3 siblings does"
    )
    known = evidence({("h.0", "OutputRMS"): 1.0})
    assert [*odd_forwards(known)] == []
    assert [*odd_forwards(knowing(known, forwards=dict.fromkeys("abcd", plain)))] == []
