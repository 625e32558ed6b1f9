"""The targets of one batch, and those of a judge."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from taiyi_fx.findings.facts.autograd import Uses
from taiyi_fx.findings.facts.targets import Targets, is_judging, targets_of

LOGITS = torch.randn(8, 4, requires_grad=True)
CLASSES = torch.tensor([2, 1, 3, 1, -100, 2, 1, 1])
ONES, ZEROS, MIXED = torch.ones(8), torch.zeros(8), torch.arange(8.0) / 7


def one(x=LOGITS):
    return x[:, 0] * 1.0


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        (lambda: F.cross_entropy(LOGITS, CLASSES), Targets(8, False, 1, 3)),
        (lambda: F.cross_entropy(LOGITS, CLASSES.clamp(min=0)), Targets(8, False, 0, 3)),
        (lambda: F.cross_entropy(LOGITS, CLASSES.clamp(min=0).byte()), Targets(8, False, 0, 3)),
        (lambda: F.cross_entropy(LOGITS, ONES.long()) + one().sum(), Targets(8, False, 1, 1)),
        (
            lambda: F.binary_cross_entropy_with_logits(one(), 255 * MIXED),
            Targets(8, True, 0.0, 255.0),
        ),
        (lambda: F.binary_cross_entropy(one().sigmoid(), ONES), Targets(8, True, 1.0, 1.0)),
    ],
    ids=["some left out", "all", "bytes", "with a term", "no shares", "one class"],
)
def test_the_range_of_the_targets_is_known(loss, expected):
    notes = targets_of(loss())
    assert notes is not None
    assert notes.read() == expected


def released():
    loss = F.cross_entropy(LOGITS, CLASSES)
    loss.backward()
    return loss


@pytest.mark.parametrize(
    "loss",
    [
        lambda: F.mse_loss(one(), MIXED),
        lambda: F.cross_entropy(LOGITS, CLASSES) + F.cross_entropy(LOGITS, CLASSES),
        released,
        lambda: 1.0,
    ],
    ids=["an error", "two", "after backward", "a number"],
)
def test_of_others_nothing_is_known(loss):
    assert targets_of(loss()) is None


def test_where_all_is_left_out_there_is_no_class():
    notes = targets_of(F.cross_entropy(LOGITS, torch.full((8,), -100)))
    assert notes is not None
    assert not notes.read().is_of_one


JUDGE = nn.Linear(4, 1)
REAL, MADE = torch.randn(8, 4), torch.randn(8, 4)


def judged(error, real, made, squash=lambda x: x):
    return error(squash(JUDGE(REAL))[:, 0], real) + error(squash(JUDGE(MADE))[:, 0], made)


@pytest.mark.parametrize(
    ("loss", "is_one"),
    [
        (lambda: judged(F.binary_cross_entropy_with_logits, ONES, ZEROS), True),
        (lambda: judged(F.binary_cross_entropy_with_logits, 0.9 * ONES, ZEROS) / 2, True),
        (lambda: judged(F.binary_cross_entropy, ONES, ZEROS, torch.sigmoid), True),
        (lambda: judged(F.mse_loss, ONES, ZEROS), True),
        (lambda: judged(F.binary_cross_entropy_with_logits, ONES, ONES), False),
        (lambda: judged(F.binary_cross_entropy_with_logits, MIXED, ZEROS), False),
        (lambda: F.binary_cross_entropy_with_logits(JUDGE(REAL)[:, 0], ONES), False),
        (lambda: F.mse_loss(JUDGE(REAL)[:, 0], MIXED), False),
        (lambda: JUDGE(REAL).mean(), False),
    ],
    ids=[
        *("yes and no", "softer", "of shares", "squares", "the same", "one of several"),
        *("a generator", "an error", "no targets"),
    ],
)
def test_a_judge_asks_for_one_answer_to_some_and_another_to_others(loss, is_one):
    assert is_judging(Uses.of(loss())) == is_one
