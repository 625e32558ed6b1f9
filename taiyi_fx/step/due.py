"""What a step has to do: one agenda for each combination of due schedules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from torch import nn

from taiyi_fx.config import Subscription
from taiyi_fx.passes.ir import CALL_PORTS, Due, Reduction
from taiyi_fx.schedule import Schedule, is_any_due, last_due
from taiyi_fx.step.statistics import Key, OfModules, Owned

Asked = tuple[Subscription, bool]
"""What to look at, and whether it emits a value or only adds to a window."""


@dataclass(frozen=True, eq=False)
class DueWork:
    """What one combination of due schedules asks for.

    Attributes:
        work: What `track` has to look at, in the model's order.
        alike: Those of it that are computed together at once, as vectors, in groups.
        others: Those that are computed one by one.
        counting: Those that count NaN and Inf.
        of_modules: What is read of parameters and buffers.
        readings: What the forwards before it have to read.
    """

    work: tuple[Asked, ...]
    alike: tuple[tuple[Subscription, ...], ...]
    others: tuple[Asked, ...]
    counting: tuple[Subscription, ...]
    of_modules: tuple[OfModules, ...]
    readings: Due


class DueTable:
    """The agendas of a run, each made when first needed.

    Args:
        subscriptions: All that is asked for.
        modules: The model's, by name.
    """

    def __init__(
        self, subscriptions: Sequence[Subscription], modules: Mapping[str, nn.Module]
    ) -> None:
        self._subscriptions = subscriptions
        self._modules = modules
        # Many quantities share few schedules: each is asked once a step.
        every = dict.fromkeys(s.schedules for s in subscriptions)
        self._last_due = {schedules: last_due(schedules) for schedules in every}
        self._made: dict[tuple[bool | None, ...], DueWork] = {}
        self._latest: tuple[int, DueWork] | None = None

    def at(self, step: int) -> DueWork:
        """What a step asks for."""
        if self._latest is None or self._latest[0] != step:
            self._latest = step, self._found(step)
        return self._latest[1]

    def _found(self, step: int) -> DueWork:
        # None where nothing will be due again.
        due = tuple(
            None if last is not None and step > last else is_any_due(schedules, step)
            for schedules, last in self._last_due.items()
        )
        if due not in self._made:
            state_of = dict(zip(self._last_due, due, strict=True))
            self._made[due] = _agenda(self._subscriptions, state_of, self._modules)
        return self._made[due]


def _agenda(
    subscriptions: Sequence[Subscription],
    due: Mapping[tuple[Schedule, ...], bool | None],
    modules: Mapping[str, nn.Module],
) -> DueWork:
    states = ((subscription, due[subscription.schedules]) for subscription in subscriptions)
    work = tuple(
        (subscription, bool(is_due))
        for subscription, is_due in states
        if is_due or (is_due is not None and subscription.quantity.window)
    )
    asked = [
        (subscription.module, reading)
        for subscription, _ in work
        for reading in subscription.readings.values()
    ]
    at_calls = frozenset(pair for pair in asked if pair[1].site.port in CALL_PORTS)
    alike = _alike(work)
    together = {subscription for group in alike for subscription in group}
    others = tuple(pair for pair in work if pair[0] not in together)
    counting = tuple(s for s, _ in work if s.counts_non_finite is not None)
    return DueWork(work, alike, others, counting, _of_modules(asked, modules), at_calls)


def _of_modules(asked: Sequence[Key], modules: Mapping[str, nn.Module]) -> tuple[OfModules, ...]:
    """What is read of parameters and buffers, by reduction; parameters before their gradients."""
    found: dict[Reduction, dict[Key, int]] = {}
    for key in sorted(dict.fromkeys(asked), key=lambda key: key[1].site.port):
        if key[1].site.port not in CALL_PORTS:
            reduction = cast(Reduction, key[1].reduction)  # pairs are read at calls
            rows = found.setdefault(reduction, {})
            rows[key] = len(rows)
    return tuple(
        OfModules(reduction, rows, tuple(Owned.of(key, modules) for key in rows))
        for reduction, rows in found.items()
    )


def _alike(work: Sequence[Asked]) -> tuple[tuple[Subscription, ...], ...]:
    """Groups that differ only in where they are read."""
    groups: dict[Any, list[Subscription]] = {}
    for subscription, _ in work:
        if subscription.quantity.batched and not subscription.is_costly:
            read = tuple((k, r.site.port, r.reduction) for k, r in subscription.readings.items())
            options = tuple((k, v) for k, v in subscription.options if k in subscription.arguments)
            groups.setdefault((subscription.quantity, options, read), []).append(subscription)
    return tuple(map(tuple, groups.values()))
