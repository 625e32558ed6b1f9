"""Attention that breaks down."""

import numpy as np
import pytest

from taiyi_fx.findings.attention import attention_collapses, attention_logit_growths
from tests.findings.given import evidence

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
