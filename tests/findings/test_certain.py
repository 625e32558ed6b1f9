"""What need not last to be told."""

from taiyi_fx.findings import CERTAIN
from tests.findings.given import kinds


def test_all_of_it_are_kinds_of_findings():
    assert {kind.name for kind in kinds()} >= CERTAIN
