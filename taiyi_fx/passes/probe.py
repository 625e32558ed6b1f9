"""What the passes emit: probes, the slots they fold into, and the autograd Functions between."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

import torch
from torch import Tensor
from torch._C._functorch import is_functorch_wrapped_tensor, is_legacy_batchedtensor
from torch.nn import Parameter
from torch.utils.hooks import RemovableHandle

from taiyi_fx.passes.edited import has_edit, hook_first
from taiyi_fx.passes.ir import (
    VALUE_PORTS,
    Pick,
    Port,
    Reduction,
    State,
    has_fixed_shape,
)
from taiyi_fx.passes.slots import CLOCK, Slot, allocate, where
from taiyi_fx.passes.structure import find_tensor, replace_tensor, stands_in, tensors_in

SlotGroup = tuple[Any, tuple[Slot, ...]]
"""One reduction, of a tensor or a pair, and every slot that it serves."""

Way = Literal["made here", "view", "handed through", "held by another"]
"""How a tensor stands where its gradient is to be read."""


class Probe:
    """A node of the graph: reads what passes it and hands it on.

    Values are read on the spot. For gradients an autograd Function is put in the path, behind
    the producer and before all consumers.

    Attributes:
        value_slots: By what is picked from the value, the slots to fold it into.
        gradient_slots: The same for the gradient.
        pair_slots: The same by what is picked from the call's input, which they read together
            with the gradient of the output.
        is_fresh: Whether what passes was just made and is shared with nothing before it.
        taps_output: Whether the gradient of a call's output is read.
    """

    def __init__(self, name: str, slots: Iterable[Slot], *, is_fresh: bool = False) -> None:
        # torch.fx names a called object in the generated code by these two.
        self.__name__ = name
        self.__module__ = "taiyi_fx"
        self.slots = tuple(dict.fromkeys(slots))
        self.is_fresh = is_fresh
        self.value_slots = _grouped(self.slots, VALUE_PORTS)
        self.gradient_slots = _grouped(self.slots, ("input_grad", "output_grad"))
        self.pair_slots = _grouped(self.slots, ("pair",))
        self.taps_output = any(s.reading.site.port in ("output_grad", "pair") for s in self.slots)

    @property
    def taps_gradients(self) -> bool:
        """Whether it stands in the path of the value."""
        return bool(self.gradient_slots or self.pair_slots)

    @property
    def needs_given(self) -> bool:
        """Whether it has to know what the call was given."""
        return not self.is_fresh or bool(self.pair_slots)

    def __repr__(self) -> str:
        return f"Probe({self.__name__!r}, {len(self.slots)} readings)"

    def __call__(self, value: Any, given: Any = None) -> Any:
        """Reads ``value``, any structure of tensors, and returns it with gradients tapped.

        Args:
            value: What passes.
            given: What the call was given whose output passes, if the one may be the other.
        """
        for pick, groups in self.value_slots.items():
            tensor = find_tensor(value, pick)
            if tensor is not None:
                _read_value(tensor.detach(), groups)
        for pick, groups in self.gradient_slots.items():
            tensor = find_tensor(value, pick)
            if tensor is not None:
                value = _tap_gradient(value, tensor, groups, self._way(value, tensor, given))
        for pick, groups in self.pair_slots.items():
            tensor, x = find_tensor(value, None), find_tensor(given, pick)
            if tensor is not None and x is not None:
                way = self._way(value, tensor, given)
                value = _tap_pair(value, tensor, x.detach(), groups, way)
        return value

    def _way(self, value: Any, tensor: Tensor, given: Any) -> Way:
        if value is not tensor and not stands_in(value, tensor):
            return "held by another"
        if self.is_fresh or torch.compiler.is_compiling():
            return "made here"
        if any(tensor is other for other in tensors_in(given)):
            return "handed through"
        if self.taps_output:
            return "held by another"  # as far as anyone can tell
        return "view" if tensor._is_view() else "made here"


def _grouped(slots: Sequence[Slot], ports: tuple[Port, ...]) -> dict[Pick, tuple[SlotGroup, ...]]:
    picks: dict[Pick, dict[Any, list[Slot]]] = {}
    for slot in slots:
        site = slot.reading.site
        if site.port in ports:
            groups = picks.setdefault(site.pick, {})
            groups.setdefault(slot.reading.reduction, []).append(slot)
    return {pick: tuple((r, tuple(s)) for r, s in groups.items()) for pick, groups in picks.items()}


def _read_value(x: Tensor, groups: tuple[SlotGroup, ...]) -> None:
    if torch.compiler.is_compiling():
        for reduction, slots in groups:
            for slot in slots:
                if has_fixed_shape(reduction):
                    measured = reduction.measure(x)
                    _fold_cells(reduction, _cells_for(slot, measured), measured)
                else:
                    slot.fold(reduction.measure(x))
    else:
        _fold(x, groups)


def _fold(x: Tensor, groups: tuple[SlotGroup, ...]) -> None:
    if _is_batched(x):
        _leave(groups, "gradients were taken as a batch (is_grads_batched, vectorize or vmap)")
        return
    x = x.detach()  # with create_graph=True a gradient has a graph of its own
    for reduction, slots in groups:
        try:
            measured = reduction.measure(x)
            for slot in slots:
                slot.fold(measured)
                slot.shape = x.shape
                slot.order = next(CLOCK)
        except Exception as error:  # noqa: BLE001 - never ends a training run; told at `track`
            # A traceback would keep the tensors of its frames alive.
            error.__context__ = error.__cause__ = None
            for slot in slots:
                slot.failure = error.with_traceback(None)


def _is_batched(x: Tensor) -> bool:
    """Whether torch runs this once for many, and nothing that is made of it can be kept."""
    return is_functorch_wrapped_tensor(x) or is_legacy_batchedtensor(x)


def _tap_gradient(value: Any, tensor: Tensor, groups: tuple[SlotGroup, ...], way: Way) -> Any:
    if isinstance(tensor, Parameter):
        _leave(groups, "the tensor there is a parameter itself; read its own gradient instead")
        return value
    has_gradient = tensor.requires_grad and torch.is_grad_enabled()
    if torch.compiler.is_compiling():
        if not has_gradient:
            return value
        if way != "made here":
            _leave(groups, f"the tensor there is {way}: read its gradient without compiling")
            return value
        tapped = _tap_compiled(tensor, groups)
        return tapped if value is tensor else replace_tensor(value, tensor, tapped)
    _note(groups, tensor)
    if not has_gradient:
        return value
    if way != "made here":
        # A Function would part the tensor from its other name: were it then changed in place
        # and used again under that, gradients would be wrong without a word. A hook on the tensor
        # leaves the graph as it is.
        handle = _hook(tensor, lambda g: _fold(g, groups))
        if tensor.is_leaf:  # it outlives the step: so would the hook
            groups[0][1][0].handles.append(handle)
        return value
    tapped = EagerTap.apply(tensor, groups)
    return tapped if value is tensor else replace_tensor(value, tensor, tapped)


def _hook(tensor: Tensor, fold: Callable[[Tensor], None]) -> RemovableHandle:
    _ = tensor.grad_fn  # else torch 2.13 crashes where a view's base was changed in place
    return hook_first(tensor, fold) if has_edit(tensor) else tensor.register_hook(fold)


def _tap_pair(
    value: Any, tensor: Tensor, x: Tensor, groups: tuple[SlotGroup, ...], way: Way
) -> Any:
    if not torch.compiler.is_compiling():
        with_input = tuple((_WithInput(r, x), slots) for r, slots in groups)
        return _tap_gradient(value, tensor, with_input, way)
    if not tensor.requires_grad or not torch.is_grad_enabled():
        return value
    reductions, cells = _cells_of_all(groups, lambda reduction: reduction.measure_pair(x, tensor))
    tapped = CompiledPairTap.apply(tensor, x, reductions, *cells)
    return tapped if value is tensor else replace_tensor(value, tensor, tapped)


class _WithInput:
    """A reduction of a pair, given its first half until the gradient comes."""

    def __init__(self, reduction: Any, x: Tensor) -> None:
        self.reduction = reduction
        self.x: Tensor | None = x
        self.version = x._version

    def measure(self, g: Tensor) -> State:
        """The statistic of the pair; the input is let go."""
        x, self.x = self.x, None
        if x is None:
            raise RuntimeError("backward came twice, and the input was let go after the first")
        if x._version != self.version:
            raise RuntimeError("the input was changed in place after the call")
        return self.reduction.measure_pair(x, g)


def _leave(groups: tuple[SlotGroup, ...], reason: str) -> None:
    for _, slots in groups:
        for slot in slots:
            slot.note = reason


def _tap_compiled(tensor: Tensor, groups: tuple[SlotGroup, ...]) -> Tensor:
    x = tensor.detach()
    reductions, cells = _cells_of_all(groups, lambda reduction: reduction.measure(x))
    return CompiledTap.apply(tensor, reductions, *cells)


def _cells_of_all(
    groups: tuple[SlotGroup, ...], measure: Callable[[Any], State]
) -> tuple[tuple[Reduction, ...], list[Tensor]]:
    """The reductions that compiled code can fold gradients into, and the cells of each in turn."""
    reductions: list[Reduction] = []
    cells: list[Tensor] = []
    for reduction, slots in groups:
        for slot in slots:
            if has_fixed_shape(reduction):
                reductions.append(reduction)
                cells.extend(_cells_for(slot, measure(reduction)))
            else:
                slot.note = "gradients themselves are not kept in compiled code, only statistics"
    return tuple(reductions), cells


def _note(groups: tuple[SlotGroup, ...], tensor: Tensor) -> None:
    if not torch.is_grad_enabled():
        reason = "the module was called under torch.no_grad()"
    elif not tensor.requires_grad:
        reason = "the tensor there does not require a gradient"
    else:
        reason = "no gradient reached it"
        if tensor._is_view():
            reason += ", or it is a view that was changed in place"
    _leave(groups, reason)


class EagerTap(torch.autograd.Function):
    """The identity; its backward folds the gradient into slots.

    Returning ``x.detach()`` instead of ``x`` lets in-place operations follow, shares the version
    counter (so that real misuse is still reported) and keeps gradients bit-equal.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, groups: tuple[SlotGroup, ...]) -> Tensor:
        """``x``; ``ctx`` is autograd's untyped context."""
        ctx.groups = groups
        return x.detach()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        """The gradient as it came."""
        _fold(grads[0], ctx.groups)
        return grads[0], None

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Tensor:
        """The tangent as it came, a view as the output is one."""
        return tangents[0].view_as(tangents[0])


class CompiledTap(torch.autograd.Function):
    """The identity; its backward folds the gradient into cells, in place, for compiled code."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, reductions: tuple[Reduction, ...], *cells: Tensor) -> Tensor:
        """``x``; ``cells`` are those of each reduction in turn."""
        ctx.reductions, ctx.cells = reductions, cells
        return x.detach()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        """The gradient as it came."""
        start = 0
        # The compiler moves what does not depend on the gradient, such as a count of its elements,
        # into the forward, where the cells are read too late: so all of it depends on it.
        none = grads[0].reshape(-1)[:1].isnan().sum().clamp(max=0)
        for reduction in ctx.reductions:
            measured = reduction.measure(grads[0])
            end = start + 1 + len(measured)
            _fold_cells(reduction, ctx.cells[start:end], measured, none)
            start = end
        return grads[0], None, *(None for _ in ctx.cells)


class CompiledPairTap(torch.autograd.Function):
    """The same for reductions of a call's input and its output's gradient together."""

    @staticmethod
    def forward(
        ctx: Any, y: Tensor, x: Tensor, reductions: tuple[Any, ...], *cells: Tensor
    ) -> Tensor:
        """``y``; ``cells`` are those of each reduction in turn."""
        ctx.save_for_backward(x)
        ctx.reductions, ctx.cells = reductions, cells
        return y.detach()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        """The gradient as it came."""
        (x,) = ctx.saved_tensors
        start = 0
        none = grads[0].reshape(-1)[:1].isnan().sum().clamp(max=0)
        for reduction in ctx.reductions:
            measured = reduction.measure_pair(x, grads[0])
            end = start + 1 + len(measured)
            _fold_cells(reduction, ctx.cells[start:end], measured, none)
            start = end
        return grads[0], None, None, *(None for _ in ctx.cells)


def _fold_cells(
    reduction: Reduction, cells: State, measured: State, none: Tensor | int = 0
) -> None:
    count, *state = cells
    merged = reduction.merge(tuple(cell[0] for cell in state), measured)
    for cell, value in zip(state, where(count[0] + none > 0, merged, measured), strict=True):
        cell.copy_(value.unsqueeze(0))
    count.add_(none + 1)


def _cells_for(slot: Slot, measured: State) -> State:
    # For gradients only the shapes of the measurement are used: the compiler drops its arithmetic.
    # A size that the compiler left open is fixed: `range` asks it for a number, `int` does not.
    shapes = tuple(tuple(len(range(n)) for n in part.shape) for part in measured)
    allocate(slot.key, shapes, tuple(part.dtype for part in measured), measured[0].device)
    assert slot.cells is not None
    return slot.cells
