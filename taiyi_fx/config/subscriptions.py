"""Subscriptions: a checked configuration, for all later steps."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from taiyi_fx.config.edits import Edit
from taiyi_fx.passes.capture.captured import TraceTargets
from taiyi_fx.passes.ir import (
    CALL_PORTS,
    GRADIENT_PORTS,
    Change,
    Function,
    FunctionGroup,
    Plan,
    Reading,
    Target,
    capabilities,
)
from taiyi_fx.quantities.declare import Quantity, Request
from taiyi_fx.schedule import Schedule


@dataclass(frozen=True)
class Subscription:
    """One quantity of one module, with its schedules, options and readings.

    Attributes:
        module: The module's dotted name.
        quantity: The quantity that is computed.
        options: Its options, as sorted pairs.
        schedules: It is due when any of them is.
        readings: The readings behind the quantity's parameters.
        arguments: The options that go to the quantity's function itself.
        label: The quantity's name in records.
        is_optional: True if nobody named it, but a preset asks for it wherever it is available:
            nothing is said where it has no value.
    """

    module: str
    quantity: Quantity
    options: tuple[tuple[str, Any], ...]
    schedules: tuple[Schedule, ...]
    readings: Mapping[str, Reading] = field(compare=False)
    arguments: Mapping[str, Any] = field(compare=False)
    label: str
    is_optional: bool = False

    @functools.cached_property
    def absence(self) -> str:
        """The reason for a missing value, where only the device knows that it is missing."""
        ports = {reading.site.port for reading in self.readings.values()}
        is_of_gradient = not ports.isdisjoint(GRADIENT_PORTS)
        return "no gradient reached it" if is_of_gradient else "the module was not called"

    @property
    def is_of_model(self) -> bool:
        """True if the model itself has a series of this name."""
        return not self.module or self.quantity.over_all is not None

    @functools.cached_property
    def unit(self) -> str:
        """The unit of its numbers, which an option may change."""
        is_normalized = bool(dict(self.options).get("normalized"))
        return "share of the largest" if is_normalized else self.quantity.unit

    @functools.cached_property
    def is_read_between(self) -> bool:
        """True if steps between due ones are read as well, for a window."""
        return self.quantity.window and dict(self.options).get("window") != "due"

    @functools.cached_property
    def is_costly(self) -> bool:
        """True if finishing one of its readings takes a decomposition."""
        return any(capabilities(r.reduction).is_costly for r in self.readings.values())

    @functools.cached_property
    def non_finite_reading(self) -> Reading | None:
        """The reading in which it counts NaN and Inf; None if it is not such a count."""
        counts = self.quantity.health == "counts_non_finite"
        return next(iter(self.readings.values())) if counts else None

    @functools.cached_property
    def is_of_weight_gradients(self) -> bool:
        """True if it is of the weight's gradient sample by sample."""
        return any(capabilities(r.reduction).needs_layer for r in self.readings.values())

    @functools.cached_property
    def is_at_calls(self) -> bool:
        """True if one of its readings is made at calls of the module."""
        return any(reading.site.port in CALL_PORTS for reading in self.readings.values())


@dataclass(frozen=True)
class FunctionRequests:
    """The requests of a configuration for the calls of one function, or of a group of them.

    Attributes:
        path: The place in the configuration, for errors: ``cfg[relu]``.
        function: The function, or the group.
        requests: Quantities and edits, each with its path.
        within: Names of the modules whose forwards make the calls; None for all.
        is_optional: True if there may be none.
    """

    path: str
    function: Function | FunctionGroup
    requests: tuple[tuple[str, Request | Edit], ...]
    within: frozenset[str] | None = None
    is_optional: bool = False


@dataclass(frozen=True)
class Config:
    """A checked configuration.

    Attributes:
        subscriptions: All quantities of all modules, in the order of the model's modules, and
            then those of calls of functions.
        of_functions: Requests for calls of functions: they have a place only once the model is
            traced.
        passed_over: Modules that a key matches but that are left out, with the reasons.
        edits: Changes with their modules, in the order of the configuration.
    """

    subscriptions: tuple[Subscription, ...]
    of_functions: tuple[FunctionRequests, ...] = ()
    passed_over: Mapping[str, str] = field(default_factory=dict)
    edits: tuple[tuple[str, Change], ...] = ()

    def targets(self, *, evaluation: bool = False, also: Iterable[str] = ()) -> TraceTargets:
        """The modules and functions that a trace has to mark, and further modules."""
        names = dict.fromkeys(s.module for s in self.subscriptions if s.is_at_calls)
        names.update(dict.fromkeys(also))
        names.update((module, None) for module, _ in self.edits)
        # Only a graph shows their calls.
        evaluation |= any(isinstance(r, Edit) for of in self.of_functions for _, r in of.requests)
        return TraceTargets(names.keys(), [of.function for of in self.of_functions], evaluation)

    def plan(self) -> Plan:
        """The readings and changes to make at calls, by module."""
        readings: dict[str, set[Reading]] = {}
        for subscription in self.subscriptions:
            found = readings.setdefault(subscription.module, set())
            found.update(r for r in subscription.readings.values() if r.site.port in CALL_PORTS)
        changes: dict[str, tuple[Change, ...]] = {}
        for module, change in self.edits:
            readings.setdefault(module, set())
            changes[module] = (*changes.get(module, ()), change)
        return {
            name: Target(name, frozenset(found), changes.get(name, ()))
            for name, found in readings.items()
        }
