"""Recipes of modules: each takes the input that fits, and is made the same each time."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from taiyi_fx.testing import ModuleRecipe, modules


@given(modules(), st.integers(2, 5))
def test_a_module_takes_the_input_that_fits_and_is_made_the_same_each_time(recipe, rows):
    torch.manual_seed(1)
    state = torch.get_rng_state()
    a, b = recipe.make(), recipe.make()
    assert torch.equal(state, torch.get_rng_state())
    outputs = [m(recipe.input(rows).make()) for m in (a, b)]
    assert len(outputs[0]) == rows
    assert torch.equal(*outputs)
    assert all(torch.equal(p, q) for p, q in zip(a.parameters(), b.parameters(), strict=True))


def test_modules_of_a_class_are_of_that_class():
    with pytest.raises(ValueError, match="it has Linear, Conv1d"):
        modules(nn.LSTM)


@given(modules(nn.Embedding, nn.Linear))
def test_only_the_classes_asked_for_are_drawn(recipe):
    assert isinstance(recipe.make(), (nn.Embedding, nn.Linear))


def test_a_recipe_says_where_its_module_and_inputs_are():
    recipe = ModuleRecipe(nn.Linear, (4, 3), shape=(4,), device="meta")
    assert recipe.make().weight.is_meta
    assert recipe.input(2).make().is_meta
    assert repr(recipe) == 'nn.Linear(4, 3).to("meta")'
    indices = ModuleRecipe(nn.Embedding, (7, 4), shape=(3,), below=7, device="meta")
    assert indices.input(2).device == "meta"
