"""Statistics of attention: against the whole matrix of weights in float64, on every kind of call."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from taiyi_fx.passes.ir import CallReduction
from taiyi_fx.passes.structure import Call
from taiyi_fx.reductions import AttentionWeights, HeadSquares
from tests.quantities.references import attention as reference

SDPA = "scaled_dot_product_attention"
TOTALS = (
    reference.entropy,
    lambda a, reduce: reference.entropy(a, reduce, normalized=True),
    reference.sink,
    reference.distance,
    reference.ahead,
    reference.allowed,
)


def measured(*args, heads=None, queries=None, function=SDPA, **kwargs):
    reduction = AttentionWeights(queries, heads)
    call = Call(args, kwargs, function)
    return reduction.finish(reduction.measure_call(call, None))


def assert_right(found, expected, rel=1e-9):
    assert torch.equal(found.n, expected.is_counted.sum((0, 2)).double())
    assert torch.allclose(found.largest, reference.logit_max(expected, "head"), rtol=rel, atol=rel)
    for i, of in enumerate(TOTALS):
        right = of(expected, reduce="head")
        if right is None:
            assert (found.unplaced if of is reference.ahead else found.ahead) > 0
        else:
            mean = found.totals[i] / found.n
            assert torch.allclose(mean, right, rtol=rel, atol=rel, equal_nan=True), i


def drawn(seed, *shape, dtype=torch.float64):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    batch=st.integers(1, 3),
    heads=st.sampled_from([(1, 1), (4, 4), (4, 2), (6, 1)]),
    queries=st.integers(1, 9),
    keys=st.integers(1, 9),
    kind=st.sampled_from(["none", "causal", "bool", "padding", "bias", "lowest", "per head", "none allowed"]),
    scale=st.sampled_from([None, 1.0, 0.01, 30.0]),
    block=st.sampled_from([1, 40, 2**19]),
)  # fmt: skip
def test_statistics_are_those_of_the_whole_matrix(
    seed, batch, heads, queries, keys, kind, scale, block
):
    q, k = drawn(seed, batch, heads[0], queries, 4), drawn(seed + 1, batch, heads[1], keys, 4)
    draw = drawn(seed + 2, batch, heads[0], queries, keys)
    masks = {
        "bool": draw[:, :1] > -1,
        "padding": (draw[:, :1, :1] > -1),
        "bias": draw[:1],
        "lowest": torch.where(draw[:, :1] > 0, 0.0, torch.finfo(torch.float32).min).double(),
        "per head": torch.where(draw > 0, draw, -torch.inf),
        "none allowed": (torch.arange(queries)[:, None] > 0) & (draw[:, :1] > -1),
    }
    mask, is_causal = masks.get(kind), kind == "causal"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("taiyi_fx.reductions.attention_scores._MOST", block)
        found = measured(q, k, k, mask, 0.3, is_causal, scale=scale, enable_gqa=heads[0] > heads[1])
    assert_right(found, reference.attended(q, k, mask, is_causal, scale))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_single(dtype):
    q, k = drawn(0, 2, 2, 7, 8, dtype=dtype), drawn(1, 2, 2, 7, 8, dtype=dtype)
    assert_right(measured(q, k, k, is_causal=True), reference.attended(q, k, is_causal=True), 1e-5)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert_right(
            measured(q, k, k, is_causal=True), reference.attended(q, k, is_causal=True), 1e-5
        )


def test_queries_beside_a_cache_stand_at_the_last_keys():
    q, k = drawn(0, 2, 2, 1, 4), drawn(1, 2, 2, 6, 4)
    found = measured(q, k, k, torch.ones(1, 6, dtype=torch.bool))
    weights = reference.attended(q, k).weights
    right = (weights * (5 - torch.arange(6))).sum(-1).mean((0, 2))
    assert found.ahead == 0
    assert torch.allclose(found.totals[3] / found.n, right)


def test_a_single_query_without_a_mask_is_not_known_to_be_causal():
    q, k = drawn(0, 2, 2, 1, 4), drawn(1, 2, 2, 6, 4)
    assert measured(q, k, k).ahead > 0


def test_one_allowed_key_has_no_entropy_and_all_the_weight():
    q = drawn(0, 1, 2, 1, 4)
    found = measured(q, q, q)
    assert torch.equal(found.totals[:2], torch.zeros(2, 2, dtype=torch.float64))
    assert torch.equal(found.totals[2], torch.ones(2, dtype=torch.float64))


def test_without_an_allowed_key_there_is_nothing():
    q = drawn(0, 1, 2, 3, 4)
    found = measured(q, q, q, torch.zeros(3, 3, dtype=torch.bool))
    assert not found.n.any()
    assert torch.equal(found.totals, torch.zeros(6, 2, dtype=torch.float64))
    assert torch.equal(found.largest, torch.full((2,), -torch.inf, dtype=torch.float64))


@pytest.mark.parametrize("empty", [(0, 2, 3, 4), (1, 2, 0, 4)])
def test_a_call_without_queries_counts_none(empty):
    q = torch.zeros(empty)
    assert not measured(q, q, q, is_causal=True).n.any()


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_what_is_not_finite_stays_so(bad):
    q, k = drawn(0, 1, 1, 3, 4), drawn(1, 1, 1, 3, 4).abs()
    q[0, 0, 1] = bad
    found = measured(q, k, k)
    assert not found.largest.isfinite().any()
    assert found.totals[0].isnan().all()
    logits = torch.tensor([[[[0.0, bad], [0.0, 1.0]]]])
    assert not measured(logits, -1, function="softmax").largest.isfinite().any()


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000), st.lists(st.integers(1, 3), min_size=2, max_size=4))
def test_calls_merge_as_if_they_were_one(seed, sizes):
    q, k = drawn(seed, sum(sizes), 2, 5, 4), drawn(seed + 1, sum(sizes), 2, 5, 4)
    reduction = AttentionWeights()
    each = zip(q.split(sizes), k.split(sizes), strict=True)
    state, *others = (reduction.measure_call(Call((a, b, b), {}, SDPA), None) for a, b in each)
    for other in others:
        state = reduction.merge(state, other)
    assert_right(reduction.finish(state), reference.attended(q, k))
    assert isinstance(reduction, CallReduction)


def test_the_errors_of_samples_are_as_large_as_their_deviations(monkeypatch):
    before, deviations, errors = torch.get_rng_state(), [], []
    q, k = drawn(0, 2, 3, 150, 4) * 2, drawn(1, 2, 3, 150, 4)
    whole = measured(q, k, k, is_causal=True)
    for seed in range(300):
        monkeypatch.setattr("taiyi_fx.reductions.attention_scores._SEED", seed)
        found = measured(q, k, k, is_causal=True, queries=40)
        assert torch.allclose(found.n, whole.n)
        assert (found.largest <= whole.largest).all()
        deviations.append(found.totals / found.n - whole.totals / whole.n)
        errors.append(found.errors)
    assert torch.equal(before, torch.get_rng_state())
    # The estimate of a variance from 300 is right to sqrt(2 / 300) = 8 %, of an error to half that,
    # if deviations are normal; three times that are allowed.
    actual, stated = (torch.stack(x).square().mean(0).sqrt() for x in (deviations, errors))
    assert torch.allclose(stated, actual, rtol=0.13)
    assert torch.stack(deviations).mean(0).abs().le(actual * 3 / 300**0.5).all()


def test_a_sample_of_all_queries_has_no_error():
    q = drawn(0, 2, 2, 5, 4)
    found = measured(q, q, q, queries=10)
    assert torch.equal(found.errors, torch.zeros_like(found.errors))
    assert torch.equal(found.totals, measured(q, q, q).totals)


def test_queries_must_be_two_at_least():
    with pytest.raises(ValueError, match="queries must be a number of at least 2, not 1"):
        AttentionWeights(queries=1)


@pytest.mark.parametrize("shape", [(3, 2, 5, 4), (3, 5, 4)])
def test_squares_of_heads(shape):
    y, reduction = drawn(0, *shape), HeadSquares()
    call = Call((y, y, y), {}, SDPA)
    found = reduction.finish(
        reduction.merge(*(reduction.measure_call(call, part) for part in y.split([1, 2])))
    )
    right = y.square().mean((0, 2, 3)) if len(shape) == 4 else y.square().mean()
    assert torch.allclose(found.squares / found.n, right)
    halved = reduction.finish(reduction.scale(reduction.measure_call(call, y), 0.5))
    assert torch.allclose(halved.squares / halved.n, right / 4)


def test_the_output_of_a_softmax_is_not_that_of_heads():
    with pytest.raises(ValueError, match="do not lead to one product"):
        HeadSquares().measure_call(Call((torch.zeros(1, 2, 3, 3), -1), {}, "softmax"), None)


def test_what_torch_makes_of_the_same_arguments_is_what_is_read():
    q, k, v = (drawn(seed, 2, heads, 5, 4) for seed, heads in ((0, 4), (1, 2), (2, 2)))
    for kwargs in ({"is_causal": True}, {"attn_mask": drawn(3, 5, 5)}, {"scale": 0.1}):
        weights = reference.attended(q, k, **kwargs).weights
        made = F.scaled_dot_product_attention(q, k, v, enable_gqa=True, **kwargs)
        assert torch.allclose(weights @ v.repeat_interleave(2, dim=1), made)
