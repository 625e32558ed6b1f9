"""Entries of a key: names, quantities and requests, and what is wrong with others."""

import pytest
import torch
from torch import nn

import taiyi_fx
from taiyi_fx.config.check import check
from taiyi_fx.config.entries import place
from tests.config.given import Net, matched, problems


def test_entries_may_be_quantities_and_requests():
    mine = taiyi_fx.Quantity("mine", lambda n: n, {"n": taiyi_fx.input.norm})
    cfg = {"fc": [mine, mine.at(taiyi_fx.every(3), tensor=0), [mine, "every(2)", {"tensor": 1}]]}
    labels = [s.label for s in check(Net(), cfg).subscriptions]
    assert labels == ["mine", "mine(tensor=0)", "mine(tensor=1)"]


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        (7, "7 is not an entry"),
        ([], "[] is not an entry"),
        (["InputMean", "linear(1,0)", {}, 1], "is not an entry"),
        (["InputMean", 5], "5 is not a schedule"),
        (["InputMean", "linear(1,0)", "x"], "options are a dictionary"),
        ([3], "a quantity's name or a quantity belongs first"),
        ("linear(5, 0)", "It is a schedule"),
        (
            ["InputMean", "linear(1,0)", {"reduce": "rows"}],
            "must be 'all' or 'feature', not 'rows'",
        ),
        (["InputCovCondition", "every(1)", {"centered": 1}], "must be True or False, not 1"),
        (
            ["InputCovCondition", "every(1)", {"p": "x"}],
            "must be a number of at least 0 and below 1 or None, not 'x'",
        ),
        (
            ["InputCovCondition", "every(1)", {"p": 1.5}],
            "must be a number of at least 0 and below 1 or None, not 1.5",
        ),
        (["ForwardInput", "every(1)", {"max_elements": 0}], "must be a positive whole number"),
        (["WeightNorm", "every(1)", {"param": 1}], "must be a text, not 1"),
    ],
)
def test_a_malformed_entry_says_what_is_wrong(entry, text):
    (problem,) = problems({"fc": [entry]})
    assert text in problem


def test_a_single_quantity_needs_no_list():
    assert matched("fc") == [s.module for s in check(Net(), {"fc": "InputSndNorm"}).subscriptions]


@pytest.mark.parametrize(
    ("key", "text"),
    [("fc", "cfg['fc']"), (nn.Linear, "cfg[Linear]"), (torch.relu, "cfg[relu]")],
)
def test_a_place_is_written_as_the_user_wrote_it(key, text):
    assert place(key) == text
