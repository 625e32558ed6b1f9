"""The last findings of a monitor, from the events of a run."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from taiyi_fx.findings.as_json import from_json
from taiyi_fx.findings.told import Told
from taiyi_fx.records.record import Event
from taiyi_fx.runs.schema import Session


def told_in(events: Iterable[Event], sessions: Sequence[Session]) -> Told:
    """The findings of the session that told of some last; of no step where none did.

    Raises:
        KeyError: A field of a finding is missing.
        TypeError: One is of another type.
        ValueError: It is not JSON.
    """
    told = [event for event in events if event.kind == "found"]
    if not told:
        return Told(0, -1, ())
    last = told[-1]
    starts = [session.start_step for session in sessions if session.start_step <= last.step]
    return Told(max(starts, default=0), last.step, [*map(from_json, json.loads(last.text))])
