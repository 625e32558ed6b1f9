"""Checking a configuration: what a user writes, for a model, with every error at once."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from torch import nn

from taiyi_fx.config.edits import Edit
from taiyi_fx.config.entries import requests
from taiyi_fx.config.function_targets import not_shown
from taiyi_fx.config.match import is_function, is_name, match, resolved
from taiyi_fx.config.merged import Ask, Cfg, asks
from taiyi_fx.config.presets import Part
from taiyi_fx.config.subscriptions import Config, FunctionRequests, Subscription
from taiyi_fx.passes.capture.captured import Capture
from taiyi_fx.passes.ir import Change, FunctionGroup, Reading
from taiyi_fx.passes.module_tree import named_modules
from taiyi_fx.quantities.declare import Quantity, Request
from taiyi_fx.quantities.function_call import FunctionCall
from taiyi_fx.quantities.source import NotApplicable, Unobservable
from taiyi_fx.schedule import Schedule


class ConfigError(ValueError):
    """A configuration has errors; the message lists all of them.

    Attributes:
        problems: A text for each error, with its path in the configuration.
    """

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = list(problems)
        head = f"{len(problems)} problem{'s' if len(problems) > 1 else ''} in the configuration:"
        super().__init__("\n".join([head, *(f"  - {problem}" for problem in problems)]))


def check(model: nn.Module, cfg: Cfg) -> Config:
    """The checked configuration of a model.

    Raises:
        ConfigError: It has errors; the message lists all of them.
        TypeError: It is not a mapping.
    """
    asked = _Collected()
    of_functions: list[FunctionRequests] = []
    for ask in asks(model, cfg, asked.problems):
        listed = tuple(requests(ask.path, ask.entries, asked.problems))
        key = resolved(model, ask.key)
        if ask.is_optional:
            modules = {}
            for name, module, own in _fitting(model, ask):
                modules[name] = module
                asked.add_optional({name: module}, _with_options(listed, own))
            of_functions += _at_functions(ask.path, listed, modules, is_optional=True)
        elif is_function(key):
            of_functions.append(FunctionRequests(ask.path, key, listed))
        else:
            modules = match(model, key, ask.path, asked.problems)
            of_functions += _at_functions(ask.path, listed, modules)
            others = [request for request in listed if _functions(request[1]) is None]
            asked.add(modules, others, named=is_name(model, key))
    subscriptions = asked.subscriptions(dict(named_modules(model)))
    return Config(subscriptions, tuple(of_functions), asked.passed_over, tuple(asked.edits))


def _fitting(model: nn.Module, ask: Ask) -> Iterator[tuple[str, nn.Module, Mapping[str, Any]]]:
    """The modules of an optional key, each with options of its own."""
    modules = dict(named_modules(model))
    for name, module in modules.items():
        options = ask.options(name, modules) if ask.options else {}
        if ask.key(name, module) and options is not None:
            yield name, module, options


def _with_options(
    listed: Iterable[tuple[str, Request | Edit]], own: Mapping[str, Any]
) -> Iterator[tuple[str, Request | Edit]]:
    for path, request in listed:
        if own and isinstance(request, Request):
            request = dataclasses.replace(request, options={**request.options, **own})
        yield path, request


def _functions(request: Request | Edit) -> FunctionGroup | None:
    """The functions whose calls a request of modules is about, or None."""
    return None if isinstance(request, Edit) else request.quantity.functions


def _at_functions(
    path: str,
    listed: Iterable[tuple[str, Request | Edit]],
    modules: Mapping[str, nn.Module],
    *,
    is_optional: bool = False,
) -> Iterator[FunctionRequests]:
    """The requests for calls that the forwards of some modules make."""
    found: dict[FunctionGroup, list[tuple[str, Request | Edit]]] = {}
    for request in listed if modules else ():
        functions = _functions(request[1])
        if functions is not None:
            found.setdefault(functions, []).append(request)
    for functions, of in found.items():
        yield FunctionRequests(path, functions, tuple(of), frozenset(modules), is_optional)


def with_functions(config: Config, model: nn.Module, capture: Capture) -> Config:
    """The same configuration with subscriptions and edits at the calls of functions.

    Raises:
        ConfigError: A function is called nowhere in the model's graphs, or a call of one
            has nothing that a quantity needs.
    """
    asked = _Collected()
    callers = {site: name for name, sites in capture.sites.items() for site in sites}
    modules = dict(named_modules(model))
    calls = {
        site: FunctionCall(
            function, inplace=site in capture.in_place, caller=modules.get(callers.get(site, ""))
        )
        for site, function in capture.functions.items()
    }
    for of in config.of_functions:
        found = {
            site: call
            for site, call in calls.items()
            if call.function is of.function and (of.within is None or callers[site] in of.within)
        }
        if of.is_optional:
            asked.add_optional(found, of.requests)
            continue
        if not found:
            asked.problems.append(f"{of.path}: {not_shown(of.function, model, capture, of.within)}")
        asked.add(found, of.requests, named=True)
    subscriptions = (*config.subscriptions, *asked.subscriptions(calls))
    edits = (*config.edits, *asked.edits)
    return dataclasses.replace(config, subscriptions=subscriptions, edits=edits)


def rescheduled(model: nn.Module, cfg: Cfg, schedule: Schedule) -> Cfg:
    """The same configuration with all quantities on one schedule.

    Raises:
        ConfigError: An entry is wrong.
    """
    problems: list[str] = []
    found: list[Any] = []
    for ask in asks(model, cfg, problems):
        entries = [_on(schedule, of) for _, of in requests(ask.path, ask.entries, problems)]
        part = {ask.key: entries}
        if ask.is_optional:
            part = Part(ask.path, ask.key, tuple(entries), ask.options)
        found.append(part)
    if problems:
        raise ConfigError(problems)
    return found


def _on(schedule: Schedule, request: Request | Edit) -> Request | Edit:
    if isinstance(request, Edit):
        return request
    return dataclasses.replace(request, schedule=schedule)


class _Collected:
    """Schedules and edits by module as they are collected from the keys, and the problems found."""

    def __init__(self) -> None:
        self.schedules: dict[tuple[str, Quantity, tuple[Any, ...]], list[Schedule]] = {}
        self.problems: list[str] = []
        self.passed_over: dict[str, str] = {}
        self.edits: list[tuple[str, Change]] = []
        self.named: set[tuple[str, Quantity, tuple[Any, ...]]] = set()

    def add_optional(
        self, modules: Mapping[str, nn.Module], listed: Iterable[tuple[str, Request | Edit]]
    ) -> None:
        """Adds requests for those of some modules that support them."""
        for _, request in listed:
            assert isinstance(request, Request)  # presets have no edits
            for name, module in modules.items():
                with suppress(NotApplicable):
                    for given in _every(request, name, module):
                        self._add_one(name, request, given)

    def add(
        self,
        modules: Mapping[str, nn.Module],
        listed: Iterable[tuple[str, Request | Edit]],
        *,
        named: bool,
    ) -> None:
        """Adds requests for the modules of a key; a module named by it must support all."""
        for path, request in listed:
            if isinstance(request, Edit):
                self._add_edit(modules, request, named, path)
                continue
            for name, given in self._holders(modules, request, named, path):
                self.named.add(self._add_one(name, request, given))

    def _add_one(
        self, name: str, request: Request, given: Mapping[str, Any]
    ) -> tuple[str, Quantity, tuple[Any, ...]]:
        key = name, request.quantity, tuple(sorted(given.items()))
        schedules = self.schedules.setdefault(key, [])
        if request.schedule not in schedules:
            schedules.append(request.schedule)
        return key

    def _add_edit(
        self, modules: Mapping[str, nn.Module], edit: Edit, named: bool, path: str
    ) -> None:
        found: list[tuple[str, Change]] = []
        lacking: dict[str, NotApplicable] = {}
        for name, module in modules.items():
            try:
                found += ((name, change) for change in edit.changes(module))
            except NotApplicable as missing:
                lacking[name] = missing
        if lacking and (named or not found):
            self.problems.append(f"{path}: the edit cannot be made: {_who(modules, lacking)}")
        self.passed_over.update((n, f"is not edited: it {why}") for n, why in lacking.items())
        self.edits += found

    def _holders(
        self, modules: Mapping[str, nn.Module], request: Request, named: bool, path: str
    ) -> list[tuple[str, dict[str, Any]]]:
        """The matched modules that support the quantity, with the options of each of its values.

        Adds a problem where a module that must support it does not.
        """
        holders: list[tuple[str, dict[str, Any]]] = []
        lacking: dict[str, NotApplicable] = {}
        for name, module in modules.items():
            try:
                every = _every(request, name, module)
                holders.extend((name, options) for options in every)
            except NotApplicable as missing:
                lacking[name] = missing
        # A class may match modules without a weight; they are skipped if any other has one.
        if lacking and (named or not holders or request.quantity.requires is not None):
            text = f"{path}: {request.quantity.name} is not available: {_who(modules, lacking)}"
            self.problems.append(text)
        unobservable = {
            name: str(why) for name, why in lacking.items() if isinstance(why, Unobservable)
        }
        self.passed_over.update(unobservable)
        return holders

    def subscriptions(self, modules: Mapping[str, nn.Module]) -> tuple[Subscription, ...]:
        """All subscriptions, in the order of the modules.

        Raises:
            ConfigError: There are problems.
        """
        if self.problems:
            raise ConfigError(self.problems)
        made = {asked: self._readings(modules, *asked) for asked in self.schedules}
        if self.problems:
            raise ConfigError(self.problems)
        readings = {asked: found for asked, found in made.items() if found is not None}
        order = {name: i for i, name in enumerate(modules)}
        bare = Counter((asked[0], _bare_label(*asked[1:])) for asked in readings)
        entries = [(asked, of) for asked, of in self.schedules.items() if asked in readings]
        entries.sort(key=lambda entry: order[entry[0][0]])
        return tuple(
            _subscription(
                readings[asked],
                *asked,
                tuple(schedules),
                is_alone=bare[asked[0], _bare_label(*asked[1:])] == 1,
                is_optional=asked not in self.named,
            )
            for asked, schedules in entries
        )

    def _readings(
        self,
        modules: Mapping[str, nn.Module],
        name: str,
        quantity: Quantity,
        options: tuple[tuple[str, Any], ...],
    ) -> dict[str, Reading] | None:
        """The readings at a module, with what they need of the model.

        None where the model lacks that, which is a problem if the quantity was asked for by name.
        """
        made = quantity.readings(modules[name], dict(options))
        if not quantity.needs_model:
            return made
        try:
            return {key: _of_model(reading, modules) for key, reading in made.items()}
        except (LookupError, ValueError) as lacking:
            text = f"{quantity.name} is not available: the model {lacking.args[0]}"
            is_asked = (name, quantity, options) in self.named
            self.problems += [text] if is_asked and text not in self.problems else []
            return None


def _of_model(reading: Reading, modules: Mapping[str, nn.Module]) -> Reading:
    reduction: Any = reading.reduction  # with what `Capabilities` says
    return dataclasses.replace(reading, reduction=reduction.of_model(modules))


def _every(request: Request, name: str, module: nn.Module) -> list[dict[str, Any]]:
    """The options of each value that a module has.

    Raises:
        NotApplicable: It has none.
    """
    if request.quantity.is_of_whole_model and name:
        raise NotApplicable("is a part: ask for it of the whole model, under the key ''")
    return request.quantity.for_each(module, request.options)


def _who(modules: Mapping[str, nn.Module], lacking: Mapping[str, NotApplicable]) -> str:
    shown = "; ".join(
        f"{name or 'the model'!r} ({type(modules[name]).__name__}) {missing}"
        for name, missing in list(lacking.items())[:5]
    )
    return f"{shown}; and {len(lacking) - 5} more" if len(lacking) > 5 else shown


def _subscription(
    readings: Mapping[str, Reading],
    module: str,
    quantity: Quantity,
    options: tuple[tuple[str, Any], ...],
    schedules: tuple[Schedule, ...],
    *,
    is_alone: bool,
    is_optional: bool,
) -> Subscription:
    label = _bare_label(quantity, options)
    shown = [(k, v) for k, v in options if k != "param" or not quantity.is_of_each_parameter]
    if shown and not is_alone:
        label += f"({', '.join(f'{k}={v!r}' for k, v in shown)})"
    arguments = quantity.compute_options(dict(options))
    return Subscription(
        module, quantity, options, schedules, readings, arguments, label, is_optional
    )


def _bare_label(quantity: Quantity, options: tuple[tuple[str, Any], ...]) -> str:
    of_parameter = f".{dict(options)['param']}" if quantity.is_of_each_parameter else ""
    return quantity.name + of_parameter
