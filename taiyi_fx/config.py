"""Configurations: what a user writes, checked once at the door with every error at once."""

from __future__ import annotations

import difflib
import fnmatch
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import nn
from torch.nn.utils import parametrize

from taiyi_fx.functions import Function, FunctionCall, function_name, is_function, not_shown
from taiyi_fx.passes.ir import CALL_PORTS, Plan, Reading, Target
from taiyi_fx.passes.trace import Capture
from taiyi_fx.passes.tracer import Wanted
from taiyi_fx.places import Missing
from taiyi_fx.quantity import Quantity, Request, find_quantity, quantity_names
from taiyi_fx.schedule import FORMS, Linear, Schedule, parse_schedule

Key = str | Function | type[nn.Module] | Callable[[str, nn.Module], bool]
Cfg = Mapping[Any, Any]
_WRAPPERS = ("module.", "_orig_mod.", "model.")


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
    requests: tuple[tuple[str, Request], ...]


@dataclass(frozen=True)
class Config:
    """A checked configuration.

    Attributes:
        subscriptions: All quantities of all modules, in the order of the model's modules, and
            then those of calls of functions.
        wanted: What is asked of functions: it has a place only once the model is traced.
    """

    subscriptions: tuple[Subscription, ...]
    wanted: tuple[OfFunction, ...] = ()

    @property
    def targets(self) -> Wanted:
        """What a trace has to mark."""
        names = dict.fromkeys(s.module for s in self.subscriptions if s.is_at_calls)
        return Wanted(list(names), [of.function for of in self.wanted])

    def with_functions(self, model: nn.Module, capture: Capture) -> Config:
        """The same with a place for all that is asked of functions.

        Raises:
            ConfigError: A function is called nowhere in the model's graphs, or a call of one
                lacks what is asked.
        """
        problems: list[str] = []
        asked: _Asked = {}
        calls = {name: FunctionCall(f) for name, f in capture.functions.items()}
        for of in self.wanted:
            found = {name: call for name, call in calls.items() if call.function is of.function}
            if not found:
                problems.append(f"{of.path}: {not_shown(of.function, model, capture)}")
            _ask(asked, found, of.requests, named=True, problems=problems)
        if problems:
            raise ConfigError(problems)
        return Config((*self.subscriptions, *_subscriptions(calls, asked)), self.wanted)

    def plan(self) -> Plan:
        """The readings that the modules' calls have to make."""
        readings: dict[str, set[Reading]] = {}
        for subscription in self.subscriptions:
            found = readings.setdefault(subscription.module, set())
            found.update(r for r in subscription.readings.values() if r.site.port in CALL_PORTS)
        return {name: Target(name, frozenset(found)) for name, found in readings.items()}


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
    problems: list[str] = []
    asked: _Asked = {}
    wanted: list[OfFunction] = []
    for key, entries in cfg.items():
        path = f"cfg[{_shown(key)}]"
        requests = tuple(_requests(path, entries, problems))
        if is_function(key):
            wanted.append(OfFunction(path, key, requests))
        else:
            modules = _match(model, key, path, problems)
            _ask(asked, modules, requests, named=_is_name(model, key), problems=problems)
    if problems:
        raise ConfigError(problems)
    return Config(tuple(_subscriptions(dict(model.named_modules()), asked)), tuple(wanted))


_Asked = dict[tuple[str, Quantity, tuple[Any, ...]], list[Schedule]]


def _ask(
    asked: _Asked,
    modules: Mapping[str, nn.Module],
    requests: Iterable[tuple[str, Request]],
    *,
    named: bool,
    problems: list[str],
) -> None:
    for place, request in requests:
        for name in _holders(modules, request, named, place, problems):
            options = tuple(sorted(request.options.items()))
            schedules = asked.setdefault((name, request.quantity, options), [])
            if request.schedule not in schedules:
                schedules.append(request.schedule)


def _requests(path: str, entries: Any, problems: list[str]) -> Iterator[tuple[str, Request]]:
    if isinstance(entries, (str, Quantity, Request)):
        entries = [entries]
    if not isinstance(entries, (list, tuple)):
        problems.append(f"{path}: a list of quantities belongs here, not {entries!r}")
        return
    for i, entry in enumerate(entries):
        try:
            yield f"{path}[{i}]", _request(entry)
        except ValueError as error:
            problems.append(f"{path}[{i}]: {error}")


def _request(entry: Any) -> Request:
    if isinstance(entry, Request):
        entry.quantity.check_options(entry.options)
        return entry
    parts = [entry] if isinstance(entry, (str, Quantity)) else entry
    if not isinstance(parts, (list, tuple)) or not 1 <= len(parts) <= 3:
        raise ValueError(
            f"{entry!r} is no entry; an entry is a name, [name, schedule] or "
            "[name, schedule, options]"
        )
    name, schedule, options = [*parts, *(Linear(0, 0), {})[len(parts) - 1 :]]
    quantity = _quantity(name)
    if not isinstance(options, Mapping):
        raise ValueError(f"options are a dictionary of names and values, not {options!r}")
    quantity.check_options(options)
    return Request(quantity, _schedule(schedule), dict(options))


def _quantity(name: Any) -> Quantity:
    if isinstance(name, Quantity):
        return name
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
        return _suggestion(name, quantity_names())
    return f' It is a schedule: give it with its quantity, as ["InputSndNorm", "{name}"]'


def _schedule(schedule: Any) -> Schedule:
    if isinstance(schedule, str):
        return parse_schedule(schedule)
    if isinstance(schedule, Schedule):
        return schedule
    raise ValueError(f"{schedule!r} is not a schedule; allowed are {FORMS}, or such an object")


def _match(model: nn.Module, key: Any, path: str, problems: list[str]) -> dict[str, nn.Module]:
    """The modules that a key means; each under its first name."""
    modules = dict(model.named_modules())
    if isinstance(key, str):
        found = _match_text(model, modules, key)
        if not found:
            problems.append(f"{path}: {_nothing(model, modules, key)}")
        return found
    if isinstance(key, type) and issubclass(key, nn.Module):
        found = {name: m for name, m in modules.items() if isinstance(m, key)}
    elif isinstance(key, type) or not callable(key):
        problems.append(f"{path}: {_KEYS}")
        return {}
    else:
        try:
            found = {name: m for name, m in modules.items() if key(name, m)}
        except Exception as error:  # noqa: BLE001 - any failure of the user's own is a wrong key
            problems.append(f"{path}: the predicate raised {type(error).__name__}: {error}")
            return {}
    if not found:
        problems.append(f"{path}: no module of the model matches")
    return found


_KEYS = (
    "a key is a module's name, a class's name, a class of modules, a pattern with * ? [ ], a "
    "function of torch or operator, or a predicate of name and module"
)


def _match_text(
    model: nn.Module, modules: Mapping[str, nn.Module], key: str
) -> dict[str, nn.Module]:
    if _is_name(model, key):
        module = model.get_submodule(key)
        return {name: m for name, m in modules.items() if m is module}
    of_class = {name: m for name, m in modules.items() if key in _class_names(m)}
    if of_class or not any(c in key for c in "*?["):
        return of_class
    return {name: m for name, m in modules.items() if name and fnmatch.fnmatchcase(name, key)}


def _is_name(model: nn.Module, key: Any) -> bool:
    return isinstance(key, str) and key in dict(model.named_modules(remove_duplicate=False))


def _class_names(module: nn.Module) -> set[str]:
    classes = [type(module)]
    if parametrize.is_parametrized(module):
        classes += type(module).__bases__  # the class that the parametrized one was made from
    return {c.__name__ for c in classes}


def _nothing(model: nn.Module, modules: Mapping[str, nn.Module], key: str) -> str:
    if any(c in key for c in "*?["):
        return f"no module's name fits the pattern {key!r}"
    names = [name for name in modules if name]
    classes = sorted({type(m).__name__ for m in modules.values()})
    return f"no module is named or of class {key!r}.{_suggestion(key, [*classes, *names])}"


def _suggestion(word: str, known: Sequence[str]) -> str:
    for name in known:
        if any(f"{w}{name}" == word or f"{w}{word}" == name for w in _WRAPPERS):
            return f" Did you mean {name!r}?"
    by_lower = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=0.6)
    if close:
        return f" Did you mean {by_lower[close[0]]!r}?"
    shown = ", ".join(map(repr, known[:8]))
    return f" Known are {shown}{', ...' if len(known) > 8 else ''}" if known else ""


def _holders(
    modules: Mapping[str, nn.Module],
    request: Request,
    named: bool,
    path: str,
    problems: list[str],
) -> list[str]:
    """Those of the matched modules that can have the quantity; says who cannot and must."""
    holders, lacking = [], {}
    for name, module in modules.items():
        try:
            request.quantity.readings(module, request.options)
            holders.append(name)
        except Missing as missing:
            lacking[name] = missing
    # A class may well match modules without a weight; they are passed over while any has one.
    optional = holders and not named and request.quantity.requires is None
    if lacking and not optional:
        listed = "; ".join(
            f"{name or 'the model'!r} ({type(modules[name]).__name__}) {missing}"
            for name, missing in list(lacking.items())[:5]
        )
        more = f"; and {len(lacking) - 5} more" if len(lacking) > 5 else ""
        problems.append(f"{path}: {request.quantity.name} cannot be had: {listed}{more}")
    return holders


def _subscriptions(modules: Mapping[str, nn.Module], asked: _Asked) -> Iterator[Subscription]:
    order = {name: i for i, name in enumerate(modules)}
    names = [(module, quantity.name) for module, quantity, _ in asked]
    for (module, quantity, options), schedules in sorted(
        asked.items(), key=lambda item: order[item[0][0]]
    ):
        label = quantity.name
        if names.count((module, quantity.name)) > 1 and options:
            label += f"({', '.join(f'{k}={v!r}' for k, v in options)})"
        readings = quantity.readings(modules[module], dict(options))
        arguments = quantity.compute_options(dict(options))
        yield Subscription(module, quantity, options, tuple(schedules), readings, arguments, label)


def _shown(key: Any) -> str:
    if is_function(key):
        return function_name(key)
    return key.__name__ if isinstance(key, type) else repr(key)
