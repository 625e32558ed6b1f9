"""Outputs that see what comes later, and outputs that see padding."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import taiyi_fx
from tests.step_checks import steps


def check(model, step, *batch):
    found = taiyi_fx.step_check(model, step, *batch)
    return [one for one in found if one.kind in ("seen_future", "seen_padding")], found


@pytest.mark.parametrize("causal", [True, False])
def test_a_next_token_that_is_seen(causal):
    model = steps.Attending(causal)
    found, every = check(
        model,
        lambda x: steps.next_token_loss(model(x[:, :-1]), x[:, 1:]),
        steps.tokens(),
    )
    assert "future" in every.looked_at
    assert [(one.kind, one.module) for one in found] == (
        [] if causal else [("seen_future", "attention")]
    )


@pytest.mark.parametrize("bidirectional", [False, True])
def test_a_layer_that_runs_backwards_over_time(bidirectional):
    model = steps.Recurrent(bidirectional)
    found, _ = check(
        model,
        lambda x: steps.next_token_loss(model(x)[:, :-1], x[:, 1:]),
        steps.tokens(),
    )
    assert [(one.kind, one.module) for one in found] == (
        [("seen_future", "lstm")] if bidirectional else []
    )


def test_a_model_that_fills_gaps_may_see_everything():
    model = steps.Attending()
    found, every = check(
        model,
        lambda x, y: steps.next_token_loss(model(x), y),
        steps.tokens(),
        steps.tokens().flip(1),
    )
    assert found == []
    assert (
        "future (the targets are not the next tokens of the input, nor its next values)"
        in every.remark
    )


class Cut(nn.Module):
    """A convolution over time, of which the padding is cut off at the end, or at the beginning."""

    def __init__(self, causal):
        super().__init__()
        self.causal, self.inner = causal, nn.Conv1d(2, 8, 3, padding=2)

    def forward(self, x):
        x = self.inner(x)
        return x[..., :-2] if self.causal else x[..., 2:]


def convolving(causal):
    torch.manual_seed(0)
    return nn.Sequential(Cut(causal), nn.Tanh(), nn.Conv1d(8, 2, 1))


LOSSES = {
    "by torch": lambda z, y: F.mse_loss(input=z, target=y),
    "a difference": lambda z, y: (z - y).square().mean(),
    "the other way round": lambda z, y: torch.sub(y, z).abs().mean(),
}


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("is_cut_before", [True, False])
def test_a_next_value_that_is_seen(causal, loss, is_cut_before):
    model = convolving(causal)
    series = torch.randn(steps.BATCH, 2, 11, generator=torch.Generator().manual_seed(3))
    batch = (series[..., :-1], series[..., 1:]) if is_cut_before else (series,)

    def step(x, y=None):
        x, y = (x[..., :-1], x[..., 1:]) if y is None else (x, y)
        return loss(model(x), y)

    found, every = check(model, step, *batch)
    assert "future" in every.looked_at
    seen = [] if causal else [("seen_future", "0")]
    assert [(one.kind, one.module) for one in found] == seen
    assert all(one.text.startswith("the targets are the next values, and") for one in found)


@pytest.mark.parametrize("target", [lambda x: x, lambda x: x.flip(2), lambda x: x.roll(-2, 2)])
def test_other_targets_of_series_leave_it_untried(target):
    model = convolving(False)
    series = torch.randn(steps.BATCH, 2, 10, generator=torch.Generator().manual_seed(3))
    found, every = check(model, lambda x, y: F.mse_loss(model(x), y), series, target(series))
    assert found == []
    assert "nor its next values" in every.remark


def padded():
    tokens = steps.tokens()
    lengths = torch.tensor([3, 9, 5, 7, 4, 8, 6, 3, 5, 9, 2, 7])
    mask = torch.arange(steps.PLACES) < lengths[:, None]
    return tokens * mask, mask, lengths


class Pooled(nn.Module):
    """The mean of embeddings over what a mask keeps, or over all."""

    def __init__(self, masked):
        super().__init__()
        torch.manual_seed(0)
        self.embedding, self.head = nn.Embedding(steps.TOKENS, 8), nn.Linear(8, steps.CLASSES)
        self.masked = masked

    def forward(self, tokens, mask):
        x = self.embedding(tokens)
        weights = mask[..., None].to(x)
        pooled = (
            (x * weights).sum(1) / weights.sum(1) if self.masked else x.mean(1) * weights.sum(1)
        )
        return self.head(pooled)


@pytest.mark.parametrize("masked", [True, False])
def test_a_mean_over_padding(masked):
    model, (tokens, mask, _) = Pooled(masked), padded()
    labels = steps.batch()[1]
    found, every = check(
        model, lambda x, m, y: F.cross_entropy(model(x, m), y), tokens, mask, labels
    )
    assert "padding" in every.looked_at
    assert [one.kind for one in found] == ([] if masked else ["seen_padding"])


def test_a_mask_that_an_attention_takes_in_its_own_sense():
    tokens, mask, _ = padded()
    model = steps.Attending()
    labels = torch.arange(steps.BATCH)

    def step(tokens, mask, labels):
        return F.cross_entropy(model(tokens, mask)[:, 0], labels)

    assert check(model, step, tokens, mask, labels)[0] == []


class Ignoring(nn.Module):
    """Takes the last place of a recurrent layer, and lengths only to look at."""

    def __init__(self, at_lengths):
        super().__init__()
        torch.manual_seed(0)
        self.inner, self.at_lengths = steps.Recurrent(), at_lengths

    def forward(self, tokens, lengths):
        x = self.inner(tokens)
        last = lengths - 1 if self.at_lengths else torch.full_like(lengths, steps.PLACES - 1)
        return x[torch.arange(len(x)), last] * (1 + 0 * lengths[:, None])


@pytest.mark.parametrize("at_lengths", [True, False])
def test_a_last_place_that_is_padding(at_lengths):
    tokens, _, lengths = padded()
    model, labels = Ignoring(at_lengths), torch.arange(steps.BATCH)
    found, _ = check(
        model, lambda x, n, y: F.cross_entropy(model(x, n), y), tokens, lengths, labels
    )
    assert [one.kind for one in found] == ([] if at_lengths else ["seen_padding"])
