"""Attention that breaks down."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import taiyi_fx
from taiyi_fx.findings.rules.attention.attention import (
    attention_collapses,
    attention_logit_growths,
    attention_sinks,
    sharp_starts,
)
from tests.findings.given import evidence, knowing

STEPS = np.arange(40)


def of(entropy=0.7, logits=5.0):
    site = "h.1.attn.attention()"
    return evidence({(site, "AttentionEntropy"): entropy, (site, "AttentionLogitMax"): logits})


def test_weights_that_become_all_or_nothing_are_named_from_the_step_on():
    entropy = np.where(STEPS < 10, 0.8, 0.01)
    (found,) = attention_collapses(of(entropy, np.where(STEPS < 10, 4.0, 90.0)))
    assert (found.module, found.step, found.severity) == ("h.1.attn.attention()", 10, "alert")
    assert "by logits of up to 90" in found.text
    assert found.expected == "near 0.8"
    alone = evidence({("a", "AttentionEntropy"): entropy})
    assert [one.module for one in attention_collapses(alone)] == ["a"]


def test_one_that_begins_so_is_named_too():
    (found,) = attention_collapses(of(0.004, 300.0))
    assert (found.step, found.expected) == (0, "well above 0")


@pytest.mark.parametrize("n", range(20, 60, 5))
def test_one_near_the_bound_is_told_from_its_first_step_at_each_look(n):
    entropy = 0.018 + 0.004 * np.sin(np.arange(n) ** 2)
    assert (entropy > 0.02).any()
    site = "h.1.attn.attention()"
    logits = {(site, "AttentionLogitMax"): np.full(n, 300.0)}
    (found,) = attention_collapses(evidence({(site, "AttentionEntropy"): entropy, **logits}))
    assert (found.step, found.severity) == (0, "alert")


def test_one_that_leaves_the_bound_and_comes_back_is_told_from_then_on():
    entropy = np.select([STEPS < 4, STEPS < 10], [0.01, 0.4], 0.01)
    (found,) = attention_collapses(of(entropy, 300.0))
    assert found.step == 10


def test_one_that_begins_so_among_others_that_do_not_is_named():
    numbers = {(f"h.{i}", "AttentionEntropy"): 0.9 for i in range(4)}
    numbers |= {(f"h.{i}", "AttentionLogitMax"): 3.0 for i in range(4)}
    numbers |= {("h.2", "AttentionEntropy"): 0.08, ("h.2", "AttentionLogitMax"): 95.0}
    assert [found.module for found in attention_collapses(evidence(numbers))] == ["h.2"]


def test_logits_that_grow_are_told_before_the_collapse():
    (found,) = attention_logit_growths(of(0.5, 3 * 1.1**STEPS))
    assert found.severity == "warning"
    assert found.step == 30  # 3 * 1.1^30 is 52
    assert [*attention_collapses(of(0.5, 3 * 1.1**STEPS))] == []
    collapsed = of(np.where(STEPS < 10, 0.8, 0.01), 3 * 1.1**STEPS)
    assert [*attention_logit_growths(collapsed)] == []


@pytest.mark.parametrize(("last", "severity"), [(0.05, "note"), (0.6, "warning")])
def test_logits_that_grow_as_a_loss_comes_down_to_little_are_a_note(last, severity):
    site = "h.1.attn.attention()"
    numbers = {(site, "AttentionLogitMax"): 3 * 1.1**STEPS}
    numbers["", "loss"] = np.linspace(2.4, last, 40)
    (found,) = attention_logit_growths(evidence(numbers))
    assert found.severity == severity


@pytest.mark.parametrize(
    ("entropy", "logits"),
    [
        (0.7, 5.0),
        (np.where(STEPS < 10, 0.8, 0.01), 15.0),  # a layer that looks at the token before
        (np.where(STEPS < 30, 0.8, 0.01), 90.0),  # not for long
        (0.0, 90.0),  # a single key
        (0.5, 400.0),  # large from the start, as biases of a trained model make them
        (0.5, np.where(STEPS < 15, 10.0, 60.0)),  # larger, and no longer growing
        (0.5, np.linspace(2, 40, 40)),
    ],
)
def test_attentions_of_healthy_models_are_none(entropy, logits):
    found = of(entropy, logits)
    assert [*attention_collapses(found), *attention_logit_growths(found)] == []


def sink(values, **others):
    numbers = {"AttentionSink": values, **others}
    return evidence({("h.1.attention()", name): of for name, of in numbers.items()})


def test_heads_that_all_come_to_rest_on_the_first_key_are_named_from_the_step_on():
    (found,) = attention_sinks(sink(np.where(STEPS < 12, 0.2, 0.995)))
    assert (found.kind, found.severity, found.step) == ("attention_sink", "warning", 12)
    assert "give 99.5% of their weight to the first key from here on, in all heads" in found.text


def test_those_that_begin_so_are_a_note_as_of_models_that_are_trained_already():
    (found,) = attention_sinks(sink(0.99))
    assert (found.severity, found.step) == ("note", 0)


def test_a_collapse_onto_the_first_key_is_told_as_a_collapse():
    entropy, logits = np.where(STEPS < 10, 0.8, 0.01), np.where(STEPS < 10, 4.0, 90.0)
    numbers = {"AttentionEntropy": entropy, "AttentionLogitMax": logits}
    found = sink(np.where(STEPS < 10, 0.2, 0.99), **numbers)
    assert [*attention_sinks(found)] == []
    assert [one.kind for one in attention_collapses(found)] == ["attention_collapse"]


@pytest.mark.parametrize(
    "values",
    [
        0.15,
        np.where(STEPS < 12, 0.2, 0.9),  # most heads rest, as those of language models do
        np.where(STEPS < 30, 0.2, 0.99),  # not for long
        1.0,  # a single key
    ],
)
def test_sinks_of_healthy_models_are_none(values):
    assert [*attention_sinks(sink(values))] == []


class Biased(nn.Module):
    """Causal attention whose mask adds something to the logit of the first key."""

    def __init__(self, size):
        super().__init__()
        self.qkv, self.proj, self.size = nn.Linear(16, 48), nn.Linear(16, 16), size

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, 2, 8)).permute(2, 0, 3, 1, 4)
        mask = torch.full((12, 12), -torch.inf).triu(1)
        mask[:, 0] += self.size
        return x + self.proj(
            F.scaled_dot_product_attention(q, k, v, mask).transpose(1, 2).flatten(2)
        )


def test_a_bias_that_lets_all_queries_rest_is_found_in_a_training():
    torch.manual_seed(0)
    model = nn.Sequential(Biased(0.0), Biased(12.0), Biased(0.0), nn.LayerNorm(16))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    watched = taiyi_fx.instrument(model, "transformer", optimizer=optimizer)
    for step in range(40):
        x = torch.randn(8, 12, 16)
        F.mse_loss(watched(x), x.roll(1, 1)).backward()
        watched.monitor.track(step)
        optimizer.step()
        optimizer.zero_grad()
    (found,) = [one for one in watched.monitor.findings if "attention" in one.kind]
    assert (found.kind, found.module, found.severity) == ("attention_sink", "1.attention()", "note")


def beside(entropy, logits, sink=0.1):
    numbers = {}
    for i, (e, x) in enumerate(((0.9, 1.0), (0.8, 2.0), (entropy, logits))):
        site = f"h.{i}.attn.attention()"
        numbers[site, "AttentionEntropy"], numbers[site, "AttentionLogitMax"] = e, x
        numbers[site, "AttentionSink"] = sink
    return evidence(numbers)


def test_one_whose_logits_begin_far_beyond_those_of_others_is_a_warning():
    (found,) = attention_collapses(beside(0.2, 25.0))
    assert (found.module, found.severity) == ("h.2.attn.attention()", "warning")


@pytest.mark.parametrize(
    ("entropy", "logits", "sink"), [(0.2, 12.0, 0.1), (0.6, 25.0, 0.1), (0.2, 25.0, 0.95)]
)
def test_one_that_is_as_sharp_as_those_of_trained_models_is_none(entropy, logits, sink):
    assert [*attention_collapses(beside(entropy, logits, sink))] == []


def begins(sink=0.95, entropy=0.1, loss=4.0, count=3, classes=50):
    """Attentions of a model of 50 classes, of which a guess costs 3.9."""
    numbers = {("", "loss"): loss}
    for i in range(count):
        site = f"h.{i}.attn.attention()"
        numbers |= {(site, "AttentionSink"): sink, (site, "AttentionEntropy"): entropy}
    return knowing(evidence(numbers), classes={"loss": classes})


def test_attention_that_rests_on_the_first_key_before_anything_is_learnt_is_named():
    (found,) = sharp_starts(begins())
    assert (found.kind, found.severity) == ("attention_sink", "warning")
    assert found.module == "h.0.attn.attention()"
    assert "give 95% of their weight to the first key" in found.text


@pytest.mark.parametrize(
    "known",
    [
        begins(sink=0.2),
        begins(entropy=0.9),
        begins(entropy=0.0),
        begins(loss=1.5),
        begins(count=1),
        begins(loss=0.7, classes=2),
    ],
    ids=["spread", "few keys", "one key", "trained before", "one alone", "beside a reference"],
)
def test_attention_that_begins_otherwise_or_is_trained_is_none(known):
    assert [*sharp_starts(known)] == []
