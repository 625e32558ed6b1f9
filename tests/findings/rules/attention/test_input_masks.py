"""Masks of the model's own that hide its tokens."""

from dataclasses import replace

import pytest

from taiyi_fx.findings import GivenInputs, ShownTokens, find
from taiyi_fx.findings.rules.attention.input_masks import hidden_tokens
from tests.findings.given import evidence

PADDING, NOTHING = ShownTokens(30, 70, 0, True), ShownTokens(0, 100, None, True)
SOUND = ShownTokens(70, 30, None, False)


def given(*looks, **numbers):
    known = evidence({("", "loss"): 1.0, **numbers})
    return replace(known, inputs=GivenInputs(shown=looks))


def test_a_mask_that_shows_padding_alone_is_told():
    (found,) = hidden_tokens(given(PADDING, PADDING))
    assert (found.kind, found.severity, found.module) == ("turned_mask", "alert", "")
    assert "'attention_mask' shows only the tokens of 'input_ids' that are 0" in found.text
    assert found.value == 0.7


def test_a_mask_that_shows_nothing_is_told_and_what_follows_is_beneath():
    (found,) = hidden_tokens(given(NOTHING, NOTHING))
    assert "'attention_mask' is 0 everywhere" in found.text
    assert found.value == 1
    (first, *others) = find(given(NOTHING, NOTHING))
    assert (first.kind, others) == ("turned_mask", [])


@pytest.mark.parametrize(
    "looks",
    [
        (),
        (PADDING,),
        (PADDING, SOUND),
        (SOUND, SOUND),
        (PADDING._replace(token=None),) * 2,
        (PADDING._replace(are_hidden_different=False),) * 2,
        (ShownTokens(0, 0, None, False),) * 2,
    ],
    ids=["none", "once", "not always", "sound", "tokens", "one token", "no mask of 0 and 1"],
)
def test_others_are_not(looks):
    assert [*hidden_tokens(given(*looks))] == []
