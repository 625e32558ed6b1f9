"""Views of samples that a loss looks for in another place."""

import pytest

from taiyi_fx.findings.facts.source.view_pairs import mispaired_views
from tests.findings.facts.source.reading import found_in

JOINED = "torch.cat([augment(x), augment(x)])"
STACKED = "torch.stack([augment(x), augment(x)], dim=1).flatten(0, 1)"
HALVES = "(torch.arange(n) + n // 2) % n"
ENDS = "torch.cat([torch.arange(n, 2 * n), torch.arange(n)])"
NEIGHBOURS = "torch.arange(n) ^ 1"


@pytest.mark.parametrize(
    ("batch", "places", "is_found"),
    [
        (STACKED, HALVES, True),
        (STACKED, ENDS, True),
        (JOINED, NEIGHBOURS, True),
        (STACKED, NEIGHBOURS, False),
        (JOINED, HALVES, False),
        (JOINED, ENDS, False),
        ("torch.stack([augment(x), augment(x)]).flatten(0, 1)", HALVES, False),
        ("torch.cat([augment(x), x])", NEIGHBOURS, False),
        ("torch.cat([augment(x), augment(y)], 1)", NEIGHBOURS, False),
        (JOINED, "torch.arange(n)", False),
    ],
)
def test_orders_that_differ_are_found(batch, places, is_found):
    found = found_in(f"z = model({batch})\nplaces = {places}\n", mispaired_views)
    assert [text for _, text in found] == [batch] * is_found
