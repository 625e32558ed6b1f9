"""The logits that a loss chooses by."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from taiyi_fx.findings import loss_graph_of, owners_of

MODEL = nn.ModuleDict({"body": nn.Linear(6, 8), "head": nn.Linear(8, 5), "one": nn.Linear(8, 1)})
X, Y = torch.randn(12, 6), torch.randint(5, (12,))
ONES = torch.ones(12, 1)


def logits(loss):
    return loss_graph_of(loss, owners_of(dict(MODEL.named_modules()))).logits


def made():
    return MODEL["head"](MODEL["body"](X))


def test_a_cross_entropy_says_its_module_cases_and_classes():
    known = logits(F.cross_entropy(made(), Y))
    assert known == ("head", 12, 5, True, True, True)


def test_a_binary_one_has_two_classes():
    known = logits(F.binary_cross_entropy_with_logits(MODEL["one"](MODEL["body"](X)), ONES))
    assert (known.module, known.cases, known.classes, known.is_output) == ("one", 12, 2, True)


def test_it_is_known_after_a_backward_too():
    loss = F.cross_entropy(made(), Y)
    loss.backward()
    assert logits(loss).classes == 5


@pytest.mark.parametrize(
    ("loss", "is_output", "is_mean", "is_whole"),
    [
        (lambda: F.cross_entropy(made() / 0.07, Y), False, True, True),
        (lambda: F.cross_entropy(made(), Y, reduction="sum"), True, False, True),
        (lambda: F.cross_entropy(made(), Y, weight=torch.ones(5)), True, False, True),
        (lambda: 3 * torch.stack([F.cross_entropy(made(), Y)]).mean() / 7, True, True, True),
        (lambda: F.cross_entropy(made(), Y) + made().square().mean(), True, True, False),
        (lambda: F.cross_entropy(made().view(3, 4, 5).flatten(0, 1), Y), True, True, True),
    ],
    ids=["temperature", "sum", "weighted", "multiple", "other terms", "rearranged"],
)
def test_what_lies_before_and_behind_it_is_told(loss, is_output, is_mean, is_whole):
    known = logits(loss())
    assert (known.is_output, known.is_mean, known.is_whole) == (is_output, is_mean, is_whole)


@pytest.mark.parametrize(
    "loss",
    [
        lambda: F.mse_loss(made(), torch.zeros(12, 5)),
        lambda: F.cross_entropy(made(), Y) + F.cross_entropy(made(), Y),
        lambda: F.nll_loss(made().softmax(1).log(), Y),
        lambda: torch.tensor(1.0),
    ],
    ids=["no classes", "two", "logarithms of its own", "no graph"],
)
def test_of_none_and_of_several_nothing_is_known(loss):
    assert logits(loss()) is None


@pytest.mark.parametrize(
    "loss",
    [
        lambda: F.cross_entropy(made(), Y, weight=torch.ones(5)),
        lambda: F.binary_cross_entropy_with_logits(MODEL["one"](MODEL["body"](X)), ONES, ONES),
    ],
    ids=["classes", "binary"],
)
def test_weights_that_a_backward_released_are_known_to_have_been_there(loss):
    value = loss()
    value.backward()
    assert not logits(value).is_mean


def test_of_a_product_without_a_parameter_the_module_is_not_known():
    """As of the cosines of ArcFace: what the layer before returns has another size."""
    centres = nn.Parameter(torch.randn(5, 8))
    cosines = F.normalize(MODEL["body"](X)) @ F.normalize(centres).T
    known = logits(F.cross_entropy(64 * cosines, Y))
    assert (known.module, known.classes) == ("", 5)
    assert logits(F.cross_entropy(64 * made(), Y)).module == "head"


SHARES = torch.full((12, 5), 0.2)


def of_shares(loss):
    return loss_graph_of(loss, owners_of(dict(MODEL.named_modules()))).of_shares


@pytest.mark.parametrize("wrap", [lambda x: x, lambda x: torch.stack([x]).mean()])
def test_the_logits_of_a_cross_entropy_with_shares_are_known(wrap):
    loss = wrap(F.cross_entropy(made(), SHARES))
    assert of_shares(loss) == ("head", 12, 5, True, True, True)
    loss.backward()
    assert of_shares(loss).classes == 5


@pytest.mark.parametrize(
    "loss",
    [
        lambda: 4 * F.cross_entropy(made(), SHARES),
        lambda: F.cross_entropy(made(), SHARES) + F.cross_entropy(made(), SHARES),
        lambda: F.cross_entropy(made(), Y),
        lambda: F.mse_loss(made(), SHARES),
        lambda: torch.tensor(1.0),
    ],
    ids=["multiple", "two", "classes", "error", "no graph"],
)
def test_of_other_losses_none_are(loss):
    assert of_shares(loss()) is None
