"""Operators: all that compiled code has to call to read a tensor.

The compiler interprets Python at some milliseconds an operation, a Function at tens. An operator is
one operation to it, whatever a reduction does. What the operator is made of comes up where the
compiler has torch itself run the graph: there it costs little, and is compiled as if it had stood
in the code.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
)
from torch.fx.experimental.symbolic_shapes import (
    GuardOnDataDependentSymNode,
    statically_known_true,
)

from taiyi_fx.passes.ir import State, has_fixed_shape
from taiyi_fx.passes.probes.addresses import reduction_at, refuse
from taiyi_fx.passes.probes.cells import cells_in, pack, unpacked
from taiyi_fx.passes.probes.compiling import for_compiled_code
from taiyi_fx.passes.probes.slots import where

_NEED_VALUES = (
    DataDependentOutputException,
    DynamicOutputShapeException,
    GuardOnDataDependentSymNode,
)
# A measurement that does not succeed has no tensors; `refusal_of` then knows why.
_SCHEMAS = (
    "measure(Tensor x, Tensor? gradient, str reduction) -> Tensor[]",
    "fold(Tensor(a!)[] cells, Tensor[] measured, str reduction) -> ()",
    "fold_gradient(Tensor(a!)[] cells, Tensor g, Tensor? x, str[] reductions) -> ()",
    "same(Tensor x) -> Tensor",
    "watch(Tensor y, Tensor tapped, Tensor? x, Tensor(a!)[] cells, str[] reductions) -> ()",
)
_LIBRARY = torch.library.Library("taiyi_fx", "DEF")


def _measure(x: Tensor, gradient: Tensor | None, reduction: str) -> list[Tensor]:
    found = reduction_at(reduction)
    try:
        with _without_values(x):
            state = tuple(_measured(found, x, gradient))
            if not state:
                raise ValueError("the state that measure returned has no parts")
            if has_fixed_shape(found):
                _check_merged(_merged(found, state, state), state)
    except Exception as error:  # noqa: BLE001 - never ends a training run; told at `track`
        refuse(reduction, error)
        return []
    return list(state)


@contextmanager
def _without_values(x: Tensor) -> Iterator[None]:
    """Refuses what needs the values of tensors: compiled code is made before there are any."""
    mode = detect_fake_mode((x,))
    shapes = None if mode is None else mode.shape_env
    unknown = [] if shapes is None else shapes.pending_fresh_unbacked_symbols
    before = len(unknown)
    needs = "it asks for values of a tensor (.item(), a mask, an if), which compiled code lacks"
    try:
        yield
    except _NEED_VALUES as error:
        raise ValueError(needs) from error
    finally:
        made = unknown[before:]
        del unknown[before:]  # they would have to be in what the operator returns
    if made:
        raise ValueError(needs)


def _measured(reduction: Any, x: Tensor, g: Tensor | None = None) -> State:
    with for_compiled_code():
        return reduction.measure(x) if g is None else reduction.measure_pair(x, g)


def _merged(reduction: Any, a: State, b: State) -> State:
    with for_compiled_code():
        return reduction.merge(a, b)


def _check_merged(merged: State, state: State) -> None:
    seen, had = ([tuple(part.shape) for part in parts] for parts in (merged, state))
    if seen != had:
        raise ValueError(f"merging states of the shapes {had} gave {seen}")


def _fold(cells: Sequence[Tensor], measured: Sequence[Tensor], reduction: str) -> None:
    _fold_cells(reduction_at(reduction), tuple(cells), tuple(measured))


def _fold_cells(reduction: Any, cells: State, measured: State, none: Tensor | None = None) -> None:
    found = cells if none is None else tuple(cell + none for cell in cells)
    count, before = unpacked(found, [(part.shape, part.dtype) for part in measured])
    merged = _merged(reduction, before, measured)
    pack(cells, count + 1, where(count > 0, merged, measured))


def _fold_gradient(
    cells: Sequence[Tensor], g: Tensor, x: Tensor | None, reductions: Sequence[str]
) -> None:
    if g.is_contiguous():
        # So the compiler believes; but what dropout hands back, for one, may lie otherwise, and a
        # view would fail. This makes it true, and inductor takes it out again.
        g = g.clone(memory_format=torch.contiguous_format)
    # The compiler moves what does not depend on the gradient, such as a count of its elements, into
    # the forward, where the cells are read too early: so what is read of them depends on it.
    none = g.unsqueeze(0)[:0].any()
    start = 0
    for reduction in map(reduction_at, reductions):
        measured = _measured(reduction, g) if x is None else _measured(reduction, x, g)
        end = start + cells_in(measured)
        _fold_cells(reduction, tuple(cells[start:end]), measured, none)
        start = end


def _watch(
    y: Tensor, tapped: Tensor, x: Tensor | None, cells: Sequence[Tensor], reductions: Sequence[str]
) -> None:
    """Reads the gradient of all uses of ``y``, and leaves its place in autograd's graph as it is.

    The compiler runs autograd on what it compiles, so that what a hook does becomes part of the
    backward. ``tapped`` says that cells may change between forward and backward, and nothing else.
    """
    if y.requires_grad:  # there are runs of the same without autograd
        kept, names = list(cells), list(reductions)
        _ = y.grad_fn  # else torch 2.13 crashes where a view's base was changed in place
        y.register_hook(lambda g: _fold_gradient(kept, g.detach(), x, names))


def _same(x: Tensor) -> Tensor:
    """What a Function returns of what it was given: the same, as memory of its own.

    Of what ``detach`` returns, AOTAutograd mixes up outputs that share memory: their gradients
    would go past the Function, or nowhere.
    """
    if not (_views_keep_strides(x) or _is_expanded(x)):
        return x.new_empty_strided(x.shape, x.stride()).copy_(x)
    return torch.ops.aten._unsafe_view(x, x.shape)


def _views_keep_strides(x: Tensor) -> bool:
    """Whether a view of the same shape has the same strides, as the compiler believes of all.

    Kernels lay axes of size 1 around what lies within them, whatever their strides were. By these a
    convolution may have told its memory format.
    """
    axes = list(zip(x.shape, x.stride(), strict=True))
    return all(
        stride == inner_size * inner_stride
        for (size, stride), (inner_size, inner_stride) in pairwise(axes)
        if statically_known_true(size == 1)
    )


def _is_expanded(x: Tensor) -> bool:
    """Whether elements share memory, so that there is no copying into such strides.

    Of these, strides of axes of size 1 tell no memory format.
    """
    axes = zip(x.shape, x.stride(), strict=True)
    return any(statically_known_true(stride == 0) and size != 1 for size, stride in axes)


_FUNCTIONS = (_measure, _fold, _fold_gradient, _same, _watch)
for _schema, _function in zip(_SCHEMAS, _FUNCTIONS, strict=True):
    _LIBRARY.define(_schema)
    _LIBRARY.impl(_schema.partition("(")[0], _function, "CompositeImplicitAutograd")

OPERATORS = torch.ops.taiyi_fx
