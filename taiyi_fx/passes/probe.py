"""What the passes emit: probes, the slots they fold into, and the autograd Functions between."""

from __future__ import annotations

import copy
import dataclasses
import itertools
import weakref
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any

import torch
from torch import Tensor

from taiyi_fx.passes.ir import (
    CALL_PORTS,
    GRADIENT_PORTS,
    VALUE_PORTS,
    Mode,
    Pick,
    Plan,
    Port,
    Reading,
    Reduction,
    State,
)

_SLOTS: weakref.WeakValueDictionary[int, Slot] = weakref.WeakValueDictionary()
_KEYS = itertools.count()


class Slot:
    """The statistic of one reading at one call, while a step lasts.

    Run eagerly, a slot holds a state and replaces it. In compiled code nothing in Python may
    happen while gradients flow, so there the state is a set of preallocated cells, written in
    place: plain tensors, never buffers, which DistributedDataParallel would overwrite.

    Attributes:
        state: What eager folds left, or None.
        cells: A count of folds and the state, for compiled code, or None.
        shape: The shape last seen.
        module: The module's name.
        failure: Why a fold did not succeed in this step, or None.
        note: Why nothing may be here, as far as the forward pass could tell.
    """

    def __init__(self, module: str, reading: Reading) -> None:
        self.module = module
        self.reading = reading
        self.key = next(_KEYS)
        self.state: State | None = None
        self.cells: State | None = None
        self.shape: torch.Size | None = None
        self.failure: Exception | None = None
        self.note: str | None = None
        _SLOTS[self.key] = self

    def fold(self, measured: State) -> None:
        """Takes in the statistic of one more tensor."""
        merge = self.reading.reduction.merge
        self.state = measured if self.state is None else merge(self.state, measured)

    def clear(self) -> None:
        """Forgets the step."""
        self.state = self.failure = self.note = None
        if self.cells is not None:
            self.cells[0].zero_()

    def read(self) -> tuple[State, Tensor | None] | None:
        """The state, and where only the device knows whether there is one, the count of folds."""
        if self.cells is None:
            return None if self.state is None else (self.state, None)
        count, *cells = self.cells
        if self.state is None:
            return tuple(cells), count
        merged = self.reading.reduction.merge(self.state, tuple(cells))
        return _where(count > 0, merged, self.state), None


class SlotTable:
    """All slots of an instrumented model, by mode, module and call.

    Attributes:
        plan: The targets, whose readings get slots at each of their calls.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._slots: dict[tuple[Mode, str, int], dict[Reading, Slot]] = {}

    def at(self, mode: Mode, module: str, call: int) -> dict[Reading, Slot]:
        """The slots of one call, made when first asked for."""
        key = mode, module, call
        if key not in self._slots:
            self._slots[key] = {r: Slot(module, r) for r in self.plan[module].at(*CALL_PORTS)}
        return self._slots[key]

    def calls(self, mode: Mode, module: str) -> int:
        """How many calls of the module in one forward have been seen so far."""
        return next(n for n in itertools.count() if (mode, module, n) not in self._slots)

    def clear(self) -> None:
        """Forgets the step everywhere."""
        for slots in self._slots.values():
            for slot in slots.values():
                slot.clear()

    def drop(self) -> None:
        """Gives up all memory: what is folded next may be elsewhere."""
        for slots in self._slots.values():
            for slot in slots.values():
                slot.state = slot.cells = None


SlotGroup = tuple[Reduction, tuple[Slot, ...]]
"""One reduction of one tensor and every slot that it serves."""


class Probe:
    """A node of the graph: reads what passes it and hands it on.

    Values are read on the spot. For gradients an autograd Function is put in the path, behind
    the producer and before all consumers.

    Attributes:
        value_slots: By what is picked from the value, the slots to fold it into.
        gradient_slots: The same for the gradient.
    """

    def __init__(self, name: str, slots: Iterable[Slot]) -> None:
        # torch.fx names a called object in the generated code by these two.
        self.__name__ = name
        self.__module__ = "taiyi_fx"
        self.slots = tuple(dict.fromkeys(slots))
        self.value_slots = _grouped(self.slots, VALUE_PORTS)
        self.gradient_slots = _grouped(self.slots, GRADIENT_PORTS)

    def __repr__(self) -> str:
        return f"Probe({self.__name__!r}, {len(self.slots)} readings)"

    def __call__(self, value: Any) -> Any:
        """Reads ``value``, any structure of tensors, and returns it with gradients tapped."""
        for pick, groups in self.value_slots.items():
            tensor = find_tensor(value, pick)
            if tensor is not None:
                _read_value(tensor.detach(), groups)
        for pick, groups in self.gradient_slots.items():
            tensor = find_tensor(value, pick)
            if tensor is not None:
                value = _tap_gradient(value, tensor, groups)
        return value


def find_tensor(value: Any, pick: Pick) -> Tensor | None:
    """The tensor picked from a value: the first one for None, else by position or key."""
    if isinstance(value, Tensor):
        return value if pick in (None, 0) or (isinstance(pick, tuple) and pick[0] == 0) else None
    if pick is not None:
        value = value.pick(pick) if isinstance(value, Call) else dict(_parts(value)).get(pick)
    return next(_tensors(value), None)


@dataclasses.dataclass
class Call:
    """The arguments of a call, as a value that a probe can look into."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def pick(self, pick: Pick) -> Any:
        """The argument of a name, or else at a position; None if the call has neither."""
        position, name = pick if isinstance(pick, tuple) else (None, pick)
        if name in self.kwargs:
            return self.kwargs[str(name)]
        return self.args[position] if position is not None and position < len(self.args) else None


def replace_tensor(value: Any, old: Tensor, new: Tensor) -> Any:
    """The same structure, with ``old`` (by identity, its first occurrence) replaced."""
    replaced, found = _replace(value, old, new)
    assert found, "the tensor was found in this value"
    return replaced


def _replace(value: Any, old: Tensor, new: Tensor) -> tuple[Any, bool]:
    if value is old:
        return new, True
    for key, part in _parts(value):
        replaced, found = _replace(part, old, new)
        if found:
            return _with_part(value, key, replaced), True
    return value, False


def _with_part(value: Any, key: Any, part: Any) -> Any:
    if isinstance(value, tuple):
        items = [part if i == key else item for i, item in enumerate(value)]
        if hasattr(value, "_fields"):
            return type(value)(*items)
        # torch.return_types are built from one sequence, as plain tuples are.
        return type(value)(items)
    changed = copy.copy(value)
    if isinstance(changed, (list, MutableMapping)):
        changed[key] = part
    else:
        object.__setattr__(changed, key, part)
    return changed


def _parts(value: Any) -> Iterable[tuple[Any, Any]]:
    if isinstance(value, (tuple, list)):
        return enumerate(value)
    if isinstance(value, Mapping):
        return value.items()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return ((f.name, getattr(value, f.name)) for f in dataclasses.fields(value))
    return ()


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    for _, part in _parts(value):
        yield from _tensors(part)


def _grouped(slots: Sequence[Slot], ports: tuple[Port, ...]) -> dict[Pick, tuple[SlotGroup, ...]]:
    picks: dict[Pick, dict[Reduction, list[Slot]]] = {}
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
                _fold_cells(reduction, _cells_for(slot, x), x)
    else:
        _fold(x, groups)


def _fold(x: Tensor, groups: tuple[SlotGroup, ...]) -> None:
    for reduction, slots in groups:
        try:
            measured = reduction.measure(x)
            for slot in slots:
                slot.fold(measured)
                slot.shape = x.shape
        except Exception as error:  # Monitoring never ends a training run: told at `track`.
            for slot in slots:
                slot.failure = error


def _tap_gradient(value: Any, tensor: Tensor, groups: tuple[SlotGroup, ...]) -> Any:
    has_gradient = tensor.requires_grad and torch.is_grad_enabled()
    if not torch.compiler.is_compiling():
        _note(groups, tensor)
    if not has_gradient:
        return value
    if torch.compiler.is_compiling():
        slots = [slot for _, group in groups for slot in group]
        cells = [cell for slot in slots for cell in _cells_for(slot, tensor)]
        reductions = tuple(slot.reading.reduction for slot in slots)
        tapped = CompiledTap.apply(tensor, reductions, *cells)
    elif tensor._is_view():
        # A Function would cut a view from its base: were the view then changed in place and the
        # base used again, gradients would be wrong without a word. A hook on the tensor leaves
        # the graph as it is (and stays silent where the view was changed in place).
        tensor.register_hook(lambda g: _fold(g, groups))
        return value
    else:
        tapped = EagerTap.apply(tensor, groups)
    return tapped if value is tensor else replace_tensor(value, tensor, tapped)


def _note(groups: tuple[SlotGroup, ...], tensor: Tensor) -> None:
    if not torch.is_grad_enabled():
        reason = "the module was called under torch.no_grad()"
    elif not tensor.requires_grad:
        reason = "the tensor there does not require a gradient"
    else:
        reason = "no gradient reached it"
    for _, slots in groups:
        for slot in slots:
            slot.note = reason


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
        _fold(grads[0].detach(), ctx.groups)
        return grads[0], None


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
        for reduction in ctx.reductions:
            end = start + 1 + len(reduction.measure(grads[0]))
            _fold_cells(reduction, ctx.cells[start:end], grads[0])
            start = end
        return grads[0], None, *(None for _ in ctx.cells)


def _fold_cells(reduction: Reduction, cells: State, x: Tensor) -> None:
    count, *state = cells
    measured = reduction.measure(x)
    merged = reduction.merge(tuple(state), measured)
    for cell, value in zip(state, _where(count > 0, merged, measured), strict=True):
        cell.copy_(value)
    count.add_(1)


def _where(condition: Tensor, a: State, b: State) -> State:
    return tuple(torch.where(condition, x, y) for x, y in zip(a, b, strict=True))


def _cells_for(slot: Slot, x: Tensor) -> State:
    # Only the shapes of this measurement are used: the compiler drops its arithmetic.
    state = slot.reading.reduction.measure(x.detach())
    shapes = tuple(tuple(int(n) for n in part.shape) for part in state)
    _allocate(slot.key, shapes, tuple(part.dtype for part in state), x.device)
    assert slot.cells is not None
    return slot.cells


@torch.compiler.assume_constant_result
def _allocate(
    key: int,
    shapes: tuple[tuple[int, ...], ...],
    dtypes: tuple[torch.dtype, ...],
    device: torch.device,
) -> bool:
    """Gives a slot its cells; runs once, while the compiler traces, as ordinary Python."""
    slot = _SLOTS[key]
    wanted = [((), torch.int64), *zip(shapes, dtypes, strict=True)]
    have = [(tuple(c.shape), c.dtype) for c in slot.cells or ()]
    if have != wanted or (slot.cells and slot.cells[0].device != device):
        slot.cells = tuple(torch.zeros(s, dtype=d, device=device) for s, d in wanted)
    return True
