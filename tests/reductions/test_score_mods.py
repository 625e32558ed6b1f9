"""Functions of flex attention on blocks of queries."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.attention.flex_attention import noop_mask

from taiyi_fx.reductions.score_mods import ScoreMods
from tests.quantities.references import attention as reference
from tests.reductions.test_attention import assert_right, drawn, measured
from tests.reductions.test_attention_scores import _Largest


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    heads=st.sampled_from([(1, 1), (4, 4), (4, 2)]),
    batches=st.sampled_from([(1, 1), (2, 2), (3, 1)]),
    queries=st.integers(1, 5),
    keys=st.integers(1, 5),
    window=st.integers(0, 5),
    block=st.sampled_from([1, 40, 2**19]),
)
def test_statistics_are_those_of_one_score_at_a_time(
    seed, heads, batches, queries, keys, window, block
):
    q = drawn(seed, batches[0], heads[0], queries, 4)
    k = drawn(seed + 1, batches[1], heads[1], keys, 4)
    bias, starts = drawn(seed + 2, heads[0], keys), torch.arange(batches[0])

    def score_mod(score, b, h, i, j, bias=bias):
        return torch.where(i + 2 >= j, score + bias[h, j] * (i - j), -torch.inf)

    def mask_mod(b, h, i, j, starts=starts):
        return (j >= starts[b]) & (i - j <= window)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("taiyi_fx.reductions.attention_scores._MOST", block)
        given = (q, k, k, score_mod, (mask_mod,), 0.7, {}, (bias,), (starts,))
        found = measured(*given, function="flex_attention")
    assert_right(found, reference.of_flex(q, k, score_mod, mask_mod, 0.7))


def test_rows_have_their_own_numbers():
    mods = ScoreMods(lambda score, b, h, i, j: score + 100 * h + 10 * i + j, noop_mask)
    changed, allowed = mods.apply(torch.zeros(1, 2, 2, 3), torch.tensor([4, 7]))
    numbers = [[40, 41, 42], [70, 71, 72]], [[140, 141, 142], [170, 171, 172]]
    assert changed.tolist() == [list(numbers)]
    assert allowed.all()
    assert allowed.shape == changed.shape


def test_no_tensor_of_a_call_is_as_large_as_the_matrix_of_weights():
    made = {}
    for length in (1024, 4096):
        q = torch.zeros(1, 1, length, 4)
        with _Largest() as largest:
            measured(
                *(q, q, q, lambda s, b, h, i, j: s + i - j, (noop_mask,), 1.0, {}),
                function="flex_attention",
            )
        made[length] = largest.most
    assert made[1024] <= made[4096] <= 2**19
