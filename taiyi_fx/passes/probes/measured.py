"""Statistics of many tensors by one call, until they are folded into slots."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from taiyi_fx.passes.ir import States, capabilities
from taiyi_fx.passes.probes.accumulate import SlotGroup, fail
from taiyi_fx.passes.probes.slots import Slot


class Alike(NamedTuple):
    """Those of many tensors that one call measures.

    Attributes:
        reduction: Measures them.
        places: Their indices among all.
        slots: The slots of each.
        shapes: The shape of each at the time of the arrangement, where known.
    """

    reduction: Any
    places: list[int]
    slots: list[tuple[Slot, ...]]
    shapes: list[torch.Size | None]


class Measured(NamedTuple):
    """Statistics of several tensors that are in no slot yet.

    Attributes:
        of: The reduction, and the slots of each tensor.
        states: Their statistics.
    """

    of: Alike
    states: States

    def fold(self) -> None:
        """Folds them into their slots."""
        states = zip(*self.states, strict=True)
        for state, slots, shape in zip(states, self.of.slots, self.of.shapes, strict=True):
            try:
                for slot in slots:
                    slot.fold(state, shape)
            except Exception as error:  # noqa: BLE001 - never ends training; warned of at `track`
                fail(slots, error)


class Arrangement(NamedTuple):
    """A partition of many tensors into those that one call measures.

    Attributes:
        groups: The reductions and slots of each.
        shapes: The shapes of all, if it depends on them.
        alike: The tensors of each call.
    """

    groups: list[tuple[SlotGroup, ...]]
    shapes: list[torch.Size] | None
    alike: list[Alike]

    def fits(self, tensors: list[Tensor], groups: list[tuple[SlotGroup, ...]]) -> bool:
        """True if this is also the arrangement of other tensors."""
        is_same = groups == self.groups
        return is_same and (self.shapes is None or [x.shape for x in tensors] == self.shapes)


def arrange(shapes: list[torch.Size], groups: list[tuple[SlotGroup, ...]]) -> Arrangement:
    """Divides many tensors into those that one call measures.

    Args:
        shapes: The shape of each.
        groups: The reductions and slots of each.
    """
    found: dict[Any, Alike] = {}
    is_of_any_shapes = True
    for i, (shape, its_groups) in enumerate(zip(shapes, groups, strict=True)):
        for reduction, slots in its_groups:
            is_of_any = capabilities(reduction).is_over_elements
            is_of_any_shapes &= is_of_any
            key = id(reduction), None if is_of_any else shape
            alike = found.setdefault(key, Alike(reduction, [], [], []))
            alike.places.append(i)
            alike.slots.append(slots)
            alike.shapes.append(shape)
    return Arrangement(groups, None if is_of_any_shapes else shapes, list(found.values()))
