"""Cost of a module's calls: time in forward and backward, and memory kept between the two."""

from __future__ import annotations

from torch import Tensor, nn

from taiyi_fx.quantities.declare import quantity
from taiyi_fx.quantities.places import backward_seconds, forward_seconds, saved_bytes
from taiyi_fx.reductions import looks_at_saved_tensors


def _lacks_saved_tensors(_: nn.Module) -> str | None:
    if looks_at_saved_tensors():
        return None
    return "cannot be asked what autograd saved: this torch shows no saved tensor unless unpacked"


@quantity("ForwardTime", unit="s", accuracy="that of the clock", seconds=forward_seconds)
def forward_time(seconds: Tensor) -> Tensor:
    """Seconds that a call of the module takes in forward, its parts included.

    By the clock on the wall, of the module's forward without hooks around it, summed over the
    step's micro-batches, and over ranks. What else is due inside takes its time, too: ask for it at
    steps of its own. The first step that is read also follows the data, and takes longer. On a CUDA
    device by events in its stream, so that nothing waits for it before the step is tracked. Not in
    compiled code, where modules have no begin and no end, nor in a CUDA graph.

    Formula: end - begin, summed over micro-batches
    """
    return seconds


@quantity("BackwardTime", unit="s", accuracy="that of the clock", seconds=backward_seconds)
def backward_time(seconds: Tensor) -> Tensor:
    """Seconds that autograd takes for the backward of a call of the module, its parts included.

    By the clock on the wall, of each operation that leads to the call's result, summed over the
    step's backward passes, micro-batches, and over ranks. An activation checkpoint computes its
    forward again there, which counts. What the engine takes between operations does not, nor the
    accumulation into a parameter's gradient. On a CUDA device by events in its stream. Not in
    compiled code, nor in a CUDA graph.

    Formula: sum over operations of end - begin
    """
    return seconds


@quantity(
    "SavedBytes", unit="bytes", accuracy="exact", requires=_lacks_saved_tensors, found=saved_bytes
)
def saved_bytes_of_call(found: Tensor) -> Tensor:
    """Bytes of the tensors that autograd saves in a call of the module, for its backward.

    Of the nodes that lead to the call's result: a storage that is saved several times, or as views,
    counts once and as a whole; parameters do not count, nor does what saved-tensor hooks packed, as
    those of activation checkpoints do. An input that is saved counts, wherever it was made, so that
    the bytes of two modules may be the same memory. Summed over the step's micro-batches, and over
    ranks. Not in compiled code, which saves what it chooses.

    Formula: sum of the bytes of the distinct storages saved
    """
    return found
