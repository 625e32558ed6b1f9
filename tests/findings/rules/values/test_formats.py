"""What a narrower format cannot hold."""

import pytest

from taiyi_fx.findings.rules.values.formats import out_of_range
from tests.findings.given import evidence


@pytest.mark.parametrize(
    ("quantity", "share", "word"),
    [("OverflowRate", 1e-3, "large"), ("OutputGradUnderflowRate", 0.7, "small")],
)
def test_shares_out_of_range_are_told_by_their_end(quantity, share, word):
    (found,) = out_of_range(evidence({("fc", quantity): share}))
    assert (found.kind, found.severity, found.value) == ("out_of_range", "warning", share)
    assert f"too {word} for the format" in found.text


def test_a_little_that_underflows_is_none():
    numbers = {("fc", "OutputGradUnderflowRate"): 0.2, ("fc", "OverflowRate"): 0.0}
    assert [*out_of_range(evidence(numbers))] == []
