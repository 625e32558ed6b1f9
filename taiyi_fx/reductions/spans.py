"""Spans of calls: the time from a call's begin to its end, and what autograd saved between."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor
from torch._C._autograd import SavedTensor, _get_sequence_nr
from torch.autograd.graph import Node
from torch.nn import Parameter

from taiyi_fx.passes.ir import Numbers, State
from taiyi_fx.passes.structure import tensors_in
from taiyi_fx.reductions.device_clock import device_of, moment, seconds_between

_RAW = "_raw_saved_"


class TotalOfCalls:
    """One number of each call, which adds up over calls and knows no loss scale."""

    finishes_as_is: ClassVar[bool] = True

    def merge(self, a: State, b: State) -> State:
        return (a[0] + b[0],)

    def scale(self, state: State, factor: float) -> State:
        return state

    def finish(self, state: State) -> Tensor:
        return state[0]


@dataclass(frozen=True)
class ForwardSeconds(TotalOfCalls):
    """Seconds between a call's begin and its end.

    By the clock on the wall, which is what a training waits for: a process's clock adds up what all
    of its threads take, those that load data or compute spectra in the background included. On a
    CUDA device by two events in its stream, which are compared once the step is tracked.

    Cost: two readings of a clock
    """

    def mark(self) -> int:
        return moment()

    def measure_span(self, first: int, last: int, result: Any) -> Numbers | Callable[[], Numbers]:
        return seconds_between(first, last, device_of(result))


# Autograd numbers its nodes as a thread makes them. Those that a call made, as far as they lead to
# its result, are reached from there and have numbers between those at its two ends. What a node
# saved is looked at without being unpacked, so that no hook of anyone's runs. Hooks of our own
# would take the place of those of a checkpoint outside, and would switch off the check that finds a
# saved tensor that was changed in place.
@dataclass(frozen=True)
class SavedBytes(TotalOfCalls):
    """Bytes that autograd saved in a call for its backward, each storage once.

    Cost: a walk along autograd's nodes of the call
    """

    def mark(self) -> int:
        return _get_sequence_nr()

    def measure_span(self, first: int, last: int, result: Any) -> Numbers:
        found: dict[int, int] = {}
        for node in nodes_of(result, range(first, last)):
            for saved in _saved_by(node):
                if isinstance(saved, Parameter) or isinstance(saved._base, Parameter):
                    continue
                storage = saved.untyped_storage()
                found[storage._cdata] = storage.nbytes()
        return (sum(found.values()),)


def looks_at_saved_tensors() -> bool:
    """True if this torch shows a saved tensor without unpacking it."""
    return hasattr(SavedTensor, "data") and hasattr(SavedTensor, "unpack_hook")


def nodes_of(result: Any, numbers: range) -> Iterator[Node]:
    """The nodes of these numbers that a value depends on, each once."""
    waiting = [x.grad_fn for x in tensors_in(result) if x.grad_fn is not None]
    met: set[Node] = set()
    while waiting:
        node = waiting.pop()
        if node in met or node._sequence_nr() not in numbers:
            continue
        met.add(node)
        yield node
        waiting += (other for other, _ in node.next_functions if other is not None)


def _saved_by(node: Node) -> Iterator[Tensor]:
    """The tensors that a node saved; what a hook packed is not held by autograd."""
    for name in _saved_names(type(node)):
        raw = getattr(node, name)
        for one in raw if isinstance(raw, tuple) else (raw,):
            if one.unpack_hook is None and isinstance(one.data, Tensor):
                yield one.data


@functools.lru_cache(maxsize=1024)
def _saved_names(kind: type) -> tuple[str, ...]:
    return tuple(name for name in dir(kind) if name.startswith(_RAW))
