"""States as vectors, and back."""

import pytest
import torch

from taiyi_fx.passes.probes.packing import (
    Places,
    Room,
    Vector,
    is_packed,
    kinds_of,
    pack,
    size_of,
    unpack,
    wide,
)
from taiyi_fx.reductions import Norm

CPU = torch.device("cpu")
STATES = {
    "scalars": (torch.tensor(3), torch.tensor(0.1, dtype=torch.float64)),
    "single": (torch.tensor(0.5),),
    "matrix": (torch.arange(6.0).view(2, 3), torch.tensor(7)),
    "complex": (torch.tensor([1 + 2j, 3 - 4j]), torch.tensor(1j)),
    "empty": (torch.zeros(0), torch.tensor(1.0)),
}


@pytest.mark.parametrize("state", STATES.values(), ids=STATES)
def test_a_state_comes_back_as_it_was(state):
    kinds = kinds_of(state, is_fixed=True)
    vector = pack([state], CPU)
    assert vector.dtype is torch.float64
    assert vector.shape == (size_of(kinds),)
    back = unpack(vector, kinds)
    for part, expected in zip(back, state, strict=True):
        assert part.dtype is expected.dtype
        assert torch.equal(part, expected)


def test_states_lie_one_behind_the_other():
    states = list(STATES.values())
    vector, at = Vector(pack(states, CPU)), 0
    for state in states:
        kinds = kinds_of(state, is_fixed=True)
        found = vector.state(Room(0, at, kinds))
        assert all(torch.equal(a, b) for a, b in zip(found, state, strict=True))
        at += size_of(kinds)


def test_many_are_read_at_once_as_numbers_where_these_say_as_much():
    vector = Vector(torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64))
    assert vector.column(torch.float64, Places([2, 0])) == [3.0, 1.0]
    assert [type(n) for n in vector.column(torch.int64, Places([1]))] == [int]
    single = vector.column(torch.float32, Places([1]))
    assert single.dtype is torch.float32
    assert single.tolist() == [2.0]


def test_no_places_are_no_numbers():
    assert Places([]).of(torch.ones(3)).shape == (0,)


def test_only_small_states_share_a_vector():
    small, large = ((((8, 8), torch.float32),), (((8, 9), torch.float32),))
    assert is_packed(Norm(), small)
    assert not is_packed(Norm(), large)


def test_numbers_are_as_wide_as_a_device_has_them():
    assert wide(CPU) is torch.float64
    assert wide(torch.device("mps")) is torch.float32
    assert pack([], CPU).shape == (0,)
