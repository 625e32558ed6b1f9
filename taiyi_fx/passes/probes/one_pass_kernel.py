"""The kernels of `one_pass`, in Triton's language: imported where there is a GPU alone."""

# pyright: reportMissingImports=false, reportIndexIssue=false
from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

_BLOCK = tl.constexpr(2048)
"""Elements that a program reads at once."""
_MOST = tl.constexpr(1024)
"""Programs: enough for any GPU, few enough for one of them to join what all have found."""
_INT32 = 2**31 - 1
"""Up to this number of elements it is given in 32 bits, and beyond to another kernel."""


# Each program reads its share, in float64 from each element on; the last one joins them all, in an
# order that is always the same, whichever comes last: equal tensors have equal results.


@triton.jit(do_not_specialize=["n"])
def _norm(x, found, ticket, out, n):
    """The Euclidean norm."""
    program = tl.program_id(0).to(tl.int64)
    places = tl.arange(0, _BLOCK)
    squares = tl.zeros([_BLOCK], tl.float64)
    at = program * _BLOCK
    while at < n:
        value = tl.load(x + at + places, mask=at + places < n, other=0.0).to(tl.float64)
        squares += value * value
        at += tl.num_programs(0).to(tl.int64) * _BLOCK
    tl.store(found + program, tl.sum(squares, 0))
    tl.debug_barrier()
    before = tl.atomic_add(ticket, 1, sem="acq_rel")
    if before == tl.num_programs(0) - 1:
        tl.debug_barrier()
        is_one = tl.arange(0, _MOST) < tl.num_programs(0)
        each = tl.load(found + tl.arange(0, _MOST), mask=is_one, other=0.0, volatile=True)
        tl.store(out, tl.sqrt(tl.sum(each, 0)))
        tl.store(ticket, 0)


@triton.jit(do_not_specialize=["n"])
def _elements(x, found, ticket, sizes, counts, n):
    """The numbers of `ir.Elements`; `sizes` and `counts` are one memory, in two types."""
    program = tl.program_id(0).to(tl.int64)
    places = tl.arange(0, _BLOCK)
    nan = tl.zeros([_BLOCK], tl.int32)
    bad = tl.zeros([_BLOCK], tl.int32)
    total = tl.zeros([_BLOCK], tl.float64)
    squares = tl.zeros([_BLOCK], tl.float64)
    most = tl.zeros([_BLOCK], tl.float32)
    at = program * _BLOCK
    while at < n:
        value = tl.load(x + at + places, mask=at + places < n, other=0.0).to(tl.float32)
        size = tl.abs(value)
        is_finite = size < float("inf")
        nan += (value != value).to(tl.int32)
        bad += tl.where(is_finite, 0, 1)
        kept = tl.where(is_finite, value, 0.0).to(tl.float64)
        total += kept
        squares += kept * kept
        most = tl.maximum(most, tl.where(is_finite, size, 0.0))
        at += tl.num_programs(0).to(tl.int64) * _BLOCK
    mine = found + program
    tl.store(mine, tl.sum(nan.to(tl.int64), 0).to(tl.float64))
    tl.store(mine + _MOST, tl.sum(bad.to(tl.int64), 0).to(tl.float64))
    tl.store(mine + 2 * _MOST, tl.sum(total, 0))
    tl.store(mine + 3 * _MOST, tl.sum(squares, 0))
    tl.store(mine + 4 * _MOST, tl.max(most, 0).to(tl.float64))
    tl.debug_barrier()
    before = tl.atomic_add(ticket, 1, sem="acq_rel")
    if before == tl.num_programs(0) - 1:
        tl.debug_barrier()
        each = found + tl.arange(0, _MOST)
        is_one = tl.arange(0, _MOST) < tl.num_programs(0)
        of_nan = tl.sum(tl.load(each, mask=is_one, other=0.0, volatile=True), 0)
        of_bad = tl.sum(tl.load(each + _MOST, mask=is_one, other=0.0, volatile=True), 0)
        of_all = tl.sum(tl.load(each + 2 * _MOST, mask=is_one, other=0.0, volatile=True), 0)
        of_squares = tl.sum(tl.load(each + 3 * _MOST, mask=is_one, other=0.0, volatile=True), 0)
        of_most = tl.max(tl.load(each + 4 * _MOST, mask=is_one, other=0.0, volatile=True), 0)
        norm = tl.sqrt(of_squares)
        # What is added to sizes of all: 0, or what an element that is not finite makes of them.
        odd = tl.where(of_nan > 0, float("nan"), tl.where(of_bad > 0, float("inf"), 0.0))
        tl.store(sizes, norm + odd)
        tl.store(sizes + 1, of_squares + odd)
        tl.store(sizes + 2, of_most + odd)
        tl.store(sizes + 3, of_all)
        tl.store(sizes + 4, norm)
        tl.store(sizes + 5, of_most)
        tl.store(counts + 6, (n - of_bad).to(tl.int64))
        tl.store(counts + 7, of_nan.to(tl.int64))
        tl.store(counts + 8, of_bad.to(tl.int64))
        tl.store(ticket, 0)


_BUILT: dict[tuple[Any, ...], Any] = {}
"""Kernels by what they are built for: to find them by Triton's own means takes three times as long
as to launch them."""
_ROOMS: dict[tuple[torch.device, int], tuple[Tensor, Tensor]] = {}
"""For each device and stream room for what programs find, and a ticket: 0 between calls."""


def elements(x: Tensor) -> Tensor | None:
    """The vector of `ir.Elements` of a dense tensor on the current device.

    None where the kernel would have to be loaded while a graph is captured, which ends the capture.
    """
    out = torch.empty(9, dtype=torch.float64, device=x.device)
    return out if _launch(_elements, x, out, out.view(torch.int64)) else None


def norm(x: Tensor) -> Tensor | None:
    """The Euclidean norm of a dense tensor on the current device, or None likewise."""
    out = torch.empty((), dtype=torch.float64, device=x.device)
    return out if _launch(_norm, x, out) else None


def _launch(kernel: Any, x: Tensor, *results: Tensor) -> bool:
    """Has a kernel write what it finds in a tensor; false if it would have to be loaded first."""
    n = x.numel()
    built_for = kernel, x.dtype, x.data_ptr() % 16 == 0, n > _INT32, x.device.index
    built = _BUILT.get(built_for)
    is_captured = x.is_cuda and torch.cuda.is_current_stream_capturing()
    if built is None and is_captured:
        return False
    stream = 0 if x.is_cpu else torch._C._cuda_getCurrentRawStream(x.device.index)
    # A captured graph may be replayed beside other streams.
    room = _new_room(x.device) if is_captured else _room(x.device, stream)
    given = x, *room, *results, n
    grid = min(-(-n // _BLOCK.value), _MOST.value), 1, 1
    if built is None:
        _BUILT[built_for] = kernel[grid](*given, num_warps=8)
    else:
        built[grid](*given, stream=stream)
    return True


def _room(device: torch.device, stream: int) -> tuple[Tensor, Tensor]:
    room = _ROOMS.get((device, stream))
    if room is None:
        room = _ROOMS[device, stream] = _new_room(device)
    return room


def _new_room(device: torch.device) -> tuple[Tensor, Tensor]:
    found = torch.empty(5 * _MOST.value, dtype=torch.float64, device=device)
    return found, torch.zeros(1, dtype=torch.int32, device=device)
