"""Random numbers that are begun anew in each step."""

import ast
import textwrap

import pytest

from taiyi_fx.findings.facts.source.reseeding import seeds_in_loops

LOOP = """
for epoch in range(3):
    {outer}
    for step, (x, y) in enumerate(loader):
        {seed}
        loss = f(model(x), y)
        loss.backward()
"""


def lines(seed, outer="pass"):
    tree = ast.parse(textwrap.dedent(LOOP.format(seed=seed, outer=outer)))
    return [call.lineno for call in seeds_in_loops(tree)]


@pytest.mark.parametrize(
    "seed",
    ["torch.manual_seed(0)", "np.random.seed(args.seed)", "random.seed(SEED)"],
)
def test_a_seed_that_is_the_same_in_each_turn_is_found(seed):
    assert lines(seed) == [5]


@pytest.mark.parametrize(
    ("seed", "outer"),
    [
        ("torch.manual_seed(step)", "pass"),
        ("torch.manual_seed(seed + step)", "pass"),
        ("torch.manual_seed(seed_of(x))", "pass"),
        ("generator.manual_seed(0)", "pass"),
        ("pass", "torch.manual_seed(0)"),
        ("if look: torch.manual_seed(0)", "pass"),
        ("with torch.random.fork_rng(): torch.manual_seed(0)", "pass"),
        ("random.seed()", "pass"),
    ],
)
def test_another_seed_or_one_elsewhere_is_none(seed, outer):
    assert lines(seed, outer) == []


def test_a_loop_that_does_not_train_may_begin_anew():
    code = "for x in loader:\n    torch.manual_seed(0)\n    model(x)\n"
    assert [*seeds_in_loops(ast.parse(code))] == []
    within = code + "    def train():\n        loss.backward()\n"
    assert [*seeds_in_loops(ast.parse(within))] == []
