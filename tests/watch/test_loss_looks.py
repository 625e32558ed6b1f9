"""Losses are looked at as they are logged, and seldom."""

import pytest
import torch
import torch.nn.functional as F

from taiyi_fx.findings import Squashed
from taiyi_fx.warning import MonitorWarning
from taiyi_fx.watch.loss_looks import LossLooks


def test_a_loss_of_what_was_squashed_already_is_known_from_its_first_value():
    looks = LossLooks({})
    logits = torch.randn(4, 3, requires_grad=True)
    y = torch.tensor([0, 1, 2, 0])
    looks.look_at("my loss", F.cross_entropy(logits.softmax(1), y))
    looks.look_at("my loss", F.cross_entropy(logits, y))
    looks.look_at("accuracy", F.cross_entropy(logits.softmax(1), y))
    ((name, known),) = looks.read().items()
    assert (name, known.squashed) == ("my loss", Squashed("squashed", "softmax"))


def test_one_that_is_logged_after_its_backward_is_named():
    looks = LossLooks({})
    for name in ("loss", "later loss"):
        loss = F.cross_entropy(torch.randn(4, 3, requires_grad=True), torch.tensor([0, 1, 2, 0]))
        if name != "loss":
            loss.backward()
        looks.look_at(name, loss)
    assert looks.late == ["later loss"]


class Torn:
    """A loss whose graph cannot be read."""

    @property
    def grad_fn(self):
        raise RuntimeError("no such graph")


def test_a_loss_that_cannot_be_looked_at_is_a_warning_and_once():
    looks = LossLooks({})
    with pytest.warns(MonitorWarning, match=r"how 'loss' is made .*no such graph"):
        looks.look_at("loss", Torn())
    looks.look_at("loss", Torn())  # a warning would be an error


def test_strictly_it_is_an_error():
    with pytest.raises(RuntimeError, match="no such graph"):
        LossLooks({}, strict=True).look_at("loss", Torn())


def test_targets_are_looked_at_again_after_four_times_as_many_numbers():
    looks = LossLooks({})
    for step in range(20):
        returned = torch.zeros(64, 1, requires_grad=True)
        targets = (step + 1) * torch.randn(64, 1)
        looks.look_at("loss", F.mse_loss(returned * 1, targets))
        choices = torch.zeros(64, 9, requires_grad=True)
        looks.look_at("other loss", F.cross_entropy(choices, torch.full((64,), step % 9)))
    for _ in range(2):  # what was read once is known
        known = looks.read()
        spread = [one.target for one in known["loss"].regressions]
        assert spread == pytest.approx([1, 4, 16], rel=0.3)
        assert [one.least for one in known["other loss"].targets] == [0, 3, 15 % 9]
        assert known["loss"].targets == known["other loss"].regressions == ()
