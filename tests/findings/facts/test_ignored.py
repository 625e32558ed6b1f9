"""Classes that a loss leaves out."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from taiyi_fx.findings.facts.autograd import Uses
from taiyi_fx.findings.facts.ignored import ignored_class

TABLE, HEAD = nn.Embedding(50, 8), nn.Linear(8, 5)
TOKENS = torch.randint(1, 50, (16, 12), generator=torch.Generator().manual_seed(0))
TOKENS[:, 8:] = 0
"""Padded to 12 places."""
TAGS = torch.where(TOKENS > 0, TOKENS % 5, 0)
OWN = torch.where(TOKENS > 0, TOKENS % 4 + 1, 0)


def found(targets, head=HEAD, **others):
    logits = head(TABLE(TOKENS))
    return ignored_class(
        Uses.of(F.cross_entropy(logits.flatten(0, 1), targets.flatten(), **others))
    )


def test_a_class_of_tokens_that_is_left_out_with_the_padding_is_found():
    odd = found(TAGS, ignore_index=0)
    assert odd is not None
    assert odd.number == 0
    assert odd.share == pytest.approx(float((TAGS == 0).double().mean()))
    assert odd.tokens == pytest.approx(float((TOKENS[TAGS == 0] > 0).double().mean()))
    logits = HEAD(TABLE(TOKENS)).transpose(1, 2)
    assert ignored_class(Uses.of(F.cross_entropy(logits, TAGS, ignore_index=0))) == odd


@pytest.mark.parametrize(
    ("targets", "index"), [(OWN, 0), (TAGS, -100), (TAGS, 4)], ids=["padding", "none", "few"]
)
def test_padding_of_its_own_is_none(targets, index):
    targets = torch.where(targets == 4, 3, targets) if index == 4 else targets
    assert found(targets, ignore_index=index) is None


def test_guesses_at_tokens_and_a_loss_after_its_backward_have_none():
    assert found(TOKENS, nn.Linear(8, 50), ignore_index=3) is None
    loss = F.cross_entropy(HEAD(TABLE(TOKENS)).flatten(0, 1), TAGS.flatten(), ignore_index=0)
    loss.backward()
    assert ignored_class(Uses.of(loss)) is None
