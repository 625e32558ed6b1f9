"""Functions that compiled code calls, run as ordinary torch code."""

import torch

from taiyi_fx.passes.probes.in_graph import apart, left_together, merged, one_of, read, watch
from taiyi_fx.reductions import Norm
from tests.passes.probes.test_traces import CPU, begun


def test_a_value_is_read_into_a_vector_and_left():
    trace, (reader,), (slot,) = begun(Norm())
    part = read([torch.tensor([3.0, 4.0])], trace.key, (reader.key,))
    left = left_together([((reader.key,), part)], [], trace.key, 0)
    assert left[0].tolist() == [5]
    trace.unpack(None, left)
    trace.held.settle()
    assert slot.state[0] == 5
    assert merged(left, left, trace.key)[0].tolist() == [50**0.5]


def test_a_gradient_is_read_by_a_hook_and_the_graph_stays_as_it_is():
    trace, (reader,), (slot,) = begun(Norm())
    index = trace.carrier_at(CPU, 1)
    (entry,) = reader.entries()
    trace.give_room(entry, index)
    carrier = trace.new_carrier(index)
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = x * 2
    node = y.grad_fn
    ticket = watch([y], None, carrier, index, trace.key, (reader.key,), False, False)
    assert y.grad_fn is node
    (y * torch.tensor([3.0, 4.0])).sum().backward()
    assert slot.state[0] == 5
    assert ticket.item() == 0


def test_several_tickets_leave_as_one():
    trace, _, _ = begun(Norm())
    carrier = trace.new_carrier(trace.carrier_at(CPU, 1))
    a, b = torch.zeros(()), torch.zeros(())
    assert one_of([a, b], [carrier], trace.key) == 0
    assert one_of([a], [carrier], trace.key) is a
    assert one_of([], [carrier], trace.key) == 0


def test_a_view_is_parted_from_its_base_and_nothing_else_is():
    x = torch.randn(2, 3)
    assert apart(x) is x
    made = apart(x[0])
    assert torch.equal(made, x[0])
    assert not made._is_view()


class Fails(Norm):
    def measure(self, x):
        raise ValueError("mine")


def test_a_measure_that_fails_ends_nothing_and_is_told():
    trace, (reader,), (slot,) = begun(Norm())
    trace.kinds.clear()
    reader.groups = ((Fails(), (slot,)),)
    part = read([torch.ones(1)], trace.key, (reader.key,))
    trace.unpack(None, left_together([((reader.key,), part)], [], trace.key, 0))
    assert str(slot.failure) == "mine"


class Counts(Norm):
    merges = 0

    def merge(self, a, b):
        Counts.merges += 1
        return super().merge(a, b)


def test_a_merge_is_checked_once_a_graph_and_again_where_a_state_is_of_another_kind():
    trace, (reader,), _ = begun(Counts())
    (entry,) = reader.entries()
    for kinds in ({}, {entry: (((3,), torch.float32),)}):
        Counts.merges, trace.kinds = 0, kinds
        for _ in range(3):
            read([torch.ones(2)], trace.key, (reader.key,))
        assert Counts.merges == 1
