"""The context of a pass: its inputs beside the graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import nn

from taiyi_fx.passes.ir import Due, Mode
from taiyi_fx.passes.probes.at_end import Sizes
from taiyi_fx.passes.probes.table import SlotTable


@dataclass(frozen=True)
class Context:
    """The context of a pass: its inputs beside the graph.

    Attributes:
        part: The module that the graph's nodes name modules and tensors from.
        table: Takes the readings.
        mode: The mode of the readings; None makes no probes, only the edits.
        starts: The number of earlier calls of targets in the same forward.
        due: The due readings: pairs of a module's name and one of its readings.
        are_modes_on: True if the graph runs while modes of torch are active.
        is_compiled: True if the graph becomes part of code that torch.compile compiles.
        sizes: Knows whether the graph's tensors are small; None if no reading may wait.
        at_end: True if readings that may wait do so until the graph ends.
    """

    part: nn.Module
    table: SlotTable
    mode: Mode | None = "train"
    starts: Mapping[str, int] = field(default_factory=dict)
    due: Due = frozenset()
    are_modes_on: bool = False
    is_compiled: bool = False
    sizes: Sizes | None = None
    at_end: bool = False
