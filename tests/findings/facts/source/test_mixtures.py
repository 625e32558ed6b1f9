"""Mixtures whose targets have the other one's share."""

import pytest

from taiyi_fx.findings.facts.source.mixtures import turned_mixtures
from tests.findings.facts.source.reading import found_in

STEP = """
for x, y in loader:
    order = torch.randperm(len(x))
    mixed = {mixed}
    z = model(mixed)
    loss = {loss}
    loss.backward()
"""
MIXED = "a * x + (1 - a) * x[order]"


def lines(loss, mixed=MIXED):
    return [line for line, _ in found_in(STEP.format(mixed=mixed, loss=loss), turned_mixtures)]


TURNED = [
    "a * f(z, y[order]) + (1 - a) * f(z, y)",
    "(1 - a) * f(z, y) + a * f(z, y[order])",
    "f(z, y) * (1 - a) + f(z, y[order]) * a",
    "(1.0 - a) * f(z, y).mean() + a * f(z, y[order]).mean()",
]


@pytest.mark.parametrize("loss", TURNED)
@pytest.mark.parametrize("mixed", [MIXED, "x * a + x[order] * (1 - a)"])
def test_targets_with_the_other_share_are_found(loss, mixed):
    assert lines(loss, mixed) == [6]
    sound = loss.replace("y[order]", "_").replace("y)", "y[order])").replace("_", "y")
    assert lines(sound, mixed) == []


def test_the_share_may_be_that_of_the_other_part():
    mixed = "(1 - a) * x + a * x[order]"
    assert lines("a * f(z, y[order]) + (1 - a) * f(z, y)", mixed) == []
    assert lines("a * f(z, y) + (1 - a) * f(z, y[order])", mixed) == [6]


def test_it_may_be_in_soft_targets_and_turned_round():
    assert lines("f(z, a * y.flip(0) + (1 - a) * y)", "a * x + (1 - a) * x.flip(0)") == [6]
    assert lines("f(z, a * y + (1 - a) * y.flip(0))", "a * x + (1 - a) * x.flip(0)") == []
    assert lines("f(z, a * torch.flip(y, [0]) + (1 - a) * y)", "a * x + (1 - a) * x.flip([0])") == [
        6
    ]
    assert lines("f(z, a * y.roll(1, 0) + (1 - a) * y)", "a * x + (1 - a) * x.roll(1, 0)") == [6]


@pytest.mark.parametrize(
    ("loss", "found"),
    [("lam * f(z, a) + (1 - lam) * f(z, b)", []), ("lam * f(z, b) + (1 - lam) * f(z, a)", [6])],
)
def test_names_stand_for_rows_throughout_the_file(loss, found):
    code = f"""
def mixed(x, y, lam):
    index = torch.randperm(x.size(0))
    return lam * x + (1 - lam) * x[index], y, y[index]
def criterion(z, a, b, lam):
    return {loss}
def step(x, y, lam):
    x, a, b = mixed(x, y, lam)
    a, b = y, y[index]
"""
    assert [line for line, _ in found_in(code, turned_mixtures)] == found


@pytest.mark.parametrize(
    ("loss", "mixed"),
    [
        ("b * f(z, y[order]) + (1 - b) * f(z, y)", MIXED),
        ("a * f(z, y[other]) + (1 - a) * f(z, y)", MIXED),
        ("a * f(z, y) + (1 - a) * f(z, t)", MIXED),
        ("a * f(z, y[order]) + (1 - a) * f(z, t[order])", MIXED),
        ("a * f(z, y[order]) + (1 - a) * f(z, y)", "a * x + (1 - a) * noise[order]"),
        ("a * f(z, y[order]) + b * f(z, y)", MIXED),
        ("a * f(z, y[order]) - (1 - a) * f(z, y)", MIXED),
    ],
    ids=["share", "order", "no order", "both", "no mixture", "no rest", "difference"],
)
def test_other_sums_are_none(loss, mixed):
    assert lines(loss, mixed) == []
