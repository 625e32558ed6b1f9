"""What the strategies draw: recipes whose text makes the same, modules that inputs fit."""

import inspect
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import taiyi_fx
from taiyi_fx import testing
from taiyi_fx.config.check import check
from taiyi_fx.testing import configs, make_tensor, models, modules, tensors, training_steps
from taiyi_fx.testing.tensor import KINDS, LAYOUTS


@given(tensors())
def test_the_text_of_a_recipe_is_code_that_makes_the_same_tensor(recipe):
    made = recipe.make()
    names = {"torch": torch, "make_tensor": make_tensor, "nan": math.nan, "inf": math.inf}
    again = eval(repr(recipe), names)
    assert torch.equal(made.nan_to_num(7.0), again.nan_to_num(7.0))
    assert made.stride() == again.stride()
    assert made.dtype == recipe.dtype
    assert made.shape == recipe.shape


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
    with pytest.raises(ValueError, match="there are Linear, Conv1d"):
        modules(nn.LSTM)


@given(modules(nn.Embedding, nn.Linear))
def test_only_the_classes_asked_for_are_drawn(recipe):
    assert isinstance(recipe.make(), (nn.Embedding, nn.Linear))


@settings(max_examples=15)
@given(models("graph"), models("python"))
def test_models_are_of_the_form_asked_for(graph, python):
    found = [taiyi_fx.instrument(r.make(), {"stem": ["InputMean"]}).capture for r in (graph, python)]  # fmt: skip
    assert [capture.is_whole for capture in found] == [True, False]


@settings(max_examples=40)
@given(st.data())
def test_configurations_are_valid(data):
    model = data.draw(models()).make()
    assert check(model, data.draw(configs(model))) is not None


@settings(max_examples=1)
@given(st.data())
def test_a_configuration_of_unknown_quantities_is_refused(data):
    with pytest.raises(LookupError, match="no quantity is named 'Nothing'"):
        data.draw(configs(nn.Linear(1, 1), quantities=["Nothing"]))


@given(training_steps(max_steps=3, max_rows=5))
def test_steps_are_micro_batches_and_end_where_something_is_due(steps):
    assert 1 <= len(steps) <= 3
    assert all(1 <= step.rows <= 5 and min(step.sizes) > 0 for step in steps)
    assert steps[-1].is_due


@pytest.mark.parametrize("name", testing.__all__)
def test_every_public_name_is_documented(name):
    assert inspect.getdoc(getattr(testing, name))
