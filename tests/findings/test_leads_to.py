"""The table of what follows from what names kinds that there are."""

from collections import Counter
from itertools import product

import pytest

from taiyi_fx.findings import causes, followed
from taiyi_fx.findings.find import _LEADS_TO_NON_FINITE
from taiyi_fx.findings.leads_to import EDGES
from tests.findings.given import kinds

KNOWN = {kind.name for kind in kinds()}


def test_all_of_it_are_kinds_of_findings():
    named = {name for edge in EDGES for name in f"{edge.causes} {edge.effects}".split()}
    assert named <= KNOWN


@pytest.mark.parametrize(
    "of",
    [
        causes.ORIGINS,
        causes._EFFECTS,
        causes._STRUCTURAL,
        causes._IN_TIME,
        _LEADS_TO_NON_FINITE,
        followed._OF_ANYTHING,
    ],
)
def test_so_are_those_by_which_findings_are_put_in_order(of):
    assert of <= KNOWN


def test_no_kind_follows_from_itself_and_none_twice_in_one_way():
    every = [
        (cause, effect, edge.follows)
        for edge in EDGES
        for cause, effect in product(edge.causes.split(), edge.effects.split())
    ]
    assert all(cause != effect for cause, effect, _ in every)
    assert max(Counter(every).values()) == 1
