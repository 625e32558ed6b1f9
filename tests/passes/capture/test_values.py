"""Abstract values: what is known, what flows, and what generated code can spell."""

from collections import namedtuple

import pytest
import torch
from torch import fx, nn

from taiyi_fx.passes.capture.values import (
    Flow,
    Known,
    Method,
    Refused,
    argument,
    flows,
    is_plain_container,
    is_simple,
    known,
    known_simple,
    lifted,
)

Pair = namedtuple("Pair", "a b")


def node():
    return fx.Graph().placeholder("x")


@pytest.mark.parametrize("value", [1, 2.5, "a", None, ..., torch.float32, (1, ("a",)), range(3)])
def test_what_cannot_change_is_simple(value):
    assert is_simple(value)


@pytest.mark.parametrize("value", [[1], {"a": 1}, torch.ones(1), object(), (1, [2]), Pair(1, 2)])
def test_what_can_change_or_is_of_another_class_is_not_simple(value):
    assert not is_simple(value)


def test_lists_and_dictionaries_of_simple_values_are_plain_containers():
    assert is_plain_container([1, "a"])
    assert is_plain_container({"a": (1, 2)})
    assert not is_plain_container([[1]])
    assert not is_plain_container(type("Mine", (list,), {})([1]))


def test_a_structure_flows_where_a_part_of_it_does():
    flow = Flow(node())
    assert flows([1, {"a": (flow,)}])
    assert flows(slice(None, flow, None))
    assert not flows([Known(1), {"a": Known(2)}])


def test_what_is_known_of_a_structure_is_that_structure():
    assert known([Known(1), (Known("a"),)], "reads") == [1, ("a",)]
    assert known(Pair(Known(1), Known(2)), "reads") == Pair(1, 2)
    assert known(slice(Known(1), Known(None), Known(None)), "reads") == slice(1, None, None)
    with pytest.raises(Refused, match="reads what flows in"):
        known([Known(1), Flow(node())], "reads")
    with pytest.raises(Refused, match="reads a method"):
        known(Method(Known(1), "real"), "reads")


def test_an_object_that_answers_in_its_own_way_is_known_but_not_simply():
    module = nn.Linear(1, 1)
    assert known(Known(module), "asks") is module
    with pytest.raises(Refused, match="asks a Linear"):
        known_simple(Known(module), "asks")


def test_arguments_are_nodes_and_constants_and_come_back_as_values():
    x = node()
    spelled = argument({"a": [Flow(x), Known(1)], "b": Known(torch.Size([2]))})
    assert spelled == {"a": [x, 1], "b": (2,)}
    back = lifted(spelled)
    assert back["a"][0].node is x
    assert back["a"][1].value == 1


def test_no_code_can_spell_an_object():
    with pytest.raises(Refused, match="passes on a Linear, which a graph cannot hold"):
        argument((Known(nn.Linear(1, 1)),))
    with pytest.raises(Refused, match="passes on a method"):
        argument(Method(Known(1), "real"))


def test_a_refusal_says_where():
    refused = Refused("does that")
    assert str(refused) == "does that"
    refused.place = "model.py:3"
    assert str(refused) == "does that (model.py:3)"
    assert str(Refused.because_of(KeyError("k"))) == "cannot be followed: KeyError: 'k'"
