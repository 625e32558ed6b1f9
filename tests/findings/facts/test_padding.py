"""Padding in what an embedding is given."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from taiyi_fx.findings.facts.autograd import Uses
from taiyi_fx.findings.facts.padding import padding_of

GENERATOR = torch.Generator().manual_seed(0)
IDS = torch.randint(1, 20, (8, 12), generator=GENERATOR)
LENGTHS = torch.tensor([12, 10, 9, 8, 6, 5, 4, 3])
PADDED = torch.where(torch.arange(12) < LENGTHS[:, None], IDS, 0)
TABLE, HEAD = nn.Embedding(20, 4), nn.Linear(4, 20)
OWNERS = {id(TABLE.weight): "words"}


def padding(ids, targets=None, **options):
    targets = ids if targets is None else targets
    loss = F.cross_entropy(HEAD(TABLE(ids)).flatten(0, -2), targets.flatten(), **options)
    return padding_of(Uses.of(loss, OWNERS))


def test_sequences_that_end_in_runs_of_one_token_are_padded():
    found = padding(PADDED)
    assert (found.module, found.token, found.sequences) == ("words", 0, 7 / 8)
    assert found.targets == pytest.approx(1 - float(LENGTHS.sum()) / 96)


def test_targets_that_are_left_out_are_none():
    assert padding(PADDED, ignore_index=0).targets == 0
    assert padding(PADDED, torch.where(PADDED > 0, PADDED, -100)).targets == 0


SHOWN = PADDED != 0
WEIGHT = torch.where(torch.arange(20) == 0, 0.0, 1.0)


def each():
    return F.cross_entropy(HEAD(TABLE(PADDED)).transpose(1, 2), PADDED, reduction="none")


@pytest.mark.parametrize(
    "loss",
    [
        lambda: (each() * SHOWN).sum() / SHOWN.sum(),
        lambda: (each().view(-1) * SHOWN.view(-1)).sum() / SHOWN.sum(),
        lambda: ((each() * SHOWN).sum(1) / SHOWN.sum(1)).mean(),
        lambda: each()[SHOWN].mean(),
        lambda: each().masked_select(SHOWN).mean(),
        lambda: each().masked_fill(~SHOWN, 0.0).sum() / SHOWN.sum(),
        lambda: torch.where(SHOWN, each(), 0.0).sum() / SHOWN.sum(),
        lambda: F.cross_entropy(HEAD(TABLE(PADDED)).transpose(1, 2), PADDED, weight=WEIGHT),
        lambda: F.cross_entropy(HEAD(TABLE(PADDED))[SHOWN], PADDED[SHOWN]),
    ],
)
def test_targets_that_are_masked_are_none(loss):
    assert padding_of(Uses.of(loss(), OWNERS)).targets == 0


def test_a_token_that_is_no_class_has_no_weight():
    few = torch.where(PADDED > 0, PADDED % 3, 2)
    logits = nn.Linear(4, 3)(TABLE(torch.where(PADDED > 0, PADDED % 19, 19)))
    loss = F.cross_entropy(logits.transpose(1, 2), few, weight=torch.ones(3))
    assert padding_of(Uses.of(loss, OWNERS)).targets == 0


@pytest.mark.parametrize(
    "reduced", [torch.mean, lambda x: x.view(-1).sum() / 7, lambda x: x.mean(1).sum()]
)
def test_targets_that_are_reduced_unmasked_count(reduced):
    found = padding_of(Uses.of(reduced(each()), OWNERS))
    assert found.targets == pytest.approx(1 - float(LENGTHS.sum()) / 96)


@pytest.mark.parametrize(
    "ids",
    [IDS, torch.where(torch.arange(12) < 9, IDS, 0), PADDED.flatten(), PADDED[:3], PADDED.flip(1)],
    ids=["none", "one length", "no sequences", "few", "on the left"],
)
def test_others_are_not(ids):
    assert padding(ids) is None


def test_a_token_that_is_common_elsewhere_is_no_padding():
    assert padding(torch.where(torch.arange(12) % 3 == 0, 0, PADDED)) is None


def test_after_backward_it_is_not_known():
    loss = F.cross_entropy(HEAD(TABLE(PADDED)).flatten(0, 1), PADDED.flatten())
    loss.backward()
    assert padding_of(Uses.of(loss, OWNERS)) is None
