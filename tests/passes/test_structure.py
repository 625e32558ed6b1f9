"""Values of any structure: the tensor in them found, and replaced."""

import dataclasses
from collections import OrderedDict, namedtuple

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations

from taiyi_fx.passes.structure import (
    Call,
    alias_of,
    find_tensor,
    is_computed,
    replace_picked,
    replace_tensor,
    slots_of,
    stands_in,
    tensor_named,
    tensors_in,
)

Pair = namedtuple("Pair", "a b")


@dataclasses.dataclass
class Output:
    loss: object
    logits: torch.Tensor


@dataclasses.dataclass(frozen=True)
class Frozen:
    x: torch.Tensor


T, U = torch.ones(2), torch.zeros(3)


STRUCTURES = [
    T, (T, U), [1, T], {"n": 1, "x": T}, Pair(None, T), Output(None, T), Frozen(T),
    (1, {"x": [Pair("s", T)]}), OrderedDict(x=T), Call((None,), {"x": T}),
    torch.return_types.max((T, U)),
]  # fmt: skip


@pytest.mark.parametrize("value", STRUCTURES, ids=lambda v: type(v).__name__)
def test_the_first_tensor_is_found_and_replaced_in_any_structure(value):
    assert find_tensor(value, None) is T
    new = torch.full((2,), 5.0)
    replaced = replace_tensor(value, T, new)
    assert type(replaced) is type(value)
    assert find_tensor(replaced, None) is new
    assert find_tensor(value, None) is T


def test_picks_are_positions_keys_and_arguments():
    assert find_tensor((T, U), 1) is U
    assert find_tensor({"a": T, "b": (None, U)}, "b") is U
    assert find_tensor(Output(T, U), "logits") is U
    assert find_tensor(Call((T, U), {}), (1, "mask")) is U
    assert find_tensor(Call((T,), {"mask": U}), (1, "mask")) is U
    assert find_tensor(Call((T,), {}), (1, "mask")) is None
    assert find_tensor((T,), 3) is None
    assert find_tensor("text", None) is None


def test_a_tensor_that_stands_twice_is_replaced_twice():
    new = torch.full((2,), 5.0)
    a, (b, c) = replace_tensor((T, [T, U]), T, new)
    assert a is new
    assert b is new
    assert c is U


def test_only_the_picked_argument_is_replaced():
    new = torch.full((2,), 5.0)
    call = replace_picked(Call((T, T), {"mask": T}), (1, "other"), T, new)
    assert call.args[0] is T
    assert call.args[1] is new
    assert call.kwargs["mask"] is T


def test_a_view_of_all_has_the_very_strides_and_memory():
    x = torch.randn(1, 2, 3).as_strided((1, 2, 3), (7, 3, 1))
    alias = alias_of(x)
    assert alias.stride() == x.stride()
    assert alias.data_ptr() == x.data_ptr()
    assert alias is not x


def test_what_others_may_hold_is_not_taken_for_the_callers_own():
    assert stands_in((1, (T,)), T)
    assert stands_in(Call((T,), {}), T)
    assert not stands_in([T], T)
    assert not stands_in({"x": T}, T)


def test_objects_are_looked_into_but_no_modules():
    class Boxes:
        def __init__(self):
            self.tensors, self.layer = [T, U], nn.Linear(2, 2)

    assert [*map(id, tensors_in({"boxes": Boxes()}))] == [id(T), id(U)]


def test_what_a_module_keeps_in_slots_is_found():
    class Slotted(nn.Module):
        __slots__ = ("empty", "kept")

    module = Slotted()
    module.kept = T
    assert [*slots_of(module)] == [("kept", T)]


def test_looking_at_a_computed_parameter_leaves_it_as_it_is():
    layer = parametrizations.spectral_norm(nn.Linear(4, 4))
    before = {k: v.clone() for k, v in layer.state_dict().items()}
    assert is_computed(layer, "weight")
    assert not is_computed(layer, "bias")
    assert tensor_named(layer, "weight").shape == (4, 4)
    assert tensor_named(layer, "nothing") is None
    assert all(torch.equal(v, before[k]) for k, v in layer.state_dict().items())
    assert all(part.training for part in layer.modules())
