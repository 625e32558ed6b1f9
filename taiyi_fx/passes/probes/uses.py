"""The gradient of one call's uses of a tensor, read at the nodes of autograd that use it.

Nothing is put in the path: each use's gradient goes where it went, in the same order, and is seen
as it leaves the node.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch._C._autograd import _get_sequence_nr
from torch.autograd.graph import Node

from taiyi_fx.passes.module_tree import modules_of
from taiyi_fx.passes.probes.accumulate import SlotGroup, fail_all, note_reason
from taiyi_fx.passes.probes.eager_taps import expects_gradient, tap
from taiyi_fx.passes.probes.gradient_hook import fold_gradient
from taiyi_fx.passes.probes.held import NOT_REACHED, is_batch
from taiyi_fx.passes.probes.modes import are_modes_on, modes_off
from taiyi_fx.passes.structure import parts_of, tensors_in, unseen_by_classes

_LEAVES = 2**63
"""Above the numbers of all nodes but those of leaves."""
_NONE = -1
"""In place of the number of a backward pass, before the first."""


class Begun:
    """A tensor that a call was given, as the call began.

    Autograd numbers its nodes as a thread makes them: those of the call follow. What other threads
    made has numbers of theirs, so that the nodes behind the arguments are kept beside.

    Attributes:
        node: The node of autograd's graph that made it; None for a leaf.
        output: Its number among the node's outputs.
        leaf: The tensor itself, if it is a leaf.
        shape: Its shape, if it has one.
        dtype: Its type.
        first: The number of the first node that the call may make.
        given: The nodes that made the arguments.
    """

    __slots__ = ("dtype", "first", "given", "leaf", "node", "output", "shape")

    def __init__(self, x: Tensor, node: Node | None, value: Any) -> None:
        self.node, self.output = node, x.output_nr
        self.leaf = x if node is None else None
        self.shape = None if x.is_nested else x.shape
        self.dtype = x.dtype
        self.given = {node} if value is x else {t.grad_fn for t in tensors_in(value)}
        self.first = _get_sequence_nr()

    def is_same(self, x: Tensor) -> bool:
        """True if a tensor is the one that was given, unchanged."""
        if self.node is None:
            return x is self.leaf
        return x.grad_fn is self.node and x.output_nr == self.output


def begin_uses(x: Tensor, value: Any, groups: tuple[SlotGroup, ...]) -> None:
    """Notes that a call begins that is given a tensor.

    Args:
        x: The tensor.
        value: All arguments of the call.
        groups: The reductions and slots that take the gradient.
    """
    node = x.grad_fn if torch.is_grad_enabled() else None
    if node is None and not expects_gradient(x, groups):
        return
    note_reason(groups, NOT_REACHED)
    groups[0][1][0].begun = Begun(x, node, value)


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
    if type(value) is Tensor:
        _end(begun, [value], given, keepers, groups)
    else:
        results = [*tensors_in(value)]
        with unseen_by_classes(*results):
            _end(begun, results, given, keepers, groups)


def _end(
    begun: Begun,
    results: list[Tensor],
    given: Any,
    keepers: Sequence[nn.Module],
    groups: tuple[SlotGroup, ...],
) -> None:
    for x in results:
        if begun.is_same(x):
            tap(x, x, groups, "handed through")
            return
    found = _uses(begun, results, given, keepers)
    uses = Uses(groups, begun, len(found))
    for node, places in found.items():
        is_only = len(found) == len(places) == 1
        take = functools.partial(uses.take_only if is_only else uses.take, places)
        node.register_hook(take)


def _uses(
    begun: Begun, results: list[Tensor], given: Any, keepers: Sequence[nn.Module]
) -> dict[Node, list[int]]:
    """The nodes that a call made of a tensor, and where in each its gradient comes out.

    Nearly always all nodes of a call lead to its result. Else some may lead to what it changed in
    place, or to what its modules keep as attributes, such as a loss.
    """
    found: dict[Node, list[int]] = {}
    met: set[Node] = set()
    _look_before(results, begun, met, found)
    if len(met) < _get_sequence_nr() - begun.first:
        _look_before(tensors_in(given), begun, met, found)
        _look_before(_kept_by(keepers), begun, met, found)
    return found


def _look_before(
    tensors: Iterable[Tensor], begun: Begun, met: set[Node], found: dict[Node, list[int]]
) -> None:
    """Finds the nodes of a call that tensors depend on, and its uses of what it was given."""
    made_by, output, leaf, first = begun.node, begun.output, begun.leaf, begun.first
    made = [x.grad_fn for x in tensors]
    waiting = [n for n in made if n is not None and first <= n._sequence_nr() < _LEAVES]
    while waiting:
        node = waiting.pop()
        if node in met:
            continue
        met.add(node)
        for place, (before, number) in enumerate(node.next_functions):
            if before is None:
                continue
            if before is made_by:
                if number == output:
                    found.setdefault(node, []).append(place)
            elif before not in begun.given and (made_as := before._sequence_nr()) >= first:
                if made_as < _LEAVES:
                    waiting.append(before)
                elif leaf is not None and getattr(before, "variable", None) is leaf:
                    found.setdefault(node, []).append(place)


def _kept_by(keepers: Iterable[nn.Module]) -> Iterator[Tensor]:
    """Tensors that modules or their parts keep as attributes, or in lists and dictionaries."""
    for keeper in keepers:
        for module in modules_of(keeper):
            for value in vars(module).values():
                held = [value, *(part for _, part in parts_of(value))]
                yield from (x for x in held if issubclass(type(x), Tensor))


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

    def take_only(self, places: Sequence[int], gradients: Sequence[Tensor | None], _: Any) -> None:
        """The same as `take`, for the only use, in less time."""
        g = gradients[places[0]]
        shape = self._shape
        if g is not None and shape is not None and g.shape == shape and g.dtype is self._dtype:
            fold_gradient(self.groups, g, self)
        else:
            self.take(places, gradients, _)

    def take(self, places: Sequence[int], gradients: Sequence[Tensor | None], _: Any) -> None:
        """Takes what one node brings; the last one of a backward completes the gradient.

        Args:
            places: The places of the tensor among what the node uses.
            gradients: The gradients of all that it uses.
        """
        found = [g for place in places if (g := gradients[place]) is not None]
        if torch.compiler.is_compiling() or not are_modes_on():
            self._take(found)
        else:
            with modes_off():
                self._take(found)

    def _take(self, gradients: Sequence[Tensor]) -> None:
        try:
            if self._count > 1:
                self._begin()
            self._came += 1
            for g in gradients:
                if not is_batch(g, self.groups):
                    self._add(g.detach())
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

    def _add(self, g: Tensor) -> None:
        # Autograd does these two behind the node.
        if self._shape is not None and g.shape != self._shape:
            g = g.sum_to_size(self._shape)
        if g.dtype is not self._dtype:
            g = g.to(self._dtype)
        self._total = g.clone() if self._total is None else self._total + g

    def _end(self) -> None:
        total, self._total = self._total, None
        self._came, self._backward = 0, _NONE
        if total is not None:
            fold_gradient(self.groups, total, self)

    def _end_of(self, backward: int) -> None:
        if self._backward == backward:
            self._end()
