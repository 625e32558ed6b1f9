"""The board of a model: what compiled code leaves there is taken from it."""

import gc
import weakref

import torch

from taiyi_fx.passes.probes.board import BOARDS, Board
from taiyi_fx.passes.probes.traces import Trace
from taiyi_fx.reductions import Norm

CPU = torch.device("cpu")


def traced(board, *, is_within=False):
    trace = Trace(board.held, is_within)
    board.traces.append(trace)
    return trace


def test_what_a_forward_left_is_taken_once_and_the_next_has_carriers_of_its_own():
    board = Board()
    trace = traced(board)
    name = trace.carrier(trace.carrier_at(CPU, 1))
    board.put_carriers(trace)
    carrier, left = getattr(board, name), [torch.ones(1)]
    setattr(board, trace.place, left)
    board.take_left()
    board.take_left()
    assert board.left == [(trace, None, left)]
    assert getattr(board, trace.place) is None
    assert getattr(board, name) is not carrier


def test_what_a_forward_that_failed_left_is_dropped():
    board = Board()
    trace = traced(board)
    setattr(board, trace.place, [torch.ones(1)])
    board.drop_left()
    assert board.left == []
    assert getattr(board, trace.place) is None


def test_graphs_that_leave_the_same_have_one_place_where_the_code_around_is_compiled_too():
    board = Board()
    first, second = (traced(board, is_within=True) for _ in range(2))
    assert board.place_left(first) == board.place_left(second)
    alone = traced(board)
    assert board.place_left(alone) != board.place_left(first)


def test_equal_reductions_are_one_object():
    board, norm = Board(), Norm()
    assert board.one_of(norm) is norm
    assert board.one_of(Norm()) is norm


def test_a_board_goes_with_its_graphs_and_their_carriers():
    board = Board()
    trace = traced(board)
    trace.carrier_at(CPU, 1)
    board.put_carriers(trace)
    key, gone = board.key, weakref.ref(trace)
    assert BOARDS[key] is board
    del board, trace
    gc.collect()
    assert gone() is None
    assert key not in BOARDS
