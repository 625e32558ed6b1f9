"""Recipes of tensors: their text makes the same tensor, and each kind is what it says."""

import dataclasses
import math

import pytest
import torch
from hypothesis import given

from taiyi_fx.testing import make_tensor, tensors
from taiyi_fx.testing.tensor import KINDS, LAYOUTS, TensorRecipe


@given(tensors())
def test_the_text_of_a_recipe_is_code_that_makes_the_same_tensor(recipe):
    made = recipe.make()
    names = {"torch": torch, "make_tensor": make_tensor, "nan": math.nan, "inf": math.inf}
    again = eval(repr(recipe), names)
    assert torch.equal(made.nan_to_num(7.0), again.nan_to_num(7.0))
    assert made.stride() == again.stride()
    assert made.dtype == recipe.dtype
    assert made.shape == recipe.shape


@pytest.mark.parametrize("shape", [(2, 3), (7, 9)])
@pytest.mark.parametrize("kind", ["full", "indices"])
def test_a_recipe_says_where_its_tensor_is(shape, kind):
    recipe = TensorRecipe(shape, kind, device="meta")
    again = eval(repr(recipe), {"torch": torch, "make_tensor": make_tensor})
    for made in (recipe.make(), again):
        assert made.is_meta
        assert (made.shape, made.dtype) == (shape, TensorRecipe(shape, kind).make().dtype)


@given(tensors(device="meta", layouts=("strided", "transposed", "expanded")))
def test_a_layout_is_that_on_the_cpu(recipe):
    there = recipe.make()
    assert there.is_meta
    assert there.stride() == dataclasses.replace(recipe, device="cpu").make().stride()


@given(tensors())
def test_tensors_fit_the_range_of_their_type(recipe):
    x = recipe.make()
    assert recipe.kind in ("nan", "inf") or torch.isfinite(x * 4).all()


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_what_it_says(kind):
    x = make_tensor((64, 5), kind=kind, dtype=torch.float64)
    rank = torch.linalg.matrix_rank(x.nan_to_num(posinf=0.0, neginf=0.0)).item()
    assert rank == {"zero": 0, "deficient": 1, "constant": 1}.get(kind, 5)
    assert (x.mean() > 1e5 * x.std()).item() == (kind in ("shifted", "constant"))
    assert x.isnan().any().item() == (kind == "nan")
    assert x.isinf().any().item() == (kind == "inf")
    assert (x == 0).double().mean().item() == pytest.approx(
        {"zero": 1.0, "sparse": 0.5}.get(kind, 0.0), abs=0.1
    )
    assert (x.abs().max() > 10 * x.abs().median()).item() or kind != "heavy"


@pytest.mark.parametrize("layout", LAYOUTS)
def test_each_layout_is_what_it_says(layout):
    x = make_tensor((2, 3, 4, 5), layout=layout)
    assert x.is_contiguous() == (layout == "contiguous")
    assert (x.stride(0) == 0) == (layout == "expanded")
    assert x.is_contiguous(memory_format=torch.channels_last) == (layout == "channels_last")
    if layout != "expanded":
        assert torch.equal(x, make_tensor((2, 3, 4, 5)))


@pytest.mark.parametrize("wrong", [{"kind": "ful"}, {"layout": "sliced"}])
def test_an_unknown_kind_or_layout_lists_those_there_are(wrong):
    with pytest.raises(ValueError, match="full|contiguous"):
        make_tensor((2, 2), **wrong)
