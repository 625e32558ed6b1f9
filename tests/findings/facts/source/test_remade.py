"""Optimizers that are made anew while they are in use."""

import pytest

from taiyi_fx.findings.facts.source.remade import remade_optimizers
from tests.findings.facts.source.reading import found_in

LOOP = """
model = Net()
for {epoch} in range(3):
    {outer}
    for x, y in batches:
        {inner}
        loss = f(model(x), y)
        loss.backward()
        optimizer.step()
"""
MADE = "optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)"


@pytest.mark.parametrize(
    ("epoch", "outer", "inner", "line"),
    [
        ("epoch", MADE, "pass", 4),
        ("epoch", "pass", MADE, 6),
        ("_", "pass", MADE.replace("torch.optim.", ""), 6),
        ("phase", MADE, "pass", None),
        ("epoch", f"model = Net(); {MADE}", "pass", None),
        ("epoch", "pass", f"if first: {MADE}", None),
        ("epoch", "pass", "noise = Adam(x)", None),
        ("epoch", "pass", "optimizer.zero_grad()", None),
    ],
)
def test_an_optimizer_that_is_made_in_each_turn_is_found(epoch, outer, inner, line):
    found = found_in(LOOP.format(epoch=epoch, outer=outer, inner=inner), remade_optimizers)
    assert [at for at, _ in found] == ([] if line is None else [line])
