"""Instrumented models are bit-equal to plain ones; what is not is shown."""

import pytest
import torch
from hypothesis import strategies as st
from torch import nn

import taiyi_fx
from taiyi_fx.testing import (
    Chain,
    CheckFailure,
    ModuleRecipe,
    assert_faithful,
    check_faithful,
    configs,
    is_leaf,
    models,
    modules,
)
from taiyi_fx.testing.check_faithful import Example
from tests.examples import tried
from tests.testing import wrong


@tried(20, of=60)
@pytest.mark.parametrize("forms", ["graph", "python"])
def test_instrumented_models_are_bit_equal_to_plain_ones(forms, examples):
    check_faithful(models(forms), max_examples=examples)


@tried(15, of=40)
def test_they_are_with_any_configuration(examples):
    check_faithful(models(), configs, max_examples=examples)


def test_torchs_modules_alone_are():
    check_faithful(modules(), max_examples=40)


class Several(nn.Module):
    """Uses one input in many ways, so that the order of sums is seen."""

    def __init__(self):
        super().__init__()
        self.stem, self.body = nn.Linear(6, 6), Uses()

    def forward(self, x):
        x = self.stem(x)
        return self.body(x) + x.sin()


class Uses(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, x):
        return self.a(x) * self.b(x).exp() + x.tanh()


def test_a_difference_of_the_last_bit_is_caught_and_its_program_fails(run_program):
    recipes = st.builds(
        lambda seed: ModuleRecipe(Several, shape=(6,), seed=seed), st.integers(0, 99)
    )
    check_faithful(recipes, max_examples=20)
    with pytest.raises(CheckFailure, match="an instrumented model is not faithful") as failure:
        check_faithful(recipes, {"stem": [wrong.nudged_mean]})
    assert "class Uses(nn.Module)" in failure.value.program
    with pytest.raises(AssertionError, match="differs: by up to"):
        run_program(failure.value.program)


def test_a_program_of_drawn_models_is_complete(run_program):
    recipe = ModuleRecipe(Chain, ("Keywords", "Branch"), {"output": "dict"}, shape=(4, 6), seed=3)
    batches = tuple(recipe.input(n) for n in (2, 3))
    cfg = {is_leaf: ["InputMean"], nn.Linear: ["WeightNorm"], "stem": [wrong.right_mean]}
    program = Example(recipe, batches, cfg).failure("nothing").program
    run_program(program)
    assert "Chain('Keywords', 'Branch', output='dict')" in program


def test_a_model_with_several_inputs_is_compared_by_hand():
    class Two(nn.Module):
        def forward(self, x, y):
            return {"sum": x + y, "parts": [x, y]}

    batches = [(torch.randn(n, 2), torch.randn(n, 2)) for n in (3, 2)]
    assert_faithful(Two(), batches, {"": ["InputMean"]})


def test_the_same_numbers_in_other_strides_are_a_difference():
    class Transposed(nn.Module):
        def forward(self, x):
            return x.transpose(1, 2)

    batches = [torch.randn(n, 3, 4) for n in (3, 2)]
    assert_faithful(Transposed(), batches, {"": ["InputMean"]})
    cfg = {"": [taiyi_fx.edit(value=torch.Tensor.contiguous)]}
    with pytest.raises(AssertionError, match=r"one has the strides \(12, 1, 4\), one \(12, 3, 1\)"):
        assert_faithful(Transposed(), batches, cfg)
