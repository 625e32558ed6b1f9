"""Weights of attention in a forward under way, followed to their product with values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from taiyi_fx.passes.ir import Mode, reads_product
from taiyi_fx.passes.probes.accumulate import SlotGroup, fail_all, fold_call, note_reason
from taiyi_fx.passes.probes.table import SlotTable
from taiyi_fx.passes.structure import Call
from taiyi_fx.passes.weighted import (
    NOT_ONE,
    Product,
    Weights,
    after,
    is_product,
    keeps_scores,
    name_of,
    operands,
)


@dataclass(eq=False)
class _Awaited:
    """A call whose product is awaited, with the slots that read it.

    Attributes:
        is_found: True once there was a product: a second one would be another part of the output.
    """

    call: Call
    groups: tuple[SlotGroup, ...]
    is_found: bool = False


class WeightsUnderWay:
    """Follows tensors through the calls of one forward, by their identity."""

    def __init__(self) -> None:
        # Tensors that stay until the forward ends, so that no other has their place.
        self._held: list[tuple[Tensor, Weights, _Awaited]] = []
        self._scores: Any = WeakIdKeyDictionary()

    def await_product(self, made: Any, call: Call, groups: tuple[SlotGroup, ...]) -> None:
        """Follows the result of a call, for slots."""
        if groups and isinstance(made, Tensor):
            note_reason(groups, NOT_ONE)
            self._held.append((made, Weights(), _Awaited(call, groups)))

    def pass_on(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], made: Any) -> None:
        """Notes what a call of torch makes of tensors that are followed."""
        if not self._held or not isinstance(made, Tensor):
            return
        name = name_of(func)
        for at, operand in operands(name, args, kwargs):
            for weights, awaited in self._followed(operand):
                found = after(name, args, kwargs, at, weights, made)
                if isinstance(found, Weights):
                    self._held.append((made, found, awaited))
                elif found is not None:
                    self._take(awaited, found)

    def _followed(self, x: Any) -> list[tuple[Weights, _Awaited]]:
        if not isinstance(x, Tensor):
            return []
        # A function that changes nothing may return what it was given: that is one and the same.
        found = {awaited: weights for held, weights, awaited in self._held if _is_same(held, x)}
        return [(weights, awaited) for awaited, weights in found.items()]

    def _take(self, awaited: _Awaited, product: Product) -> None:
        if awaited.is_found:
            fail_all(awaited.groups, ValueError(NOT_ONE))
        else:
            fold_call(awaited.call, tuple(product), awaited.groups)
        awaited.is_found = True

    def note_scores(
        self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], made: Any
    ) -> None:
        """Notes the products of two computed tensors, and what is made of them."""
        name = name_of(func)
        tensors = [x for _, x in operands(name, args, kwargs) if isinstance(x, Tensor)]
        if is_product(name):
            is_scores = not any(isinstance(x, torch.nn.Parameter) for x in tensors)
        else:
            is_scores = keeps_scores(name) and any(x in self._scores for x in tensors)
        if is_scores and isinstance(made, Tensor):
            self._scores[made] = True

    def is_of_scores(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
        """True if a call's first tensor is made of a product of two computed ones."""
        x = next((x for x in (*args, *kwargs.values()) if isinstance(x, Tensor)), None)
        return x is not None and x in self._scores


def product_slots(
    table: SlotTable, due: Any, mode: Mode, site: str, call: int, function: str
) -> tuple[SlotGroup, ...]:
    """The due readings, at one call of a site, of the product that its result leads to."""
    return tuple(
        (reading.reduction, (slot,))
        for reading, slot in table.at(mode, site, call).items()
        if (site, reading) in due and reads_product(reading.reduction, function)
    )


def _is_same(held: Tensor, x: Tensor) -> bool:
    """True for the tensor itself, or for another name of all its memory."""
    if held is x:
        return True
    if type(held) is not Tensor or type(x) is not Tensor or held.shape != x.shape:
        return False
    is_there = held.layout is x.layout is torch.strided and held.numel() > 0
    return is_there and held.data_ptr() == x.data_ptr() and held.stride() == x.stride()
