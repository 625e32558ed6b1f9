"""Losses that models return themselves."""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import NamedTuple

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import taiyi_fx
from taiyi_fx.watch.returned_loss import ReturnedLoss, loss_in

X = torch.ones(3, requires_grad=True)
LOSS, LOGITS = X.sum(), X * 2


@dataclass
class Output:
    loss: torch.Tensor
    logits: torch.Tensor


class Named(NamedTuple):
    loss: torch.Tensor
    logits: torch.Tensor


class Ordered(OrderedDict):
    """As transformers' outputs are."""


class Lazy:
    """Something whose code is not to be run to find out."""

    @property
    def loss(self):
        raise RuntimeError("asked")


class Own(Mapping):
    def __getitem__(self, name):
        raise RuntimeError("asked")

    __iter__ = __len__ = get = __getitem__


class Slotted:
    __slots__ = ("loss",)


@pytest.mark.parametrize(
    "returned",
    [
        LOSS,
        (LOGITS, LOSS),
        [LOSS, None],
        {"loss": LOSS, "other": LOSS * 2},
        Output(LOSS, LOGITS),
        SimpleNamespace(loss=LOSS),
        Named(LOSS, LOGITS),
        Ordered(loss=LOSS, logits=LOGITS),
    ],
    ids="alone tuple list mapping dataclass object named ordered".split(),
)
def test_a_loss_is_found_in_what_is_returned(returned):
    assert loss_in(returned) is LOSS


@pytest.mark.parametrize(
    "returned",
    [
        None,
        LOGITS,
        LOSS.detach(),
        (LOSS, LOSS * 2),
        {"total": LOSS},
        Output(LOGITS, LOGITS),
        Output(LOSS.detach(), LOGITS),
        "loss",
        Lazy(),
        Own(),
        Slotted(),
    ],
    ids="none tensor detached two unnamed many without_graph text lazy own slotted".split(),
)
def test_in_other_things_there_is_none(returned):
    assert loss_in(returned) is None


class Returning(nn.Module):
    """A classifier that softmaxes its logits twice."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 4)

    def forward(self, x, y=None):
        shares = self.layer(x).softmax(1)
        return {"loss": F.cross_entropy(shares, y)} if self.training else shares


@pytest.mark.parametrize("log", [None, torch.Tensor.item, torch.Tensor.detach])
@pytest.mark.parametrize("compiled", [False, True])
def test_how_it_is_made_is_known_where_numbers_alone_are_logged(log, compiled):
    torch.manual_seed(0)
    model = Returning()
    watched = taiyi_fx.instrument(model, {"layer": ["OutputRMS"]})
    called = torch.compile(watched, backend="eager") if compiled else watched
    for step in range(12):
        x, y = torch.randn(64, 8), torch.randint(4, (64,))
        loss = called(x, y)["loss"]
        if log is not None:
            watched.monitor.log("train/loss", log(loss))
        loss.backward()
        watched.monitor.track(step)
        model.zero_grad()
    told = [found.kind for found in watched.monitor.findings]
    assert ("squashed_loss" in told) == (log is not None)
    assert watched.monitor._responder.diagnosis.losses.late == []


def test_what_is_logged_with_its_graph_counts():
    model = Returning()
    watched = taiyi_fx.instrument(model)
    loss = watched(torch.randn(64, 8), torch.randint(4, (64,)))["loss"]
    watched.monitor.log(
        "loss", F.cross_entropy(model.layer(torch.randn(64, 8)), torch.zeros(64).long())
    )
    loss.backward()
    watched.monitor.track(0)
    known = watched.monitor._responder.diagnosis.losses.read(["loss"])
    assert known["loss"].squashed is None


@pytest.mark.parametrize("kind", [Lazy, Own])
def test_a_model_may_return_what_must_not_be_asked(kind):
    class Model(nn.Linear):
        def forward(self, x):
            self.returned = super().forward(x)
            return kind()

    model = Model(4, 2)
    watched = taiyi_fx.instrument(model)
    watched(torch.randn(16, 4))
    model.returned.sum().backward()
    watched.monitor.track(0)


@pytest.mark.parametrize(("is_share", "expected"), [(False, 2.0), (True, 4.0)])
def test_the_losses_of_micro_batches_are_one_number(is_share, expected):
    """Their mean, or their sum where each is a share by the number of all."""
    loss = ReturnedLoss()
    loss.add({"loss": X[:1].sum()}, is_share=is_share)
    loss.add({"loss": X.sum()}, is_share=is_share)
    loss.add({"logits": LOGITS}, is_share=is_share)
    assert loss.take() == expected
    assert loss.take() is None
