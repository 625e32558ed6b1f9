"""Which site was the first to bring a NaN or an Inf into a step."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from taiyi_fx.evaluate import Series, Work
from taiyi_fx.passes.ir import GRADIENT_PORTS, Port
from taiyi_fx.passes.slots import SlotTable
from taiyi_fx.record import NonFiniteSite, Record
from taiyi_fx.reductions import NonFinites


def first_sites(
    works: Sequence[Work], records: Iterable[tuple[Series, Record]], table: SlotTable
) -> list[NonFiniteSite]:
    """The first such site among values, then the first among gradients, of what was counted."""
    counting = {
        (work.module, work.subscription.label, work.mode): work
        for work in works
        if _port_of(work) is not None
    }
    found: dict[bool, tuple[float, NonFiniteSite]] = {}
    for series, record in records:
        work = counting.get((*series, record.mode))
        if work is None or record.quantity != series[1] or not record.value:
            continue
        port = _port_of(work)
        assert port is not None
        order = min(
            slot.order or math.inf  # 0 where only other ranks have read
            for reading, slot in table.at(work.mode, work.subscription.module, work.call).items()
            if reading in work.subscription.readings.values()
        )
        site = NonFiniteSite(record.step, record.module, port, int(record.value))
        is_gradient = port in GRADIENT_PORTS
        if is_gradient not in found or order < found[is_gradient][0]:
            found[is_gradient] = order, site
    return [found[is_gradient][1] for is_gradient in (False, True) if is_gradient in found]


def _port_of(work: Work) -> Port | None:
    readings = work.subscription.readings.values()
    return next((r.site.port for r in readings if isinstance(r.reduction, NonFinites)), None)
