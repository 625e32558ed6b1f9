"""Targets that are what the model is given."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from taiyi_fx.findings import owners_of
from taiyi_fx.findings.facts.autograd import Uses
from taiyi_fx.findings.facts.copied import copied, shifted
from tests.findings.facts.losses import LABELS, K, many


def copied_of(targets, *given):
    """The embedding that is given the targets, of a model with one table for each input."""
    tables = nn.ModuleDict({f"t{i}": nn.Embedding(K, 6) for i in range(len(given))})
    x = sum(table(ids) for table, ids in zip(tables.values(), given, strict=True))
    return copied(Uses.of(F.cross_entropy(many(x), targets), owners_of({**tables})))


def test_targets_that_are_an_embedding_s_indices_are_copied_of():
    other = LABELS.roll(1)
    assert copied_of(LABELS, LABELS) == "t0"
    assert copied_of(LABELS.where(LABELS > 2, -100), LABELS) == "t0"
    assert copied_of(other, LABELS) == ""


def test_where_another_embedding_is_given_others_it_is_that_of_an_encoder():
    assert copied_of(LABELS, LABELS, LABELS.roll(1)) == ""


@pytest.mark.parametrize(("earlier", "found"), [(1, ""), (2, "t0"), (0, "t0")])
def test_a_decoder_is_given_the_token_before_each_target(earlier, found):
    tables = nn.ModuleDict({name: nn.Embedding(K, 6) for name in ("t0", "t1")})
    ids = torch.randint(K, (5, 12))
    x = tables["t0"](ids[:, 2:]) + tables["t1"](ids[:, 2 - earlier : 12 - earlier])
    loss = F.cross_entropy(many(x.flatten(0, 1)), ids[:, 2:].flatten())
    assert copied(Uses.of(loss, owners_of({**tables}))) == found


def test_targets_that_are_all_one_class_say_nothing():
    assert copied_of(torch.ones_like(LABELS), torch.ones_like(LABELS)) == ""


WORDS = torch.randint(K, (3, 16), generator=torch.Generator().manual_seed(0))


def shifted_of(by, *others):
    """The embedding whose indices are the targets of a model, some places later, and how many."""
    tables = nn.ModuleDict({f"t{i}": nn.Embedding(K, 6) for i in range(1 + len(others))})
    x = sum(table(ids) for table, ids in zip(tables.values(), (WORDS, *others), strict=True))
    targets = torch.full_like(WORDS, -100)
    targets[:, : 16 - by] = WORDS[:, by:]
    loss = F.cross_entropy(nn.Linear(6, K)(x).flatten(0, 1), targets.flatten())
    return shifted(Uses.of(loss, owners_of({**tables})))


def test_targets_that_are_an_embedding_s_indices_some_places_later_are_shifted_of():
    assert [shifted_of(by) for by in (0, 1, 2, 3)] == [None, ("t0", 1), ("t0", 2), ("t0", 3)]


def test_where_the_first_places_have_no_targets_they_may_be_a_prefix():
    x = nn.Embedding(K, 6)(WORDS)
    targets = torch.full_like(WORDS, -100)
    targets[:, 5:15] = WORDS[:, 6:]
    loss = F.cross_entropy(nn.Linear(6, K)(x).flatten(0, 1), targets.flatten())
    assert shifted(Uses.of(loss, {})) is None


def test_few_targets_may_be_tokens_two_places_later_by_chance():
    ids = WORDS[:, :6]
    targets = torch.full_like(ids, -100)
    targets[:, 3] = ids[:, 5]
    x = nn.Embedding(K, 6)(ids)
    loss = F.cross_entropy(nn.Linear(6, K)(x).flatten(0, 1), targets.flatten())
    assert shifted(Uses.of(loss, {})) is None


def test_where_another_embedding_is_given_the_token_before_it_is_a_decoder_s():
    assert shifted_of(2, WORDS.roll(-1, 1)) is None
