"""The lines at which a gradient ends."""

import sys

import pytest
import torch

from taiyi_fx.step_checks.cuts import Cut, WatchingCuts, in_words

WAYS = {
    "detach": lambda x: x.detach(),
    "data": lambda x: x.data,
    "item": lambda x: x.sum().item(),
    "numpy": lambda x: x.detach_().numpy(),
    "tolist": lambda x: x.tolist(),
    "torch.tensor": lambda x: torch.tensor(x.sum()),
}


@pytest.mark.filterwarnings("ignore:To copy construct")
@pytest.mark.parametrize("what", [name for name in WAYS if name != "numpy"])
def test_each_way_is_known_by_its_line(what):
    watching = WatchingCuts()
    x = torch.ones(2, requires_grad=True)
    with watching:
        WAYS[what](x * 2)
    (cut,) = watching.named()
    assert (cut.what, cut.file) == (what, __file__)
    assert cut.line == WAYS[what].__code__.co_firstlineno


def test_what_is_computed_without_grad_is_known_by_its_line():
    watching = WatchingCuts()
    x = torch.ones(2, requires_grad=True)
    with watching, torch.no_grad():
        x.shape  # noqa: B018
        _ = x * 2
        line = sys._getframe().f_lineno - 1
    assert watching.named() == [Cut("no_grad", __file__, line)]


def test_what_has_no_graph_is_not_cut():
    watching = WatchingCuts()
    with watching:
        torch.ones(2).detach().sum().item()
    assert watching.named() == []


def test_what_is_written_to_stop_a_gradient_is_named_alone():
    watching = WatchingCuts()
    x = torch.ones(2, requires_grad=True)
    with watching:
        x.sum().item()
        x.detach()
    assert [cut.what for cut in watching.named()] == ["detach"]


def test_the_first_three_are_in_words():
    cuts = [Cut("item", "/a/train.py", line) for line in range(1, 5)]
    assert in_words(cuts[:1]) == "item at train.py:1"
    assert in_words(cuts).endswith("item at train.py:3, ...")
