"""The context of a pass: all that it is given beside a graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import nn

from taiyi_fx.passes.ir import Due, Mode
from taiyi_fx.passes.probes.table import SlotTable


@dataclass(frozen=True)
class Context:
    """The context of a pass: all that it is given beside a graph.

    Attributes:
        part: The module that the graph's nodes name modules and tensors from.
        table: Takes the readings.
        mode: How they are kept; None makes no probes, only the edits.
        starts: How often targets were called before the graph in the same forward.
        due: Pairs of a module's name and one of its readings: what is due.
        is_compiled: Whether the graph becomes part of code that torch.compile compiles.
    """

    part: nn.Module
    table: SlotTable
    mode: Mode | None = "train"
    starts: Mapping[str, int] = field(default_factory=dict)
    due: Due = frozenset()
    is_compiled: bool = False
