"""Probes of compiled code, compiled without a back end."""

import pytest
import torch
from torch import nn

from taiyi_fx.passes.probes.board import Board
from taiyi_fx.passes.probes.compiled import (
    READ_BY,
    end_forward,
    here_on,
    read_gradients,
    read_values,
    room_of,
)
from taiyi_fx.passes.probes.compiling import take_operations
from taiyi_fx.passes.probes.probe import Probe
from tests.passes.probes.given import slot_of


def read(here, value, steps, room):
    """A value, read by the steps of a probe, as a lowered graph does."""
    for what, aliasing, pick, reader in steps:
        value = READ_BY[what](here, value, None, aliasing, pick, reader, room)
    return value


def compiled(board, *slots):
    """A function with one probe of these slots, compiled as it stands."""
    take_operations()
    steps = Probe("fc.output", slots, board, is_fresh=True).steps()
    gradients = sum(slot.reading.site.port.endswith("grad") for slot in slots)
    here, room = here_on(board), room_of(gradients)

    def run(x):
        y = read(here(), x * 2, steps, room)
        end_forward(board)
        return y * 3

    return torch.compile(run, backend="aot_eager", fullgraph=True)


def test_values_and_gradients_are_read_and_nothing_else_is_another():
    board = Board()
    value, gradient = slot_of("output", board=board), slot_of("output_grad", board=board)
    x = torch.tensor([1.5, 2.0], requires_grad=True)
    y = compiled(board, value, gradient)(x)
    y.sum().backward()
    board.take_left()
    board.measure()
    board.held.settle()
    assert torch.equal(y, 6 * x)
    assert torch.equal(x.grad, torch.full((2,), 6.0))
    assert value.state[0] == 5
    assert gradient.state[0].item() == pytest.approx(18**0.5)


def test_where_no_gradient_can_come_the_reason_is_left():
    board = Board()
    slot = slot_of("output_grad", board=board)
    steps = Probe("fc.output", [slot], board).steps()
    here, weight = here_on(board), nn.Parameter(torch.ones(1))

    def run(x):
        read(here(), weight, steps, room_of(1))
        end_forward(board)
        return x * 2

    take_operations()
    torch.compile(run, backend="aot_eager", fullgraph=True)(torch.ones(1))
    board.take_left()
    board.measure()
    assert "is a parameter itself" in slot.note


def test_the_compiler_interprets_few_instructions_for_each_probe(monkeypatch):
    from torch._dynamo.symbolic_convert import InstructionTranslatorBase

    count, step = 0, InstructionTranslatorBase.step

    def counted(translator):
        nonlocal count
        count += 1
        return step(translator)

    def interpreted(probes):
        nonlocal count
        board = Board()
        asked = [[slot_of(port, board=board) for port in ("output", "output_grad")]] * probes
        steps = [Probe("fc.output", slots, board, is_fresh=True).steps() for slots in asked]
        here, room = here_on(board), room_of(probes)

        def run(x):
            at = here()
            for of_probe in steps:
                x = read(at, x * 2, of_probe, room)
            return x

        torch.compiler.reset()
        count = 0
        torch.compile(run, backend="eager", fullgraph=True)(torch.ones(2, requires_grad=True))
        return count

    take_operations()
    monkeypatch.setattr(InstructionTranslatorBase, "step", counted)
    assert interpreted(7) - interpreted(2) < 5 * 310


@pytest.mark.filterwarnings("ignore:The .grad attribute")  # the compiler's own, after a split
def test_gradients_are_not_read_in_another_graph_than_the_one_in_which_their_tensors_were_made():
    board = Board()
    first, second = (slot_of("output_grad", board=board) for _ in range(2))
    keys = [Probe("fc.output", [slot], board).steps()[0][-1] for slot in (first, second)]
    here, room = here_on(board), room_of(2)

    def run(x):
        at, y = here(), x * 2
        read_gradients(at, ((y, None, keys[0]),), room)
        torch._dynamo.graph_break()
        read_gradients(at, ((y, None, keys[1]),), room)
        end_forward(board)
        return y * 3

    take_operations()
    x = torch.ones(2, requires_grad=True)
    torch.compile(run, backend="aot_eager")(x).sum().backward()
    board.take_left()
    board.measure()
    assert torch.equal(x.grad, torch.full((2,), 6.0))
    assert second.state is None
    assert "the compiler split the code" in second.note


def test_values_of_several_devices_are_read_on_each():
    board = Board()
    slots = [slot_of(board=board) for _ in range(3)]
    keys = [Probe("fc.output", [slot], board).steps()[0][-1] for slot in slots]
    here = here_on(board)

    def run(x, y):
        values = ((x * 2, None, keys[0]), (y * 2, None, keys[1]), (x * 3, None, keys[2]))
        read_values(here(), values, room_of(0))
        end_forward(board)
        return x * 2

    take_operations()
    x, y = torch.tensor([3.0, 4.0]), torch.ones(2, device="meta")
    torch.compile(run, backend="aot_eager", fullgraph=True)(x, y)
    (trace,) = board.traces
    assert [slot.device.type for slot in getattr(board, trace.place)] == ["meta", "cpu"]


def test_steps_are_constants():
    slot = slot_of("output")
    (step,) = Probe("fc.output", [slot], Board()).steps()
    what, place, pick, reader = step
    assert (what, place, pick) == ("value", "shared", None)
    assert isinstance(reader, str)
