"""The decorator of a step's function."""

import pytest

import taiyi_fx
from taiyi_fx.recorder.stepping import stepping


def test_as_long_as_no_training_is_recorded_the_function_runs_as_it_is():
    recorder = taiyi_fx.Recorder(checkpoint_every=1)

    @recorder.step
    def add(a, b=1):
        """Adds."""
        return a + b

    assert (add(1), add(1, b=2), add.__doc__) == (2, 3, "Adds.")


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ((3, None, None), "function is a function, not 3"),
        ((None, None, abs), "give both, or neither"),
        ((None, abs, 1), "batch is a function, not 1"),
    ],
)
def test_what_is_no_function_is_refused(given, text):
    with pytest.raises(TypeError, match=text):
        stepping(lambda: None, *given)


def test_a_decorator_takes_a_function_alone():
    with pytest.raises(TypeError, match="function is a function, not 3"):
        taiyi_fx.Recorder(checkpoint_every=1).step(reference=abs, batch=abs)(3)


def test_without_steps_that_are_kept_there_is_nothing_to_run_again():
    with pytest.raises(ValueError, match="give Recorder a checkpoint_every=, such as 1"):
        taiyi_fx.Recorder().step(abs)
