"""The first site that brought a NaN or an Inf into a step."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from taiyi_fx.passes.ir import CALL_PORTS, GRADIENT_PORTS, Mode, Port
from taiyi_fx.passes.probes.table import SlotTable
from taiyi_fx.records.record import NonFiniteSite, Record, Series
from taiyi_fx.step.transfer import Outcome
from taiyi_fx.step.work import Work


class Sites(NamedTuple):
    """The sites that counted NaN and Inf in a step.

    Attributes:
        ports: The side of the module, by the series of the counts.
        orders: The place of each in the order of execution; as many as ports.
    """

    ports: Mapping[tuple[Series, Mode], Port]
    orders: Sequence[float]


class CountingSites:
    """All sites that count NaN and Inf.

    Args:
        works: The calls due at a step.
        table: The statistics of readings at calls.
    """

    def __init__(self, works: Iterable[Work], table: SlotTable) -> None:
        self._ports: dict[tuple[Series, Mode], Port] = {}
        self._slots = []
        for work in works:
            reading = work.asked.non_finite_reading
            if reading is not None and reading.site.port in CALL_PORTS:
                self._ports[work.series, work.mode] = reading.site.port
                self._slots.append(table.at(work.mode, work.asked.module, work.call)[reading])

    def __bool__(self) -> bool:
        """True if there are any."""
        return bool(self._slots)

    def now(self) -> Sites:
        """The sites in the step that ends now."""
        # 0 where only other ranks have read
        return Sites(self._ports, [slot.order or math.inf for slot in self._slots])


def first_sites(sites: Sites, outcome: Outcome, *, may_overflow: bool) -> list[NonFiniteSite]:
    """The first site among values, then the first among gradients, with counts above zero.

    Args:
        sites: The sites that counted.
        outcome: The counts.
        may_overflow: True if NaN or Inf in gradients alone is an overflow that a scaler handles.
    """
    first: dict[bool, tuple[float, NonFiniteSite]] = {}
    order_of: dict[tuple[Series, Mode], float] = {}
    for record in _counts(sites, outcome):
        order_of = order_of or dict(zip(sites.ports, sites.orders, strict=True))
        key = (record.module, record.quantity), record.mode
        order, port = order_of[key], sites.ports[key]
        is_gradient = port in GRADIENT_PORTS
        if is_gradient not in first or order < first[is_gradient][0]:
            found = NonFiniteSite(record.step, record.module, port, int(record.value))
            first[is_gradient] = order, found
    if may_overflow and False not in first:
        return [replace(gradient, is_overflow=True) for _, gradient in first.values()]
    return [first[is_gradient][1] for is_gradient in (False, True) if is_gradient in first]


def _counts(sites: Sites, outcome: Outcome) -> Iterator[Record]:
    """All counts of the sites but zeros."""
    for _, (step, mode, series, values) in outcome.blocks:
        # A block is of one quantity. Nearly always all is zero.
        if series and (series[0], mode) in sites.ports and any(values):
            for name, value in zip(series, values, strict=True):
                if value:
                    yield Record(step, *name, value, mode)
