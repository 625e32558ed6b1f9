"""Hooks of autograd's nodes that read the gradients of what the nodes made.

From its second gradient on, the hook of a small tensor is `list.append`: see `held`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import BackwardCFunction
from torch.autograd.graph import Node

from taiyi_fx.passes.probes.accumulate import SlotGroup, fail_all, fold
from taiyi_fx.passes.probes.held import (
    MOST,
    SMALL,
    UNKNOWN,
    First,
    Held,
    Turn,
    is_batch,
    with_hook,
)
from taiyi_fx.passes.probes.modes import are_modes_on, modes_off
from taiyi_fx.passes.probes.retained import keeps_graph

Tapping = Callable[..., Any]
"""A function of a value and its call's input; returns the value, with its gradient read."""

_TURNS = 16
"""The most turns; gradients of later forwards of a step come to the function."""


class GradientHook:
    """Reads gradients of outputs of nodes of autograd's graph.

    A gradient is that of all uses of the tensor together, up to where it is changed in place, and
    the graph stays as it is.

    Args:
        groups: The reductions and slots that take the gradients.
        room: Holds small gradients, unless others may get the same tensor, as a sum's node passes
            it on.

    Attributes:
        version: The version that small gradients arrive with, once one has.
        room: Holds small gradients; None if they are read at once.
        comes_large: True if a large gradient has come.
    """

    def __init__(self, groups: tuple[SlotGroup, ...], room: Held | None = None) -> None:
        self.groups = groups
        self.version = UNKNOWN
        self.comes_large = False
        self._turns: list[Turn] = []
        self._fold = functools.partial(fold_gradient, groups)
        self.room = room
        self._take = self._fold
        if room is not None:
            self._take = functools.partial(_fold_or, self._let_wait, groups)

    @functools.cached_property
    def _hooks(self) -> Tensor:
        """The hooks, in the form that a node takes."""
        return with_hook(self._take)

    def turn_at(self, number: int) -> Turn | None:
        """The list for the gradients of a forward, by the number of its turn, if there is one."""
        return self._turns[number] if number < len(self._turns) else None

    def at(self, node: Node, output: int, *, is_inside: bool) -> None:
        """Reads the gradient of an output of a node.

        Args:
            node: The node that made the tensor.
            output: The number of the tensor among its outputs.
            is_inside: True if nothing else puts hooks on the tensor; those would run first.
        """
        if isinstance(node, BackwardCFunction):  # which may write into its input
            node.register_prehook(functools.partial(give_one_of, output, self._fold))
        elif is_inside and not output:
            # The last part of `Tensor.register_hook`, in a sixth of its time: the node gets the
            # hooks of a tensor, here of one that is kept for this.
            node._register_hook_dict(self._hooks)  # pyright: ignore[reportAttributeAccessIssue]
            room = self.room
            if room is not None and self._turns and len(self._turns) <= room.turn < _TURNS:
                self._turns += [Turn(self), Turn(self)]
        else:
            node.register_prehook(functools.partial(give_one_of, output, self._take))

    def fast_path(self, general: Callable[[Any, Any], Any], *, may_be_view: bool) -> Tapping:
        """A faster way to read the gradient of a tensor that nothing else puts hooks on.

        Args:
            general: Reads the gradient in the cases that this does not handle.
            may_be_view: True if this may handle views.
        """
        room, turns = self.room, self._turns
        if room is None:
            return general
        hung, folding = room.hung, with_hook(self._take)
        if not turns:
            turns += [Turn(self), Turn(self)]

        def tapped(value: Any, given: Any = None) -> Any:
            if (
                type(value) is Tensor
                and ((is_small := value.numel() <= SMALL) or self.comes_large)
                and (self.version is not UNKNOWN or not is_small)
                and value.dtype is torch.float32
                and value.is_cpu
                and (may_be_view or not value._is_view())
                and len(hung) < MOST
                and room.turn < len(turns)
            ):
                node = value.grad_fn
                if node is not None and not value.output_nr:
                    turn = turns[room.turn]
                    node._register_hook_dict(turn.owner if is_small else folding)  # pyright: ignore[reportAttributeAccessIssue]
                    room.latest = node
                    room.lists[turn] = turn.gradients
                    turn.is_read = False
                    if is_small:
                        hung.append(None)
                    return value
            return general(value, given)

        return tapped

    def _let_wait(self, groups: tuple[SlotGroup, ...], g: Tensor) -> None:
        room = self.room
        assert room is not None
        if is_batch(g, groups):
            return
        arrived = g
        try:
            if keeps_graph() or room.retained.sums:
                total = room.retained.total(groups, g)
                if total is None:
                    room.keeps_graph = True
                    return
                g = total
            if type(g) is Tensor and g.numel() > SMALL:
                self.comes_large = True
                fold(g, groups)
                return
            # Until a first one is known to stay as it came, a copy is measured.
            is_first = self.version == UNKNOWN
            is_held = room.takes_gradient(g, groups, stays=not is_first)
        except Exception as error:  # noqa: BLE001 - never ends training; warned of at `track`
            fail_all(groups, error)
            return
        if not is_held:
            fold(g, groups)
        elif is_first and room.tensors and g is arrived and not room.retained.is_needed:
            # Else each backward may come from other heads, with gradients in other versions.
            room.firsts.append(First(self, g, g._version, room.tensors[-1]))


def give_one_of(
    output: int, take: Callable[[Tensor], None], gradients: tuple[Tensor | None, ...]
) -> None:
    """Passes the gradient of one output of a node to a hook, if there is one."""
    g = gradients[output]
    if g is not None:
        take(g)


def fold_gradient(groups: tuple[SlotGroup, ...], g: Tensor | None, place: Any = None) -> None:
    """Folds a gradient into slots at once, or with the next ones of the same tensor.

    Args:
        groups: The reductions and slots that take it.
        g: The gradient; None if a backward brought none.
        place: Says which tensor it is of; None for that of the hook that runs.
    """
    _fold_or(_fold_now, groups, g, place)


def _fold_or(
    take: Callable[..., None], groups: tuple[SlotGroup, ...], g: Tensor | None, *place: Any
) -> None:
    """Gives a gradient to a function, or folds it where the compiler traces the backward pass."""
    if g is None:  # a backward behind it brought none
        return
    if torch.compiler.is_compiling():  # under compiled autograd
        if not is_batch(g, groups):
            fold(g, groups)
    elif not are_modes_on():
        take(groups, g, *place)
    else:
        with modes_off():
            take(groups, g, *place)


def _fold_now(groups: tuple[SlotGroup, ...], g: Tensor, place: Any = None) -> None:
    if is_batch(g, groups):
        return
    retained = groups[0][1][0].retained
    if keeps_graph() or retained.sums:
        try:
            total = retained.total(groups, g, place)
        except Exception as error:  # noqa: BLE001 - never ends training; warned of at `track`
            fail_all(groups, error)
            return
        if total is not None:
            fold(total, groups)
    else:
        fold(g, groups)
