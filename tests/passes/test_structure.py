"""Values of any structure: the tensor in them found, and replaced."""

import contextlib
import dataclasses
from collections import OrderedDict, UserDict, namedtuple
from collections.abc import Mapping
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize

from taiyi_fx.passes.structure import (
    Call,
    alias_of,
    computed_by,
    find_tensor,
    is_computed,
    parts_of_computed,
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


class Refusal(Exception):
    """Raised by code that nobody may run."""


def refuse(self, *args):
    raise Refusal


class Items(list):
    __iter__ = __len__ = __getitem__ = refuse


class Pairs(tuple):
    __iter__ = __len__ = __getitem__ = refuse


class Entries(dict):
    items = keys = values = __iter__ = __getitem__ = refuse


class OrderedEntries(OrderedDict):
    items = keys = values = __iter__ = __getitem__ = refuse


class Filled(Mapping):
    """Makes a value when it is asked for."""

    __iter__ = __len__ = __getitem__ = refuse

    def __init__(self, **made):
        self.made = made


class FilledWithNotes(Filled):
    """Has a dictionary of its own before that of what it maps."""

    def __init__(self, **made):
        self.notes = {"by": "hand"}
        super().__init__(**made)


class UserDictWithNotes(UserDict):
    def __init__(self, **made):
        self.notes = {"x": "no item"}
        super().__init__(**made)


@dataclasses.dataclass
class Fields:
    x: object

    def __getattribute__(self, name):
        raise Refusal


@dataclasses.dataclass
class Slots:
    __slots__ = ("unset", "x")
    unset: object
    x: object

    def __init__(self, x):
        self.x = x


class Computes:
    x = property(refuse)
    __class__ = property(refuse)

    def __init__(self, x):
        vars(self)["x"] = x


CAREFUL = {
    "list": lambda: Items([1, T]),
    "tuple": lambda: Pairs([1, T]),
    "dictionary": lambda: Entries(x=T),
    "ordered dictionary": lambda: OrderedEntries(x=T),
    "mapping": lambda: Filled(x=T),
    "mapping with notes": lambda: FilledWithNotes(x=T),
    "another's mapping": lambda: UserDict(x=T),
    "another's mapping with notes": lambda: UserDictWithNotes(x=T),
    "dataclass": lambda: Fields(T),
    "dataclass with slots": lambda: Slots(T),
    "object": lambda: Computes(T),
    "namespace": lambda: SimpleNamespace(x=T),
}


@pytest.mark.parametrize("kind", CAREFUL)
def test_no_code_of_a_values_class_is_run_to_look_into_it(kind):
    value = CAREFUL[kind]()
    (found,) = tensors_in(value)
    assert found is T
    assert find_tensor((None, value), None) is T


def test_a_dictionary_that_its_class_computes_is_not_asked_for():
    class Computed:
        __dict__ = property(refuse)

    assert [*tensors_in((Computed(), T))] == [T]


def test_parts_may_lead_back_to_what_they_are_parts_of():
    within, node = [], Output(None, T)
    within += [within, T, {"again": within}, U]
    node.loss = [node]
    assert [*tensors_in(within)] == [T, U]
    assert find_tensor(node, None) is T


def test_a_value_may_be_nested_deeper_than_pythons_stack():
    chain = (T, None)
    for _ in range(5000):
        chain = (None, chain)
    assert find_tensor(chain, None) is T


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


@pytest.mark.parametrize("make", [parametrizations.weight_norm, parametrizations.orthogonal])
def test_what_torch_computes_is_read_and_fills_no_cache(make):
    layer = make(nn.Linear(4, 4))
    with parametrize.cached():
        found = tensor_named(layer, "weight")
        assert not parametrize._cache
    assert torch.equal(found, layer.weight)
    assert {*map(id, parts_of_computed(layer, "weight"))} == {
        id(p) for p in layer.parametrizations.weight.parameters()
    } | {id(b) for b in layer.parametrizations.weight.buffers()}


def hooked(layer):
    made = parametrizations.weight_norm(layer)
    made.parametrizations.weight[0].register_forward_hook(unreachable)
    return made


def of_ones_own(layer):
    return parametrize.register_parametrization(layer, "weight", Own(), unsafe=True)


class Own(nn.Module):
    def forward(self, x):
        return unreachable()


def unreachable(*args):
    raise AssertionError("code of the model's own was run")


@pytest.mark.parametrize(("make", "own"), [(hooked, "_WeightNorm"), (of_ones_own, "Own")])
def test_what_code_of_the_models_own_computes_is_not_run(make, own):
    with contextlib.suppress(AssertionError):  # registering runs it
        layer = nn.Linear(4, 4)
        make(layer)
    assert (computed_by(layer, "weight"), computed_by(layer, "bias")) == (own, "")
    assert tensor_named(layer, "weight") is None


class Answers(nn.Linear):
    shared = torch.ones(2)

    @property
    def scale(self):
        return unreachable()

    def __getattr__(self, name):
        return super().__getattr__(name) if name in ("weight", "bias") else unreachable()


def test_no_property_or_answer_of_the_models_own_is_run_to_find_a_tensor():
    layer = Answers(2, 2)
    vars(layer)["plain"] = T
    layer._buffers["kept"] = U
    assert tensor_named(layer, "weight") is layer._parameters["weight"]
    assert tensor_named(layer, "kept") is U
    assert tensor_named(layer, "plain") is T
    assert tensor_named(layer, "shared") is Answers.shared
    assert tensor_named(layer, "scale") is tensor_named(layer, "nothing") is None
