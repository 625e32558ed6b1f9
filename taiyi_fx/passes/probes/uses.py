"""The gradient of one call's uses of a tensor, read at the nodes of autograd that use it.

Nothing is put in the path: each use's gradient goes where it went, in the same order, and is seen
as it leaves the node.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch._C._autograd import _get_sequence_nr
from torch.autograd.graph import Node

from taiyi_fx.passes.made_nodes import nodes_of
from taiyi_fx.passes.probes.accumulate import SlotGroup, fail_all, leave
from taiyi_fx.passes.probes.eager_taps import expects_gradient, tap
from taiyi_fx.passes.probes.gradient_hook import fold_gradient
from taiyi_fx.passes.probes.held import NOT_REACHED, is_batch
from taiyi_fx.passes.probes.modes import are_modes_on, modes_off
from taiyi_fx.passes.structure import tensors_in

_LEAVES = 2**63
"""Above the numbers of all nodes but those of leaves."""
_NONE = -1
"""In place of the number of a backward pass, before the first."""


@dataclass(frozen=True)
class Begun:
    """A tensor that a call was given, as the call began.

    Attributes:
        node: The node of autograd's graph that made it; None for a leaf.
        output: Its number among the node's outputs.
        leaf: The tensor itself, if it is a leaf.
        first: The number of the first node that the call may make.
        shape: Its shape, if it has one.
        dtype: Its type.
    """

    node: Node | None
    output: int
    leaf: Tensor | None
    first: int
    shape: torch.Size | None
    dtype: torch.dtype

    def is_made_by(self, node: Node | None, output: int) -> bool:
        """True if an output of a node is the tensor."""
        if self.node is not None:
            return node is self.node and output == self.output
        return node is not None and getattr(node, "variable", None) is self.leaf

    def is_same(self, x: Tensor) -> bool:
        """True if a tensor is the one that was given, unchanged."""
        if self.node is None:
            return x is self.leaf
        return x.grad_fn is self.node and x.output_nr == self.output


def begin_uses(x: Tensor, groups: tuple[SlotGroup, ...]) -> None:
    """Notes that a call begins that is given a tensor."""
    node = x.grad_fn if torch.is_grad_enabled() else None
    if node is None and not expects_gradient(x, groups):
        return
    leave(groups, NOT_REACHED)
    leaf, shape = x if node is None else None, None if x.is_nested else x.shape
    first = _get_sequence_nr()
    groups[0][1][0].begun = Begun(node, x.output_nr, leaf, first, shape, x.dtype)


def end_uses(
    value: Any, given: Any, keepers: Sequence[nn.Module], groups: tuple[SlotGroup, ...]
) -> None:
    """Reads the gradient of all uses that were made since the call began.

    Where the call hands on the very tensor, nothing distinguishes its later uses from others: the
    gradient is then that of all uses of the tensor.

    Args:
        value: The result of the call.
        given: Its arguments, if it may change them in place.
        keepers: Modules that it called, which may keep tensors as attributes.
        groups: The reductions and slots that take the gradient.
    """
    slot = groups[0][1][0]
    begun, slot.begun = slot.begun, None
    if begun is None:
        return
    for x in tensors_in(value):
        if begun.is_same(x):
            tap(x, x, groups, "handed through")
            return
    found = _uses(begun, value, given, keepers)
    uses = Uses(groups, begun, len(found))
    for node, places in found:
        node.register_hook(functools.partial(uses.take, places))


def _uses(
    begun: Begun, value: Any, given: Any, keepers: Sequence[nn.Module]
) -> list[tuple[Node, list[int]]]:
    """The nodes that a call made of a tensor, and where in each its gradient comes out.

    Nearly always all nodes of a call lead to its result. Else some may lead to what it changed in
    place, or to what its modules keep as attributes, such as a loss.
    """
    met: set[Node] = set()
    uses = _uses_before(tensors_in(value), begun, met)
    if len(met) < _get_sequence_nr() - begun.first:
        uses += _uses_before(tensors_in(given), begun, met)
        uses += _uses_before(_kept_by(keepers), begun, met)
    return uses


def _uses_before(
    tensors: Iterable[Tensor], begun: Begun, met: set[Node]
) -> list[tuple[Node, list[int]]]:
    found = []
    for node, edges in nodes_of(tensors, range(begun.first, _LEAVES), met):
        places = [i for i, (n, output) in enumerate(edges) if begun.is_made_by(n, output)]
        if places:
            found.append((node, places))
    return found


def _kept_by(keepers: Iterable[nn.Module]) -> Iterator[Tensor]:
    """Tensors that modules or their parts keep as attributes, or in lists and dictionaries."""
    for keeper in keepers:
        for module in keeper.modules():
            for value in vars(module).values():
                if isinstance(value, Tensor):
                    yield value
                elif isinstance(value, (list, tuple, dict)):
                    held = value.values() if isinstance(value, dict) else value
                    yield from (x for x in held if isinstance(x, Tensor))


class Uses:
    """The gradient of a call's uses of a tensor, as the nodes that use it bring it.

    Args:
        groups: The reductions and slots that take it.
        begun: The tensor as it was given.
        count: The number of nodes that use it.
    """

    def __init__(self, groups: tuple[SlotGroup, ...], begun: Begun, count: int) -> None:
        self.groups = groups
        self._shape, self._dtype, self._count = begun.shape, begun.dtype, count
        self._came = 0
        self._total: Tensor | None = None
        self._backward = _NONE

    def take(self, places: Sequence[int], gradients: Sequence[Tensor | None], _: Any) -> None:
        """Takes what one node brings; the last one of a backward completes the gradient.

        Args:
            places: The places of the tensor among what the node uses.
            gradients: The gradients of all that it uses.
        """
        if torch.compiler.is_compiling() or not are_modes_on():
            self._take([g for g in map(gradients.__getitem__, places) if g is not None])
        else:
            with modes_off():
                self._take([g for g in map(gradients.__getitem__, places) if g is not None])

    def _take(self, gradients: Sequence[Tensor]) -> None:
        try:
            if self._count > 1:
                self._begin()
            self._came += 1
            for g in gradients:
                if not is_batch(g, self.groups):
                    self._add(g.detach(), is_only=self._count == len(gradients) == 1)
            if self._came == self._count:
                self._end()
        except Exception as error:  # noqa: BLE001 - never ends training; warned of at `track`
            fail_all(self.groups, error)

    def _begin(self) -> None:
        """Has the gradient completed at the end of this backward, if not all nodes are in it."""
        if torch.compiler.is_compiling():  # under compiled autograd
            return
        running = torch._C._current_graph_task_id()
        if running != self._backward:  # another may have failed
            self._backward, self._came, self._total = running, 0, None
            end = functools.partial(self._end_of, running)
            torch.autograd.Variable._execution_engine.queue_callback(end)

    def _add(self, g: Tensor, *, is_only: bool) -> None:
        # Autograd does these two behind the node.
        if self._shape is not None and g.shape != self._shape:
            g = g.sum_to_size(self._shape)
        if g.dtype is not self._dtype:
            g = g.to(self._dtype)
        if self._total is not None:
            self._total = self._total + g
        else:
            self._total = g if is_only else g.clone()

    def _end(self) -> None:
        total, self._total = self._total, None
        self._came, self._backward = 0, _NONE
        if total is not None:
            fold_gradient(self.groups, total, place=self)

    def _end_of(self, backward: int) -> None:
        if self._backward == backward:
            self._end()
