"""Costly works of one quantity whose readings have equal shapes, computed as one."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from taiyi_fx.step.statistics import Found
from taiyi_fx.step.transfer import Column

if TYPE_CHECKING:
    from taiyi_fx.step.evaluate import Work

Stacks = dict[tuple[int, ...], Any]
"""Finished readings of many calls, by their states: what several quantities read is made once."""

_LARGE = 2**14
"""Readings of more numbers than this take longer than the calls that a batch saves, and would be
copied."""


def computed(works: Sequence[Work]) -> tuple[list[Column], list[Work]]:
    """The values of works that can be computed together, and the others."""
    groups: dict[Hashable, list[Work]] = {}
    for i, work in enumerate(works):
        kind = _kind(work)
        groups.setdefault(i if kind is None else kind, []).append(work)
    columns: list[Column] = []
    alone: list[Work] = []
    stacks: Stacks = {}
    for batch in groups.values():
        try:
            found = _columns(batch, stacks) if len(batch) > 1 else []
        except Exception:  # noqa: BLE001 - whose it is shows when each is computed alone
            found = []
        columns += found
        alone += [] if found else batch
    return columns, alone


def _kind(work: Work) -> Hashable:
    """What two works have in common that are computed together; None of one that is alone."""
    asked, inputs = work.subscription, work.inputs
    if not asked.quantity.batched or not asked.is_costly or inputs is None:
        return None
    readings = tuple(_kind_of(found) for found in inputs.found.values())
    if None in readings:
        return None
    options = tuple((k, v) for k, v in asked.options if k in asked.arguments)
    is_counted = inputs.present is not None
    return asked.quantity, asked.label, options, work.step, work.mode, is_counted, readings


def _kind_of(found: Found) -> Hashable:
    if sum(part.numel() for part in found.state) > _LARGE:
        return None
    parts = tuple((part.shape, part.dtype, part.device) for part in found.state)
    return found.reading.site.port, found.reading.reduction, found.factor, parts


def _columns(works: Sequence[Work], stacks: Stacks) -> list[Column]:
    """The values of works of one kind; none if the quantity does not return numbers."""
    asked, step, mode = works[0].subscription, works[0].step, works[0].mode
    every = [work.inputs for work in works if work.inputs is not None]
    inputs = {name: _stacked([i.found[name] for i in every], stacks) for name in every[0].found}
    value = asked.quantity.compute(**inputs, **asked.arguments)
    parts = value if isinstance(value, Mapping) else {"": value}
    if any(part.shape != (len(works),) for part in parts.values()):
        return []
    counts = [i.present for i in every if i.present is not None]
    present = torch.stack(counts) if counts else None
    series = tuple((work.module, asked.label) for work in works)
    return [
        Column(step, mode, series, suffix, part, present, asked.absence)
        for suffix, part in parts.items()
    ]


def _stacked(every: Sequence[Found], stacks: Stacks) -> Any:
    key = tuple(id(found.state) for found in every)  # of one reading, and so of one factor
    if key not in stacks:
        states = zip(*(found.state for found in every), strict=True)
        stacks[key] = every[0]._replace(state=tuple(map(torch.stack, states))).finished()
    return stacks[key]
