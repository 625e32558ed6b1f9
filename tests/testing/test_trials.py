"""What is drawn for a quantity follows from what it reads."""

from hypothesis import given, settings
from hypothesis import strategies as st

from taiyi_fx.quantities.declare import find_quantity
from taiyi_fx.testing import tensors
from taiyi_fx.testing.trials import trials

ORDINARY = tensors(kinds=("full",), scales=(1.0,))


def drawn(data, name, **rest):
    return data.draw(trials(find_quantity(name), ORDINARY, None, rest.pop("options", None), **rest))


@settings(max_examples=20)
@given(st.data())
def test_a_backward_comes_only_where_gradients_are_read(data):
    assert all(step.g is None for step in drawn(data, "InputMean").steps)
    assert all(step.g is not None for step in drawn(data, "OutputGradRMS").steps)


@settings(max_examples=20)
@given(st.data())
def test_weights_are_drawn_where_they_are_read_and_change_between_steps(data):
    made = drawn(data, "WeightNorm")
    assert "weight" in made.layer.options
    assert all("weight" in step.parameters for step in made.steps[1:])
    assert not drawn(data, "InputMean").layer.options


@settings(max_examples=20)
@given(st.data())
def test_the_last_step_is_due_and_there_are_as_few_as_asked(data):
    made = drawn(data, "UpdateRatio", max_steps=1)
    assert made.due == (0,)
    assert len(made.steps) == 1


@settings(max_examples=5)
@given(st.data())
def test_options_are_those_given(data):
    options = {"feature_axis": -1}
    assert drawn(data, "InputCovMaxEig", options=options).options == options
