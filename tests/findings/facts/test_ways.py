"""The ways from a loss back."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from taiyi_fx.findings import owners_of
from taiyi_fx.findings.facts.autograd import Uses
from taiyi_fx.findings.facts.ways import (
    first_place,
    last_place,
    reached_by,
    takes_rows,
    terms_of,
)

PARTS = nn.ModuleDict({"body": nn.Linear(6, 8), "head": nn.Linear(8, 3), "other": nn.Linear(6, 8)})
OWNERS = owners_of(dict(PARTS.named_modules()))
X, Y = torch.randn(4, 5, 6), torch.randint(3, (4,))


def loss(pool):
    return Uses.of(F.cross_entropy(PARTS["head"](pool(PARTS["body"](X))), Y), OWNERS)


@pytest.mark.parametrize(
    ("pool", "found"),
    [
        (lambda x: x[:, 0], "body"),
        (lambda x: x[:, 0].relu(), "body"),
        (lambda x: x[:, 1], None),
        (lambda x: x[:, -1], None),
        (lambda x: x.mean(1), None),
        (lambda x: x[:, 0] + x.mean(1), None),
    ],
    ids=["first", "activated", "second", "last", "mean", "both"],
)
def test_the_first_place_is_seen_where_it_is_taken_alone(pool, found):
    assert first_place(loss(pool)) == found


@pytest.mark.parametrize(
    ("pool", "found"),
    [
        (lambda x: x[:, -1], "body"),
        (lambda x: x[:, 4].relu(), "body"),
        (lambda x: x[:, 0], None),
        (lambda x: x.transpose(0, 1)[-1], None),
        (lambda x: x[:, -1] + x.mean(1), None),
    ],
    ids=["last", "counted", "first", "of another axis", "both"],
)
def test_the_last_place_is_seen_likewise(pool, found):
    assert last_place(loss(pool)) == found


def test_a_loss_without_classes_has_no_first_place():
    assert first_place(Uses.of(PARTS["body"](X)[:, 0].mean(), OWNERS)) is None


def test_a_cross_entropy_reaches_what_makes_its_logits_and_no_other_term():
    logits = PARTS["head"](PARTS["body"](X)[:, 0])
    both = F.cross_entropy(logits, Y) + PARTS["other"](X).square().mean()
    assert reached_by(Uses.of(both, OWNERS)) == {"body", "head"}


def test_another_loss_reaches_all_that_it_is_made_of():
    both = PARTS["body"](X).mean() + PARTS["other"](X).square().mean()
    assert reached_by(Uses.of(both, OWNERS)) == {"body", "other"}


ROWS = torch.tensor([0, 2, 3])


@pytest.mark.parametrize(
    ("taken", "is_taken"),
    [
        (lambda x: F.cross_entropy(x[ROWS], Y[ROWS]), True),
        (lambda x: F.cross_entropy(x[Y > 0], Y[Y > 0]), True),
        (lambda x: F.nll_loss(x.log_softmax(-1).index_select(0, ROWS), Y[ROWS]), True),
        (lambda x: F.mse_loss(x[ROWS], torch.ones(3, 3)), True),
        (lambda x: F.cross_entropy(x, Y), False),
        (lambda x: F.cross_entropy(PARTS["head"](PARTS["body"](X[:, 0])[ROWS]), Y[ROWS]), False),
    ],
    ids=["rows", "mask", "logarithms", "error", "all", "before the last layer"],
)
def test_rows_of_what_the_last_layer_returns_that_are_taken_alone(taken, is_taken):
    torch.manual_seed(0)
    Y[0] = 1
    assert takes_rows(Uses.of(taken(PARTS["head"](PARTS["body"](X[:, 0]))))) == is_taken


@pytest.mark.parametrize(
    ("made", "terms"),
    [
        (lambda a, b: a + b.detach(), (1, True)),
        (lambda a, b: 0.5 * (b - (a + 3.0)) / 2, (2, True)),
        (lambda a, b: a + b, (2, False)),
        (lambda a, b: sum([a, b]), (2, True)),
        (lambda a, b: 3 * a, (1, False)),
        (lambda a, b: (X @ PARTS["body"].weight.T + 1).mean(), (1, False)),
    ],
    ids=["detached", "a number within", "both", "from 0 on", "a factor", "within the model"],
)
def test_the_terms_of_a_sum_are_counted(made, terms):
    a, b = (PARTS[name](X).square().mean() for name in ("body", "other"))
    assert terms_of(Uses.of(made(a, b))) == terms
