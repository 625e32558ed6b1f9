"""The first call that is wrong."""

import torch

from taiyi_fx.step_checks.batch import Batch
from taiyi_fx.step_checks.blame import Blame, first_wrong
from taiyi_fx.step_checks.calls import Call


def call(name, given, output):
    return Call(name, 0, Batch((torch.tensor(given),), {}), Batch((torch.tensor(output),), {}))


def test_the_first_call_with_a_wrong_output_is_named():
    before = [call("a", 1, 1), call("b", 1, 1), call("c", 1, 1)]
    after = [call("a", 1, 1), call("b", 1, 2), call("c", 2, 2)]
    assert first_wrong(before, after, torch.equal) == Blame("b")
    assert str(Blame("b")) == "it begins in 'b'"


def test_what_a_call_is_given_may_be_wrong_already():
    found = first_wrong([call("a", 1, 1)], [call("a", 2, 2)], torch.equal)
    assert found == Blame("a", is_given=True)
    assert str(found) == "it begins in what 'a' is given"
    assert str(Blame("", is_given=True)) == "it begins in what the model is given"


def test_calls_are_compared_as_far_as_they_are_the_same():
    found = first_wrong(
        [call("a", 1, 1), call("b", 1, 1)], [call("a", 1, 1), call("c", 1, 2)], torch.equal
    )
    assert found == Blame("", is_beyond=True)
    assert "between them and the loss" in str(found)
