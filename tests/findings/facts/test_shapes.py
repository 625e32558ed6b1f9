"""Shapes as an outline shows them."""

import pytest

from taiyi_fx.findings.facts.shapes import rows_of


@pytest.mark.parametrize(
    ("shape", "rows"), [("8×64", 8), ("2×5×64", 10), ("64", 0), ("", 0), ("n×64", 0)]
)
def test_rows_are_all_axes_but_the_last(shape, rows):
    assert rows_of(shape) == rows
