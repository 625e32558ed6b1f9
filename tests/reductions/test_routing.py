"""Choices found in what routers return."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from taiyi_fx.passes.structure import Call
from taiyi_fx.reductions import Routing
from tests.quantities.references.experts import counts, kept

CALL = Call((), {})


def measured(result, **options):
    return Routing(**options).measure_call(CALL, result)


def found(result, **options):
    reduction = Routing(**options)
    return reduction.finish(reduction.measure_call(CALL, result))


def drawn(seed, *shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@given(st.integers(0, 999), st.integers(1, 3), st.integers(1, 8), st.integers(1, 4))
def test_logits_choices_and_both_say_the_same(seed, samples, tokens, k):
    logits = drawn(seed, samples, tokens, 4)
    indices = logits.topk(k, dim=-1).indices
    expected = counts(logits, k)
    others = (logits.gather(-1, indices).softmax(-1), indices)
    for result in (logits, (logits, *others), {"scores": others[0], "logits": logits}):
        assert found(result, k=k, experts=4).chosen.tolist() == expected
        assert not len(found(result, k=k, experts=4).taken)
    assert found(others, k=k, experts=4).chosen.tolist() == expected
    flat = logits.reshape(-1, 4)
    assert found((flat, indices.reshape(-1, k)), k=k, experts=4).chosen.tolist() == expected


@given(st.integers(0, 999), st.integers(1, 3), st.integers(1, 8), st.integers(1, 3))
def test_a_mask_says_what_was_dropped(seed, samples, tokens, capacity):
    logits = drawn(seed, samples, tokens, 4)
    mask = torch.nn.functional.one_hot(logits.argmax(-1), 4)
    mask = mask * (mask.cumsum(-2) <= capacity)
    result = found((mask, logits.softmax(-1).amax(-1, keepdim=True), logits), experts=4)
    assert result.chosen.tolist() == counts(logits, 1)
    assert result.taken.tolist() == [sum(kept(logits, 1, capacity)), samples * tokens]
    alone = found((mask,), experts=4)
    assert alone.chosen.tolist() == kept(logits, 1, capacity)
    assert not len(alone.taken)
    assert result.tokens == alone.tokens == samples * tokens


@given(st.integers(0, 999), st.lists(st.integers(1, 5), min_size=2, max_size=4))
def test_any_split_of_the_tokens_merges_to_the_whole(seed, sizes):
    logits = drawn(seed, sum(sizes), 4)
    reduction = Routing(k=2)
    first, *rest = (reduction.measure_call(CALL, part) for part in logits.split(sizes))
    for state in rest:
        first = reduction.merge(first, state)
    assert reduction.finish(first).chosen.tolist() == counts(logits, 2)
    assert reduction.finish(first).tokens == sum(sizes)


def test_top_1_choices_may_lack_an_axis():
    logits = drawn(0, 2, 5, 4)
    result = found((logits, logits.argmax(-1)), experts=4)
    assert (result.chosen.tolist(), result.tokens) == (counts(logits, 1), 10)


def test_all_experts_for_each_token_are_no_mask():
    logits = drawn(0, 6, 2)
    indices = logits.topk(2, dim=-1).indices
    assert found((logits, indices), k=2, experts=2).chosen.tolist() == [6, 6]


def test_what_is_no_expert_stands_for_no_choice():
    indices = torch.tensor([[0, -1], [2, 4]])
    assert found((indices, torch.rand(2, 2)), k=2, experts=4).chosen.tolist() == [1, 0, 1, 0]


def test_a_logit_of_nan_makes_all_of_it_nan():
    logits = drawn(0, 6, 4)
    logits[3, 1] = torch.nan
    assert found(logits).chosen.isnan().all()
    assert found((logits, logits.argmax(-1)), experts=4).chosen.isnan().all()
    logits[3, 1] = -torch.inf  # a mask's, such as that of a group of experts
    assert found(logits).chosen.sum() == 6


def test_a_state_keeps_no_graph_and_is_not_scaled():
    state = measured(drawn(0, 6, 4).requires_grad_(), k=2)
    assert not any(part.requires_grad for part in state)
    assert Routing(k=2).scale(state, 0.5) == state


@pytest.mark.parametrize(
    ("result", "options", "message"),
    [
        (drawn(0, 6, 4), {"k": 5}, "k is 5, but its output is of 4 experts"),
        (drawn(0, 2, 6, 7), {"experts": 4}, "nothing for each of 4 experts: ask for it of the"),
        (torch.zeros(3, 2, dtype=torch.int64), {}, "holds no logits or probabilities"),
        ("nothing", {}, "holds no logits or probabilities"),
    ],
)
def test_what_is_no_router_is_said(result, options, message):
    with pytest.raises(ValueError, match=message):
        found(result, **options)


def test_k_is_at_least_1():
    with pytest.raises(ValueError, match="k must be a number of at least 1, not 0"):
        Routing(k=0)
