"""Which site was the first to bring a NaN or an Inf into a step."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from taiyi_fx.config import Subscription
from taiyi_fx.passes.ir import CALL_PORTS, GRADIENT_PORTS, Mode, Port
from taiyi_fx.passes.probes.slots import SlotTable
from taiyi_fx.record import NonFiniteSite, Record, Series
from taiyi_fx.step.transfer import Outcome
from taiyi_fx.step.vectorized import Place, calls_of


class Site(NamedTuple):
    """Where NaN and Inf were counted, and when beside other sites of the step."""

    port: Port
    order: float


Sites = Mapping[tuple[Series, Mode], Site]
"""By the series of the counts."""


def counting_sites(
    subscriptions: Iterable[Subscription], modes: Iterable[Mode], table: SlotTable
) -> Sites:
    """All sites of a step that count."""
    found: dict[tuple[Series, Mode], Site] = {}
    for asked in subscriptions:
        reading = asked.counts_non_finite
        if reading is None or reading.site.port not in CALL_PORTS:
            continue
        for mode in modes:
            for call in calls_of(asked, mode, table):
                order = table.at(mode, asked.module, call)[reading].order
                order = order or math.inf  # 0 where only other ranks have read
                found[Place(asked, mode, call).series, mode] = Site(reading.site.port, order)
    return found


def first_sites(sites: Sites, outcome: Outcome, *, may_overflow: bool) -> list[NonFiniteSite]:
    """The first site among values, then the first among gradients, of what was counted.

    Args:
        sites: Where it was counted.
        outcome: The counts.
        may_overflow: Whether gradients alone are an overflow, of which a scaler takes care.
    """
    first: dict[bool, tuple[float, NonFiniteSite]] = {}
    for record in _numbers(outcome):
        site = sites.get(((record.module, record.quantity), record.mode))
        if site is None:
            continue
        is_gradient = site.port in GRADIENT_PORTS
        if is_gradient not in first or site.order < first[is_gradient][0]:
            count = int(record.value)
            found = NonFiniteSite(record.step, record.module, site.port, count)
            first[is_gradient] = site.order, found
    if may_overflow and False not in first:
        return [replace(gradient, is_overflow=True) for _, gradient in first.values()]
    return [first[is_gradient][1] for is_gradient in (False, True) if is_gradient in first]


def _numbers(outcome: Outcome) -> Iterator[Record]:
    """All numbers but zeros."""
    for step, mode, series, values in outcome.blocks:
        for name, value in zip(series, values, strict=True):
            if value:
                yield Record(step, *name, value, mode)
    for _, record in outcome.records:
        if isinstance(record.value, (int, float)) and record.value:
            yield record
