"""Readings of a plain model's modules by hooks, compared with the monitor's records."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from torch import Tensor, nn

from taiyi_fx.config.subscriptions import Subscription
from taiyi_fx.passes.ir import CALL_PORTS, Port
from taiyi_fx.records.record import Record, Series
from taiyi_fx.verification.calls import Calls, Side
from taiyi_fx.verification.reference import Expected, expected_at, expected_of_parameters

_SIDES: dict[Port, frozenset[Side]] = {
    "input": frozenset(("input",)),
    "output": frozenset(("output",)),
    "output_grad": frozenset(("output_grad",)),
    "pair": frozenset(("input", "output_grad")),
}
"""The sides that need a tensor for a reading; for other ports they are not known."""

_StepCall = tuple[int, str]
"""A step and a call."""


class Shown:
    """Tensors and reference numbers of a plain model in training, taken by hooks.

    Attributes:
        sides: The sides of each call where there was a tensor.
        expected: By step, call and quantity, the numbers in float64.
    """

    def __init__(self, model: nn.Module, subscriptions: Sequence[Subscription]) -> None:
        self.sides: defaultdict[_StepCall, set[Side]] = defaultdict(set)
        self.expected: dict[tuple[int, str, str], Expected] = {}
        self._modules = dict(model.named_modules())
        self._of: defaultdict[str, list[Subscription]] = defaultdict(list)
        for subscription in subscriptions:
            self._of[subscription.module].append(subscription)
        self._step = 0

    @property
    def subscriptions(self) -> Mapping[str, Sequence[Subscription]]:
        """The subscriptions of each module."""
        return self._of

    @contextmanager
    def around_step(self, step: int) -> Iterator[None]:
        """Collects tensors and numbers while a training step runs."""
        self._step = step
        watched = {
            name: self._modules[name]
            for name, asked in self._of.items()
            if any(s.is_at_calls for s in asked)
        }
        with Calls(self._take).watching(watched):
            yield
        for name, asked in self._of.items():
            for subscription in asked:
                for expected in expected_of_parameters(subscription, self._modules[name]):
                    self.expected[step, name, subscription.label] = expected

    def _take(self, call: str, side: Side, tensor: Tensor) -> None:
        place = self._step, call
        self.sides[place].add(side)
        for subscription in self._of[_module_of(call)]:
            expected = expected_at(subscription, side, tensor)
            if expected is not None:
                self.expected[(*place, subscription.label)] = expected


@dataclass(frozen=True)
class Readings:
    """The monitor's records, compared with those of the plain model.

    Attributes:
        records: Its records, by step and call.
        missing: The reasons for missing ones.
        shown: The plain model's calls and numbers.
    """

    records: Mapping[_StepCall, Sequence[Record]]
    missing: Mapping[Series, str]
    shown: Shown

    def counts(self) -> dict[str, tuple[int, int]]:
        """For each module that is read at its calls, the number of calls seen, and of all calls."""
        states: defaultdict[str, list[bool]] = defaultdict(list)
        for place in {**self.shown.sides, **self.records}:
            is_seen = self._is_seen(place)
            if is_seen is not None:
                states[_module_of(place[1])].append(is_seen)
        return {
            name: (sum(states[name]), len(states[name]))
            for name, asked in self.shown.subscriptions.items()
            if any(s.is_at_calls for s in asked)
        }

    def unseen(self) -> Iterator[tuple[int, str]]:
        """Readings that did not come: the step of each, and a text with its name and the reason."""
        for place in sorted(self.shown.sides):
            for subscription in self._lacking(place):
                yield place[0], self._reason(place[1], subscription.label)
        for step, call, label in self.shown.expected:
            if (step, call) not in self.shown.sides and not self._has((step, call), label):
                yield step, self._reason(call, label)

    def errors(self) -> dict[tuple[int, str], float]:
        """The error of each number that has a reference, by step and name."""
        found: dict[tuple[int, str], float] = {}
        for (step, call, label), expected in self.shown.expected.items():
            for record in self.records.get((step, call), ()):
                if record.quantity == label and not isinstance(record.value, Tensor):
                    key = step, f"{label} of {named(call)}"
                    found[key] = expected.error(float(record.value))
        return found

    def _is_seen(self, place: _StepCall) -> bool | None:
        """True if all of a call was read; None if that is not known."""
        if any(True for _ in self._lacking(place)):
            return False
        return True if self.records.get(place) else None

    def _lacking(self, place: _StepCall) -> Iterator[Subscription]:
        sides = self.shown.sides.get(place, set())
        for subscription in self.shown.subscriptions[_module_of(place[1])]:
            needed = _needed(subscription)
            if needed and needed <= sides and not self._has(place, subscription.label):
                yield subscription

    def _has(self, place: _StepCall, label: str) -> bool:
        quantities = (record.quantity for record in self.records.get(place, ()))
        return any(q == label or q.startswith(f"{label}.") for q in quantities)

    def _reason(self, call: str, label: str) -> str:
        why = self.missing.get((call, label), "no reason is known")
        return f"{label} of {named(call)} ({why})"


def _needed(subscription: Subscription) -> frozenset[Side]:
    """The sides of a call that must have a tensor for a value; empty if that is not known."""
    quantity = subscription.quantity
    sites = [r.site for r in subscription.readings.values() if r.site.port in CALL_PORTS]
    is_plain = not (quantity.looks_back or quantity.over_all) and all(
        site.pick is None and site.port in _SIDES for site in sites
    )
    return frozenset().union(*(_SIDES[site.port] for site in sites)) if is_plain else frozenset()


def named(call: str) -> str:
    """The name of a call in messages."""
    return repr(call) if call else "the model"


def _module_of(call: str) -> str:
    return call.partition("@")[0]
