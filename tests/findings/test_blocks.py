"""Blocks that are wrong as a whole."""

import pytest

from taiyi_fx.findings.blocks import common_block, in_blocks, named
from tests.findings.given import evidence

EVERY = ["words", "h.0.up", "h.0.down", "h.1.up", "h.1.down", "head"]


def names(wrong, every=EVERY):
    sites = evidence({(module, "WeightNorm"): 1.0 for module in wrong}).series
    return [name for _, name in in_blocks(sites, every)]


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        (["h.1.up", "h.1.down"], ["h.1"]),
        (["h.0.up", "h.0.down", "h.1.up", "h.1.down"], ["h"]),
        (["h.1.up"], ["h.1.up"]),
        (["words", "h.0.up", "h.0.down", "h.1.down"], ["words", "h.0", "h.1.down"]),
        (EVERY, ["words", "h", "head"]),
    ],
    ids=["a block", "all blocks", "part of one", "several", "all"],
)
def test_a_block_that_is_wrong_as_a_whole_is_named_once(wrong, expected):
    assert names(wrong) == expected


def test_a_block_of_one_module_has_the_name_of_this():
    assert names(["h.0.linear"], ["h.0.linear", "h.1.linear"]) == ["h.0.linear"]


def test_a_sentence_says_that_it_is_the_whole():
    (site,) = evidence({("h.0.up", "WeightNorm"): 1.0}).series
    assert (named(site, "h.0.up"), named(site, "h.0")) == ("'h.0.up'", "'h.0' as a whole")


@pytest.mark.parametrize(
    ("modules", "block"),
    [(["h.1.up"], "h.1.up"), (["h.1.up", "h.1.down"], "h.1"), (["h.1.up", "head"], "")],
)
def test_the_smallest_part_that_holds_all(modules, block):
    assert common_block(modules) == block
