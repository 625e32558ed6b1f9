"""Masks of attention that are turned round, or missing in one block."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import taiyi_fx
from taiyi_fx.findings import Attributes
from taiyi_fx.findings.rules.attention.masks import (
    masks_ahead,
    missing_masks,
    narrow_masks,
    reading_ahead,
    turned_masks,
)
from tests.findings.given import evidence, knowing

LENGTHS = 0.3 + 0.4 * np.random.default_rng(0).random(40)
SITES = [f"h.{i}.attn.attention()" for i in range(5)]


def ahead(*shares):
    return evidence({(site, "AttentionAhead"): x for site, x in zip(SITES, shares, strict=False)})


def test_queries_that_see_the_future_alone_are_named():
    (found,) = turned_masks(ahead(0.0, 1.0, 0.0, 0.0))
    assert (found.module, found.severity, found.kind) == (SITES[1], "alert", "turned_mask")
    assert [*missing_masks(ahead(0.0, 1.0, 0.0, 0.0))] == []


def test_the_one_that_sees_later_keys_where_others_never_do_is_named():
    (found,) = missing_masks(ahead(0.0, 0.0, 0.12, 0.0))
    assert (found.module, found.severity) == (SITES[2], "warning")
    assert "give 0.12 of their weight" in found.text


@pytest.mark.parametrize(
    "shares",
    [
        (0.0, 0.0, 0.0, 0.0),
        (0.5, 0.4, 0.5, 0.6),
        (0.5, 0.0, 0.5, 0.0),  # a pattern of the model's own
        (0.0, 0.5, 0.0),  # few siblings
        (0.0, 0.0, 0.0, np.where(np.arange(40) < 20, 0.0, 0.5)),  # of some batches
    ],
)
def test_models_that_see_all_and_models_that_see_the_past_are_none(shares):
    assert [*missing_masks(ahead(*shares)), *turned_masks(ahead(*shares))] == []


@pytest.mark.parametrize(("odd", "found"), [(None, [SITES[1]]), ({"kind": "Cross"}, [])])
def test_of_three_in_modules_of_one_class_and_size_one_is_told(odd, found):
    one = Attributes("Attention", {}, sizes=(("qkv", (24, 8)),))
    homes = {f"h.{i}.attn": one for i in range(3)}
    homes["h.1.attn"] = one._replace(**odd or {})
    known = knowing(ahead(0.0, 0.5, 0.0), attributes=homes)
    assert [each.module for each in missing_masks(known)] == found


def allowed(**shares):
    return evidence({(name, "AttentionAllowed"): x for name, x in shares.items()})


def test_a_mask_that_allows_what_others_hide_in_each_batch_is_named():
    (found,) = turned_masks(allowed(a=LENGTHS, b=LENGTHS, cross=1 - LENGTHS))
    assert (found.module, found.severity) == ("cross", "warning")
    assert "'cross' may see the share of keys that 'a' and 'b' may not" in found.text


@pytest.mark.parametrize(
    "shares",
    [
        {"a": LENGTHS, "b": LENGTHS},
        {"a": 0.5, "b": 0.5},  # of causal attention it is nearly a half
        {"a": LENGTHS, "b": 1 - LENGTHS[::-1]},
        {"a": 0.3, "b": 0.7},  # windows of one length
    ],
)
def test_masks_of_lengths_of_their_own_are_none(shares):
    assert [*turned_masks(allowed(**shares))] == []


class Block(nn.Module):
    def __init__(self, mask):
        super().__init__()
        self.qkv, self.mask = nn.Linear(8, 24), mask

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, 2, 4)).permute(2, 0, 3, 1, 4)
        return x + F.scaled_dot_product_attention(q, k, v, self.mask).transpose(1, 2).flatten(2)


@pytest.mark.parametrize("diagonal", [0, 1])
def test_a_model_with_masks_as_multihead_attention_takes_them_is_told_by_the_preset(diagonal):
    past = torch.ones(6, 6, dtype=torch.bool).tril()
    blocks = [Block(past) for _ in range(4)]
    blocks[2].mask = torch.ones(6, 6, dtype=torch.bool).triu(diagonal)
    model = nn.Sequential(*blocks, nn.Linear(8, 1))
    watched = taiyi_fx.instrument(model, "transformer")
    for step in range(10):
        watched(torch.randn(4, 6, 8)).square().mean().backward()
        watched.monitor.track(step)
    kinds = {one.kind: one.module for one in watched.monitor.findings}
    assert kinds["turned_mask" if diagonal else "missing_mask"] == "2.attention()"


@pytest.mark.parametrize("n", [3, 4])
def test_an_attention_of_three_that_is_given_no_mask_is_told_by_the_preset(n):
    past = torch.ones(6, 6, dtype=torch.bool).tril()
    blocks = [Block(None if i == 1 else past) for i in range(n)]
    watched = taiyi_fx.instrument(nn.Sequential(*blocks, nn.Linear(8, 1)), "transformer")
    for step in range(10):
        watched(torch.randn(4, 6, 8)).square().mean().backward()
        watched.monitor.track(step)
    kinds = {one.kind: one.module for one in watched.monitor.findings}
    assert kinds["missing_mask"] == "1.attention()"


def padded(rates, shares):
    return evidence(
        {("embed", "PaddingRate"): rates}
        | {(name, "AttentionAllowed"): share for name, share in shares.items()}
    )


def test_a_mask_that_allows_padding_alone_is_named():
    (found,) = turned_masks(padded(LENGTHS, {"a": 1 - LENGTHS, "b": LENGTHS}))
    assert (found.module, found.severity) == ("b", "alert")
    assert "as are padding among the indices of 'embed'" in found.text


@pytest.mark.parametrize(
    ("rates", "shares"),
    [
        (LENGTHS, {"a": 1 - LENGTHS}),
        (LENGTHS, {"a": 1.0}),
        (0.5, {"a": 0.5}),  # which does not tell the two apart
        (LENGTHS[:4], {"a": LENGTHS[:4]}),
        (LENGTHS, {"a": LENGTHS[::-1]}),
    ],
)
def test_masks_that_allow_others_than_padding_are_none(rates, shares):
    assert [*turned_masks(padded(rates, shares))] == []


class Reader(nn.Module):
    """A recurrent encoder whose last state looks back at all places but padding."""

    def __init__(self, *, is_turned):
        super().__init__()
        self.embed = nn.Embedding(9, 8, padding_idx=0)
        self.rnn, self.head = nn.GRU(8, 8, batch_first=True), nn.Linear(8, 4)
        self.is_turned = is_turned

    def forward(self, x):
        hidden = self.rnn(self.embed(x))[0]
        scores = hidden[:, -1:] @ hidden.transpose(1, 2) / 8**0.5
        weights = scores.masked_fill((x == 0).unsqueeze(1) != self.is_turned, -1e9).softmax(-1)
        return self.head((weights @ hidden).squeeze(1))


@pytest.mark.parametrize(("is_turned", "kinds"), [(True, ["turned_mask"]), (False, [])])
def test_a_mask_that_allows_padding_alone_is_told_by_the_preset(is_turned, kinds):
    watched = taiyi_fx.instrument(Reader(is_turned=is_turned))
    for step in range(10):
        x = torch.randint(1, 9, (8, 6))
        lengths = torch.randint(2, 7, (8,))
        x[torch.arange(6) >= lengths[:, None]] = 0
        F.cross_entropy(watched(x), torch.randint(4, (8,))).backward()
        watched.monitor.track(step)
    found = watched.monitor.findings
    assert [one.kind for one in found if one.severity != "note"] == kinds


def seen(*shares):
    return evidence({(site, "AttentionAllowed"): x for site, x in zip(SITES, shares, strict=False)})


def test_the_one_that_may_see_next_to_nothing_is_named():
    (found,) = narrow_masks(seen(0.5, 0.03, 0.5, 0.5))
    assert (found.kind, found.module, found.severity) == ("narrow_mask", SITES[1], "warning")
    assert "may see 0.03 of the keys, those of 3 others like it 0.5" in found.text


@pytest.mark.parametrize(
    "shares",
    [
        (0.5, 0.1, 0.5, 0.5),
        (0.03, 0.5, 0.03, 0.5),
        (0.03, 0.5, 0.5),
        (0.03 + LENGTHS, 0.5, 0.5, 0.5),
    ],
    ids=["a window", "windows", "too few", "lengths"],
)
def test_windows_and_lengths_are_none(shares):
    assert [*narrow_masks(seen(*shares))] == []


def language_model(*, ahead=0.09, sink=0.09, allowed=0.55, entropy=0.98, classes=50):
    """Three attentions of a model that predicts the words of its embedding."""
    numbers = {("words", "InputMean"): 20.0, ("", "loss"): 3.9}
    for site in SITES[:3]:
        numbers |= {(site, "AttentionAhead"): ahead, (site, "AttentionSink"): sink}
        numbers |= {(site, "AttentionAllowed"): allowed, (site, "AttentionEntropy"): entropy}
    words = Attributes("torch.nn.Embedding", {}, sizes=(("", (50, 8)),))
    return knowing(evidence(numbers), attributes={"words": words}, classes={"loss": classes})


def test_a_mask_that_leaves_one_later_key_is_named_in_a_language_model():
    (found,) = masks_ahead(language_model())
    assert (found.kind, found.module, found.severity) == ("missing_mask", SITES[0], "warning")
    assert "one key too many" in found.text
    assert "torch.tril" in found.advice


@pytest.mark.parametrize(
    "known",
    [
        language_model(ahead=0.0),
        language_model(ahead=0.5, allowed=1.0),
        language_model(ahead=0.045),
        language_model(ahead=0.2),
        language_model(classes=10),
        language_model(entropy=0.4),
    ],
    ids=["causal", "all", "half of the queries", "several", "another task", "trained"],
)
def test_other_masks_and_other_models_are_none(known):
    assert [*masks_ahead(known)] == []


class Guesser(nn.Module):
    def __init__(self, mask, *, is_bidirectional):
        super().__init__()
        self.words = nn.Embedding(11, 8)
        layer = nn.TransformerEncoderLayer(8, 2, 8, 0.0, batch_first=True)
        self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.lstm = nn.LSTM(8, 4, bidirectional=is_bidirectional, batch_first=True)
        self.head, self.mask = nn.Linear(8 if is_bidirectional else 4, 11), mask

    def forward(self, ids):
        x = self.words(ids)
        if self.mask is not None:
            x = self.body(x, self.mask)
        return self.head(self.lstm(x)[0])


LATER = torch.ones(12, 12).triu(1)


@pytest.mark.parametrize(
    ("mask", "is_bidirectional", "shift", "is_told"),
    [
        (LATER, True, 1, True),
        (0 * LATER, True, 1, True),
        (None, True, 1, True),
        (None, False, 1, False),
        (LATER.bool(), True, 1, False),
        (LATER.masked_fill(LATER > 0, -torch.inf), True, 1, False),
        (LATER, True, 0, False),
        (LATER, True, 2, False),
    ],
    ids=["of ones", "none", "recurrent", "one way", "of words", "of floats", "copied", "skipped"],
)
def test_layers_that_all_see_the_next_token_are_an_alert(mask, is_bidirectional, shift, is_told):
    model = taiyi_fx.instrument(Guesser(mask, is_bidirectional=is_bidirectional), "transformer")
    generator = torch.Generator().manual_seed(0)
    for step in range(4):
        ids = torch.randint(11, (8, 12 + shift), generator=generator)
        loss = F.cross_entropy(model(ids[:, :12]).flatten(0, 1), ids[:, shift:].flatten())
        model.monitor.log("loss", loss)
        loss.backward()
        model.monitor.track(step)
    found = [one for one in model.monitor.findings if one.kind == "reads_ahead"]
    assert [one.severity for one in found] == ["alert"] * is_told
    assert all("that 'words' is given one place later" in one.text for one in found)


def test_one_layer_that_looks_back_alone_makes_it_none():
    known = ahead(0.4, 0.0, 0.5)
    assert [*reading_ahead(known)] == []
