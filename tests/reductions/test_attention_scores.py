"""Logits of attention: from each kind of call, in blocks, of all queries or a sample of them."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.attention.bias import causal_lower_right, causal_upper_left
from torch.utils._python_dispatch import TorchDispatchMode

from taiyi_fx.reductions.attention_scores import sampled
from tests.quantities.references import attention as reference
from tests.reductions.test_attention import assert_right, drawn, measured


@pytest.mark.parametrize("shape", [(4, 7, 8), (3, 2, 4, 7, 8)])
def test_tensors_with_fewer_or_more_axes(shape):
    q, k = drawn(0, *shape), drawn(1, *shape)
    found = measured(q, k, k, is_causal=True)
    of_four = (x.unsqueeze(1) if len(shape) == 3 else x.flatten(0, 1) for x in (q, k))
    assert_right(found, reference.attended(*of_four, is_causal=True))


@pytest.mark.parametrize("queries", [3, 5])
def test_causal_biases_of_torch(queries):
    q, k = drawn(0, 2, 2, queries, 4), drawn(1, 2, 2, 5, 4)
    upper = measured(q, k, k, causal_upper_left(queries, 5))
    assert_right(upper, reference.attended(q, k, is_causal=True))
    lower = measured(q, k, k, causal_lower_right(queries, 5))
    mask = torch.ones(queries, 5, dtype=torch.bool).tril(5 - queries)
    expected = reference.attended(q, k, mask)
    assert_right(lower, replace(expected, is_flagged_causal=True))  # which a mask does not say


@pytest.mark.parametrize("function", ["softmax", "Tensor.softmax"])
@pytest.mark.parametrize("is_folded", [False, True])
def test_logits_of_a_softmax(function, is_folded):
    later = torch.ones(6, 6, dtype=torch.bool).triu(1)
    logits = drawn(0, 3, 2, 6, 6).masked_fill(later, torch.finfo(torch.float64).min)
    given = logits.flatten(0, 1) if is_folded else logits
    assert_right(measured(given, -1, heads=2, function=function), reference.of_logits(logits))
    assert_right(measured(given, dim=-1, heads=2, function=function), reference.of_logits(logits))


@pytest.mark.parametrize(
    ("shape", "dim", "heads", "why"),
    [
        ((4, 5), -1, 2, "over axis -1 of a tensor of shape .4, 5. is no attention"),
        ((2, 2, 5, 5), 1, 2, "over axis 1"),
        ((5, 4, 4), -1, 2, "heads .* are not known: the module says that it has 2"),
    ],
)
def test_a_softmax_of_something_else_is_refused(shape, dim, heads, why):
    with pytest.raises(ValueError, match=why):
        measured(torch.zeros(shape), dim, heads=heads, function="softmax")


class _Largest(TorchDispatchMode):
    """Notes the most elements of a tensor that is made."""

    most = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        if isinstance(made, torch.Tensor):
            self.most = max(self.most, made.untyped_storage().nbytes() // made.element_size())
        return made


@pytest.mark.parametrize("mask", [False, True])
def test_no_tensor_is_as_large_as_the_matrix_of_weights(mask):
    made = {}
    for length in (2048, 8192):
        q = torch.zeros(1, 1, length, 4)
        padding = torch.ones(1, 1, 1, length, dtype=torch.bool) if mask else None
        with _Largest() as largest:
            measured(q, q, q, padding, is_causal=not mask)
        made[length] = largest.most
    assert made[2048] == made[8192] <= 2**19


def test_nested_tensors_are_refused_by_name():
    q = torch.nested.nested_tensor([torch.zeros(2, 3), torch.zeros(4, 3)], layout=torch.jagged)
    with pytest.raises(TypeError, match="attention of tensors that are nested is not read"):
        measured(q, q, q)


@given(st.integers(1, 300), st.integers(2, 300))
def test_a_sample_has_as_many_different_queries_as_asked_for(queries, at_most):
    sample = sampled(queries, at_most)
    rows = [*sample.rows]
    assert rows == sorted(set(rows))
    assert len(rows) == min(queries, at_most)
    assert 0 <= rows[0] <= rows[-1] < queries
    assert rows[: sample.first] == [*range(sample.first)]
    stands_for = sample.first + (len(rows) - sample.first) * sample.factor
    assert stands_for == pytest.approx(queries)
