"""Iterators among arguments."""

import pytest
import torch

from taiyi_fx.recorder.replay.iterators import CannotRepeat, check_repeatable, is_iterator


def test_what_gives_its_values_once_is_an_iterator(tmp_path):
    assert is_iterator(iter([1]))
    assert is_iterator(x for x in [1])
    assert not is_iterator([1])
    assert not is_iterator(torch.zeros(2))
    with (tmp_path / "log").open("w") as log:
        assert not is_iterator(log)


@pytest.mark.parametrize("value", [iter([1]), [0, (iter([1]),)], {"a": {"b": iter([1])}}])
def test_an_argument_that_is_or_holds_one_is_refused_by_name(value):
    check_repeatable((1, [2], {"a": 3}), {"b": torch.zeros(2)}, "the model")
    with pytest.raises(CannotRepeat, match="argument 1 of the model is or holds an iterator"):
        check_repeatable((0, value), {}, "the model")
    with pytest.raises(CannotRepeat, match="^batch of step is or holds an iterator"):
        check_repeatable((), {"batch": value}, "step")
