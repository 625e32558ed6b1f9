"""Configurations: what a user writes, checked once at the door with every error at once."""

from __future__ import annotations

import dataclasses
import functools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from taiyi_fx.config.edits import Edit
from taiyi_fx.config.function_targets import Function, FunctionCall, not_shown
from taiyi_fx.config.match import is_function, is_name, match, resolved
from taiyi_fx.passes.capture.captured import Capture, TraceTargets, function_name
from taiyi_fx.passes.ir import (
    CALL_PORTS,
    GRADIENT_PORTS,
    Change,
    Plan,
    Reading,
    Target,
    capabilities,
)
from taiyi_fx.quantities.declare import Quantity, Request, find_quantity, quantity_names
from taiyi_fx.quantities.places import Missing, Unobservable
from taiyi_fx.schedule import FORMS, Linear, Schedule, parse_schedule
from taiyi_fx.suggestion import suggestion

Key = str | Function | type[nn.Module] | Callable[[str, nn.Module], bool]
Cfg = Mapping[Any, Any]


class ConfigError(ValueError):
    """A configuration is wrong; the message lists everything that is.

    Attributes:
        problems: One text for each, with the path into the configuration.
    """

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = list(problems)
        head = f"{len(problems)} problem{'s' if len(problems) > 1 else ''} in the configuration:"
        super().__init__("\n".join([head, *(f"  - {problem}" for problem in problems)]))


@dataclass(frozen=True)
class Subscription:
    """One quantity of one module, with everything that was asked for.

    Attributes:
        module: The module's dotted name.
        quantity: What is computed.
        options: Its options, as sorted pairs.
        schedules: It is due when any of them is.
        readings: The readings behind the quantity's parameters.
        arguments: The options that go to the quantity's function itself.
        label: The quantity's name in records.
    """

    module: str
    quantity: Quantity
    options: tuple[tuple[str, Any], ...]
    schedules: tuple[Schedule, ...]
    readings: Mapping[str, Reading] = field(compare=False)
    arguments: Mapping[str, Any] = field(compare=False)
    label: str

    @functools.cached_property
    def absence(self) -> str:
        """Why there is no value where only the device knows that there is none."""
        ports = {reading.site.port for reading in self.readings.values()}
        is_of_gradient = not ports.isdisjoint(GRADIENT_PORTS)
        return "no gradient reached it" if is_of_gradient else "the module was not called"

    @property
    def is_of_model(self) -> bool:
        """Whether the model itself has a series of this name."""
        return not self.module or self.quantity.over_all is not None

    @functools.cached_property
    def is_costly(self) -> bool:
        """Whether finishing one of its readings takes a decomposition."""
        return any(capabilities(r.reduction).is_costly for r in self.readings.values())

    @functools.cached_property
    def counts_non_finite(self) -> Reading | None:
        """The reading of which it counts NaN and Inf, if it does."""
        counts = self.quantity.health == "counts_non_finite"
        return next(iter(self.readings.values())) if counts else None

    @functools.cached_property
    def is_of_weight_gradients(self) -> bool:
        """Whether it is of the gradient that each sample has for the weight."""
        return any(capabilities(r.reduction).needs_layer for r in self.readings.values())

    @functools.cached_property
    def is_at_calls(self) -> bool:
        """Whether it needs anything that only a call of the module can give."""
        return any(reading.site.port in CALL_PORTS for reading in self.readings.values())


@dataclass(frozen=True)
class OfFunction:
    """What a configuration asks of a function's calls.

    Attributes:
        path: Where it asks.
        function: The function.
        requests: What is asked, each with its path.
    """

    path: str
    function: Function
    requests: tuple[tuple[str, Request | Edit], ...]


@dataclass(frozen=True)
class Config:
    """A checked configuration.

    Attributes:
        subscriptions: All quantities of all modules, in the order of the model's modules, and
            then those of calls of functions.
        wanted: What is asked of functions: it has a place only once the model is traced.
        passed_over: Modules that a key matches but that cannot be observed, and why.
        edits: What is changed at which module, in the order of the configuration.
    """

    subscriptions: tuple[Subscription, ...]
    wanted: tuple[OfFunction, ...] = ()
    passed_over: Mapping[str, str] = field(default_factory=dict)
    edits: tuple[tuple[str, Change], ...] = ()

    def targets(self, *, evaluation: bool = False) -> TraceTargets:
        """What a trace has to mark."""
        names = dict.fromkeys(s.module for s in self.subscriptions if s.is_at_calls)
        names.update((module, None) for module, _ in self.edits)
        # Only a graph shows where they are to be made.
        evaluation |= any(isinstance(r, Edit) for of in self.wanted for _, r in of.requests)
        return TraceTargets(names.keys(), [of.function for of in self.wanted], evaluation)

    def with_functions(self, model: nn.Module, capture: Capture) -> Config:
        """The same with a place for all that is asked of functions.

        Raises:
            ConfigError: A function is called nowhere in the model's graphs, or a call of one
                lacks what is asked.
        """
        asked = _Asked()
        calls = {
            name: FunctionCall(function, inplace=name in capture.in_place)
            for name, function in capture.functions.items()
        }
        for of in self.wanted:
            found = {name: call for name, call in calls.items() if call.function is of.function}
            if not found:
                asked.problems.append(f"{of.path}: {not_shown(of.function, model, capture)}")
            asked.add(found, of.requests, named=True)
        subscriptions = (*self.subscriptions, *asked.subscriptions(calls))
        edits = (*self.edits, *asked.edits)
        return dataclasses.replace(self, subscriptions=subscriptions, edits=edits)

    def plan(self) -> Plan:
        """The readings that the modules' calls have to make, and the changes."""
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


def check(model: nn.Module, cfg: Cfg) -> Config:
    """A configuration made of a user's, for a model.

    Raises:
        ConfigError: Anything is wrong with it; everything that is, is listed.
        TypeError: It is not a mapping.
    """
    if not isinstance(cfg, Mapping):
        raise TypeError(
            "a configuration maps modules to lists of quantities, such as "
            f"{{'Conv2d': ['InputSndNorm']}}, but this is a {type(cfg).__name__}"
        )
    asked = _Asked()
    wanted: list[OfFunction] = []
    for given, entries in cfg.items():
        path, key = place(given), resolved(model, given)
        requests = tuple(_requests(path, entries, asked.problems))
        if is_function(key):
            wanted.append(OfFunction(path, key, requests))
        else:
            modules = match(model, key, path, asked.problems)
            asked.add(modules, requests, named=is_name(model, key))
    subscriptions = asked.subscriptions(dict(model.named_modules()))
    return Config(subscriptions, tuple(wanted), asked.passed_over, tuple(asked.edits))


def rescheduled(cfg: Cfg, schedule: Schedule) -> Cfg:
    """The same configuration with all quantities on one schedule.

    Raises:
        ConfigError: An entry is wrong.
    """
    problems: list[str] = []
    found = {
        key: [_on(schedule, request) for _, request in _requests(place(key), entries, problems)]
        for key, entries in cfg.items()
    }
    if problems:
        raise ConfigError(problems)
    return found


def _on(schedule: Schedule, request: Request | Edit) -> Request | Edit:
    if isinstance(request, Edit):
        return request
    return dataclasses.replace(request, schedule=schedule)


class _Asked:
    """What a configuration turns out to ask for, and what is wrong with it."""

    def __init__(self) -> None:
        self.schedules: dict[tuple[str, Quantity, tuple[Any, ...]], list[Schedule]] = {}
        self.problems: list[str] = []
        self.passed_over: dict[str, str] = {}
        self.edits: list[tuple[str, Change]] = []

    def add(
        self,
        modules: Mapping[str, nn.Module],
        requests: Iterable[tuple[str, Request | Edit]],
        *,
        named: bool,
    ) -> None:
        for place, request in requests:
            if isinstance(request, Edit):
                self._add_edit(modules, request, named, place)
                continue
            for name, given in self._holders(modules, request, named, place):
                options = tuple(sorted(given.items()))
                schedules = self.schedules.setdefault((name, request.quantity, options), [])
                if request.schedule not in schedules:
                    schedules.append(request.schedule)

    def _add_edit(
        self, modules: Mapping[str, nn.Module], edit: Edit, named: bool, path: str
    ) -> None:
        found: list[tuple[str, Change]] = []
        lacking: dict[str, Missing] = {}
        for name, module in modules.items():
            try:
                found += ((name, change) for change in edit.changes(module))
            except Missing as missing:
                lacking[name] = missing
        if lacking and (named or not found):
            self.problems.append(f"{path}: the edit cannot be made: {_who(modules, lacking)}")
        self.passed_over.update((n, f"it is not edited: it {why}") for n, why in lacking.items())
        self.edits += found

    def _holders(
        self, modules: Mapping[str, nn.Module], request: Request, named: bool, path: str
    ) -> list[tuple[str, dict[str, Any]]]:
        """Which of the matched modules can have the quantity, with its options for each value
        that they have; says who cannot and must.
        """
        holders: list[tuple[str, dict[str, Any]]] = []
        lacking: dict[str, Missing] = {}
        for name, module in modules.items():
            try:
                every = request.quantity.for_each(module, request.options)
                holders.extend((name, options) for options in every)
            except Missing as missing:
                lacking[name] = missing
        # A class may well match modules without a weight; they are passed over while any has one.
        if lacking and (named or not holders or request.quantity.requires is not None):
            text = f"{path}: {request.quantity.name} cannot be had: {_who(modules, lacking)}"
            self.problems.append(text)
        told = {name: str(why) for name, why in lacking.items() if isinstance(why, Unobservable)}
        self.passed_over.update(told)
        return holders

    def subscriptions(self, modules: Mapping[str, nn.Module]) -> tuple[Subscription, ...]:
        """Everything asked for, in the order of the modules.

        Raises:
            ConfigError: Something was wrong.
        """
        if self.problems:
            raise ConfigError(self.problems)
        order = {name: i for i, name in enumerate(modules)}
        bare = Counter((asked[0], _bare_label(*asked[1:])) for asked in self.schedules)
        entries = sorted(self.schedules.items(), key=lambda entry: order[entry[0][0]])
        return tuple(
            _subscription(
                modules[asked[0]],
                *asked,
                tuple(schedules),
                is_alone=bare[asked[0], _bare_label(*asked[1:])] == 1,
            )
            for asked, schedules in entries
        )


def _who(modules: Mapping[str, nn.Module], lacking: Mapping[str, Missing]) -> str:
    shown = "; ".join(
        f"{name or 'the model'!r} ({type(modules[name]).__name__}) {missing}"
        for name, missing in list(lacking.items())[:5]
    )
    return f"{shown}; and {len(lacking) - 5} more" if len(lacking) > 5 else shown


def _subscription(
    holder: nn.Module,
    module: str,
    quantity: Quantity,
    options: tuple[tuple[str, Any], ...],
    schedules: tuple[Schedule, ...],
    *,
    is_alone: bool,
) -> Subscription:
    label = _bare_label(quantity, options)
    shown = [(k, v) for k, v in options if k != "param" or not quantity.is_of_each_parameter]
    if shown and not is_alone:
        label += f"({', '.join(f'{k}={v!r}' for k, v in shown)})"
    readings = quantity.readings(holder, dict(options))
    arguments = quantity.compute_options(dict(options))
    return Subscription(module, quantity, options, schedules, readings, arguments, label)


def _bare_label(quantity: Quantity, options: tuple[tuple[str, Any], ...]) -> str:
    of_parameter = f".{dict(options)['param']}" if quantity.is_of_each_parameter else ""
    return quantity.name + of_parameter


def _requests(path: str, entries: Any, problems: list[str]) -> Iterator[tuple[str, Request | Edit]]:
    if isinstance(entries, (str, Quantity, Request, Edit)):
        entries = [entries]
    if not isinstance(entries, (list, tuple)):
        problems.append(f"{path}: a list of quantities belongs here, not {entries!r}")
        return
    for i, entry in enumerate(entries):
        try:
            yield f"{path}[{i}]", _request(entry)
        except ValueError as error:
            problems.append(f"{path}[{i}]: {error}")


def _request(entry: Any) -> Request | Edit:
    if isinstance(entry, Edit):
        return entry
    if isinstance(entry, Request):
        entry.quantity.check_options(entry.options)
        return entry
    parts = [entry] if isinstance(entry, (str, Quantity)) else entry
    if not isinstance(parts, (list, tuple)) or not 1 <= len(parts) <= 3:
        raise ValueError(
            f"{entry!r} is no entry; an entry is a name, [name, schedule] or "
            "[name, schedule, options]"
        )
    if len(parts) == 2 and isinstance(parts[1], Mapping):
        raise ValueError(
            f'options come third, behind a schedule: [..., "every(1)", {parts[1]!r}] is every step'
        )
    name, schedule, options = [*parts, *(Linear(0, 0), {})[len(parts) - 1 :]]
    quantity = _quantity(name)
    if not isinstance(options, Mapping):
        raise ValueError(f"options are a dictionary of names and values, not {options!r}")
    options = {k: tuple(v) if isinstance(v, list) else v for k, v in options.items()}
    quantity.check_options(options)
    return Request(quantity, _schedule(schedule), options)


def _quantity(name: Any) -> Quantity:
    if isinstance(name, Quantity):
        return name
    if isinstance(name, Edit):
        raise ValueError("an edit stands by itself in the list: it has no schedule and no options")
    if not isinstance(name, str):
        raise ValueError(f"a quantity's name or a quantity belongs first, not {name!r}")
    found = find_quantity(name)
    if found is None:
        raise ValueError(f"no quantity is named {name!r}.{_quantity_hint(name)}")
    return found


def _quantity_hint(name: str) -> str:
    try:
        parse_schedule(name)
    except ValueError:
        return suggestion(name, quantity_names())
    return f' It is a schedule: give it with its quantity, as ["WeightNorm", "{name}"]'


def _schedule(schedule: Any) -> Schedule:
    if isinstance(schedule, str):
        return parse_schedule(schedule)
    if isinstance(schedule, Schedule):
        return schedule
    raise ValueError(f"{schedule!r} is not a schedule; allowed are {FORMS}, or such an object")


def place(key: Any) -> str:
    """How problems call the place of a key: ``cfg['fc']``."""
    if is_function(key):
        return f"cfg[{function_name(key)}]"
    return f"cfg[{key.__name__ if isinstance(key, type) else repr(key)}]"
