"""Rules of how weights lead to their product with values."""

import operator

import pytest
import torch
import torch.nn.functional as F

from taiyi_fx.passes.weighted import (
    Product,
    Weights,
    after,
    is_product,
    keeps_scores,
    name_of,
    operands,
)

UNTURNED = Weights()
W, V = torch.zeros(2, 3, 4, 5), torch.zeros(2, 3, 5, 6)


def made_of(name, args, at=0, weights=UNTURNED, made=W, **kwargs):
    return after(name, args, kwargs, at, weights, made)


@pytest.mark.parametrize(
    ("target", "name"),
    [
        (torch.Tensor.__matmul__, "matmul"),
        (operator.matmul, "matmul"),
        ("masked_fill_", "masked_fill"),
        (torch.Tensor.mT.__get__, "mT"),
        (F.dropout, "dropout"),
    ],
)
def test_names_are_bare(target, name):
    assert name_of(target) == name


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("dropout", (W, 0.1, True)),
        ("to", (W, torch.float16)),
        ("mul", (W, 2.0)),
        ("flatten", (W, 0, 1)),
        ("getitem", (W, (..., slice(None, -1)))),
    ],
)
def test_weights_stay_weights(name, args):
    assert made_of(name, args) == Weights()


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("sum", (W,)),
        ("softmax", (W, -1)),
        ("add", (W, W)),
        ("getitem", (W, 0)),
        ("getitem", (W, (..., slice(2)))),
        ("getitem", (W, (slice(None), 0))),
        ("transpose", (W, 1, 2)),
        ("permute", (W, (0, 2, 1, 3))),
        ("conv2d", (W, V)),
    ],
)
def test_other_calls_end_them(name, args):
    assert made_of(name, args) is None


def test_a_factor_may_stand_in_front():
    assert made_of("mul", (2.0, W), at=1) == Weights()
    assert made_of("truediv", (V, W), at=1) is None


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("transpose", (W, -1, -2)),
        ("transpose", (W, 2, 3)),
        ("mT", (W,)),
        ("permute", (W, 0, 1, 3, 2)),
        ("permute", (W, (0, 1, 3, 2))),
    ],
)
def test_queries_and_keys_may_change_places(name, args):
    assert made_of(name, args) == Weights(is_transposed=True)
    assert made_of("matmul", (V, W), at=1, weights=Weights(is_transposed=True)) == Product(W, -3)
    assert made_of("matmul", (W, V), weights=Weights(is_transposed=True)) is None
    assert made_of("matmul", (V, W), at=1) is None


@pytest.mark.parametrize(
    ("equation", "at", "heads"),
    [
        ("bhij,bhjd->bhid", 0, 1),
        ("bhij,bjhd->bihd", 0, 2),
        ("bjhd,bhij->bihd", 1, 2),
        ("b h i j, b h j d -> b i h d", 0, 2),
        ("...hij,...hjd->...hid", 0, -3),
        ("...hij,...jhd->...ihd", 0, -2),
        ("ij,jd->id", 0, -3),
        ("...ij,...jd->...id", 0, -3),
        ("bhij,bhjd->bhijd", 0, None),
        ("bhij,bhid->bhjd", 0, None),
        ("bhij,bhjd->bd", 0, None),
        ("bhij,bhjd", 0, None),
        ("bhij->bhi", 0, None),
    ],
)
def test_einsum_says_where_the_heads_are(equation, at, heads):
    found = made_of("einsum", (equation, W, V), at=at)
    assert found == (None if heads is None else Product(W, heads))


def test_operands_of_lists_are_found():
    assert list(operands("einsum", ("ij,jk->ik", [1, 2]), {})) == [(0, 1), (1, 2)]
    assert list(operands("einsum", ("ij,jk->ik", 1, 2), {})) == [(0, 1), (1, 2)]
    assert list(operands("cat", ([1, 2], -1), {})) == [(0, 1), (1, 2)]
    assert list(operands("matmul", (1,), {"other": 2})) == [(0, 1), (1, 2)]


def test_scores_are_products_and_what_masks_and_scales_make_of_them():
    assert is_product("baddbmm")
    assert is_product("matmul")
    assert not is_product("linear")
    assert keeps_scores("masked_fill")
    assert not keeps_scores("linear")
