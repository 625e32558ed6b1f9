"""Recipes of modules: each takes the input that fits, and is made the same each time."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from taiyi_fx.testing import modules


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
