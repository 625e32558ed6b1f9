"""The reasons for series that a run has no values of, from its events."""

from __future__ import annotations

from collections.abc import Iterable

from taiyi_fx.findings import Watched
from taiyi_fx.records.record import Event


def reasons(events: Iterable[Event], series: Iterable[Watched]) -> dict[tuple[str, str], str]:
    """The last reason for each value that is missing, by module and quantity.

    An event of it is written when a reason is new: a later value says that it holds no more.
    """
    lasts = {(s.module, s.quantity): int(s.steps[-1]) for s in series if len(s.steps)}
    found: dict[tuple[str, str], str] = {}
    for event in events:
        quantity, colon, why = event.text.partition(": ")
        name = event.module, quantity
        if event.kind in ("warning", "missing") and colon and lasts.get(name, -1) < event.step:
            found[name] = why
    return found
