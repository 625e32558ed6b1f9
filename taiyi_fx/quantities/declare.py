"""Quantities: pure functions of named readings, usable by name once declared."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from torch import Tensor, nn

from taiyi_fx.passes.ir import MODEL_PORTS, FunctionGroup, Reading, capabilities
from taiyi_fx.passes.module_tree import named_parameters
from taiyi_fx.quantities.health import RULES, Health, OwnRule, keep_own_rule, may_be_undefined
from taiyi_fx.quantities.options import check_type
from taiyi_fx.quantities.places import EACH, Place
from taiyi_fx.quantities.source import NotApplicable, Source
from taiyi_fx.schedule import Schedule
from taiyi_fx.suggestion import suggestion


class NoValue(Exception):
    """A quantity rightly has no value at this step; the message says why.

    For a quantity's function to raise: there is no record, no warning, and `Monitor.explain`
    gives the reason.
    """


@dataclass(frozen=True)
class Defined:
    """Numbers of calls, and for which of these the definition has a value.

    For a quantity's function to return where `NoValue` would have to wait for a device.

    Attributes:
        numbers: One for each call, or a tensor for each, along leading axes.
        has_value: A boolean for each call, along the same axes.
        otherwise: The reason why a call has no value, in words.
    """

    numbers: Tensor
    has_value: Tensor
    otherwise: str

    @classmethod
    def of_any(cls, numbers: Tensor, n: Tensor, things: str = "elements") -> Defined:
        """The numbers of what has any things at all, such as an expert that was given tokens.

        Args:
            numbers: One for each call, NaN where there is nothing, as a mean is.
            n: How many things there are.
            things: Their name.
        """
        return cls(numbers, n > 0, f"there are no {things}")


_WINDOW = inspect.Parameter(
    "window", inspect.Parameter.KEYWORD_ONLY, default="all", annotation=Literal["all", "due"]
)
"""The steps of a window: all since the last emission, or due ones alone."""

_AS_IT_IS = (lambda reading: reading).__code__.co_code


@dataclass(frozen=True, eq=False)
class Quantity:
    """A number, or a vector, computed from readings of a module.

    Attributes:
        name: The name in configurations and records.
        compute: The pure function; its positional parameters are named as the sources.
        sources: The reading behind each of them.
        window: True if values and gradients come stacked along a new first axis, one entry for
            each step since the quantity was last emitted; or for each batch, of a reduction that
            keeps these apart.
        requires: Takes a module and returns what it lacks in words, or None.
        documentation: Its description, with lines such as ``Formula: ...`` that `quantities` lists.
        over_all: Computes the whole model's value from the reading at each call of each module.
        batched: True if the function acts on the reading of each call alone, so that it can be
            given those of many, stacked along leading axes.
        unit: The unit of its numbers; empty where it is the tensor's own.
        accuracy: The largest relative error against float64, for float32 tensors, or in words.
        health: The rule by which reports flag its numbers.
        undefined: True if the definition itself may give NaN or Inf; of most units it may anyhow.
        rule: The rule of its own by which `Monitor.findings` judges them.
    """

    name: str
    compute: Callable[..., Any]
    sources: Mapping[str, Source]
    window: bool = False
    requires: Callable[[nn.Module], str | None] | None = None
    documentation: str = ""
    over_all: Callable[[Sequence[Any]], Any] | None = None
    batched: bool = False
    unit: str = ""
    accuracy: str = ""
    health: Health = ""
    undefined: bool = False
    rule: OwnRule | None = None

    def __repr__(self) -> str:
        return f"<quantity {self.name}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Computes the quantity from finished readings, as its function does."""
        return self.compute(*args, **kwargs)

    @property
    def options(self) -> dict[str, inspect.Parameter]:
        """The options that a configuration may set, by name."""
        own = inspect.signature(self.compute, eval_str=True).parameters.values()
        found = {p.name: p for p in own if p.kind is inspect.Parameter.KEYWORD_ONLY}
        for source in self.sources.values():
            found.update(source.options)
        if self.window:
            found["window"] = _WINDOW
        return found

    def at(self, schedule: Schedule, **options: Any) -> Request:
        """This quantity on a schedule, as an entry of a configuration."""
        return Request(self, schedule, options)

    def compute_options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """The part of the options that goes to the function itself."""
        own = inspect.signature(self.compute).parameters if options else {}
        return {k: v for k, v in options.items() if k in own}

    def check_options(self, options: Mapping[str, Any]) -> None:
        """Checks names, types and values of options.

        Raises:
            ValueError: One is unknown or missing, or its value is not allowed.
        """
        for name, value in options.items():
            if name not in self.options:
                allowed = ", ".join(sorted(self.options)) or "none"
                raise ValueError(f"{self.name} has no option {name!r}; its options are: {allowed}")
            check_type(self.name, self.options[name], value)
        for name, option in self.options.items():
            if option.default is inspect.Parameter.empty and name not in options:
                example = f'["{self.name}", "every(1)", {{"{name}": ...}}]'
                raise ValueError(f"{self.name} needs the option {name!r}: {example}")
        for source in self.sources.values():
            parameters = inspect.signature(source.reduction).parameters
            source.reduction(
                **source.fixed, **{k: v for k, v in options.items() if k in parameters}
            )

    def readings(self, module: nn.Module, options: Mapping[str, Any]) -> dict[str, Reading]:
        """The readings to make at a module, by the name of their parameter.

        Raises:
            NotApplicable: The module does not support this quantity.
        """
        lacking = self.requires(module) if self.requires else None
        if lacking:
            raise NotApplicable(lacking)
        return {name: source.reading(module, options) for name, source in self.sources.items()}

    @property
    def functions(self) -> FunctionGroup | None:
        """The functions whose calls it is of, if it is not of modules."""
        found = (source.functions for source in self.sources.values())
        return next((group for group in found if group is not None), None)

    @functools.cached_property
    def is_its_reading(self) -> bool:
        """True if its function returns its only reading as it is."""
        code = getattr(self.compute, "__code__", None)
        return code is not None and code.co_argcount == 1 and code.co_code == _AS_IT_IS

    @property
    def looks_back(self) -> bool:
        """True if it needs a reading of an earlier due step."""
        return any(source.ago for source in self.sources.values())

    @property
    def may_be_undefined(self) -> bool:
        """True if NaN or Inf among its numbers tells of none in the model."""
        return self.undefined or may_be_undefined(self.unit)

    @property
    def is_of_whole_model(self) -> bool:
        """True if it is of the model as a whole, and of none of its parts."""
        return any(source.port in MODEL_PORTS for source in self.sources.values())

    @property
    def needs_model(self) -> bool:
        """True if it is of a module and of others that it finds in the model."""
        return any(capabilities(source.reduction).needs_model for source in self.sources.values())

    @property
    def is_of_each_parameter(self) -> bool:
        """True if there is one value for each parameter of a module, named after it."""
        return any(source.name == EACH for source in self.sources.values())

    def for_each(self, module: nn.Module, options: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The options of each value that a module has: one, or one for each parameter.

        Raises:
            NotApplicable: The module does not support this quantity.
        """
        every = [dict(options)]
        if self.is_of_each_parameter and options.get("param", EACH) == EACH:
            names = [name for name, _ in named_parameters(module, recurse=False)]
            if not names:
                raise NotApplicable("has no parameters of its own (its parts may: match them)")
            every = [{**options, "param": name} for name in names]
        for each in every:
            self.readings(module, each)
        return every


@dataclass(frozen=True)
class Request:
    """A quantity with its schedule and options, as an entry of a configuration."""

    quantity: Quantity
    schedule: Schedule
    options: Mapping[str, Any] = field(default_factory=dict)


_REGISTRY: dict[str, Quantity] = {}


def quantity(  # noqa: PLR0913 - all but the name are facts of a declaration, given by name
    name: str | None = None,
    /,
    *,
    window: bool = False,
    requires: Callable[[nn.Module], str | None] | None = None,
    over_all: Callable[[Sequence[Any]], Any] | None = None,
    batched: bool = False,
    unit: str = "",
    accuracy: str = "",
    health: Health = "",
    undefined: bool = False,
    rule: OwnRule | None = None,
    **sources: Source,
) -> Callable[[Callable[..., Any]], Quantity]:
    """Declares a quantity: the decorated function of the named readings.

    The function gets finished readings (tensors on the model's device) by position or name and
    returns a scalar, a vector, or a dictionary of suffix to value, where ``""`` is the quantity
    itself. Its keyword-only parameters are options that a configuration may set; one without a
    default it has to.

    Args:
        name: The name to use in configurations; by default the function's.
        window: Pass values and gradients stacked over all steps since the last emission. With the
            option ``window="due"`` it is the due step alone, and nothing is read between.
        requires: Takes a module, returns what it lacks, or None.
        over_all: Takes the readings of the only source at each call of each module with this
            quantity, and returns the value for the model itself, the module ``""``.
        batched: The function acts on the reading of each call alone, as a root does: it is then
            called once for many modules, with readings stacked along leading axes (numbers come
            as vectors), and returns as many numbers.
        unit: The unit of its numbers, such as ``"share"``; empty where it is the tensor's own.
        accuracy: The largest relative error against float64, for float32 tensors, or in words.
        health: The rule by which reports flag its numbers: ``"share_of_trouble"``,
            ``"counts_non_finite"`` (then `Monitor.non_finite` names its sites), ``"lasting"`` or
            ``"step_size"``. Empty: only NaN, Inf and a rise to ten times the usual are flagged.
        undefined: The definition itself may give NaN or Inf, as a deviation is of one element, so
            that these tell of none in the model and are no finding. Always so of units other than
            ``""``, ``"elements"`` and ``"share"``: a ratio may be one of zero by zero.
        rule: Takes the steps and the numbers of a series, as arrays of numpy, and returns a
            `Verdict` where something is wrong, which is then among `Monitor.findings`; else None.
        **sources: The reading behind each parameter, such as ``output.square_sum``.

    Raises:
        TypeError: The function's parameters and the sources' names differ, the unit or the
            accuracy is not a string, or the rule is not callable.
        ValueError: Another quantity has this name, or there is no such rule of health.
    """
    if callable(name):
        raise TypeError(
            "@quantity takes the readings behind the function's parameters, such as "
            "@quantity(norm=output.norm)"
        )

    def declare(function: Callable[..., Any]) -> Quantity:
        text = inspect.getdoc(function) or ""
        called = name or function.__name__
        made = Quantity(
            name=called,
            compute=function,
            sources=sources,
            window=window,
            requires=requires,
            documentation=text,
            over_all=over_all,
            batched=batched,
            unit=unit,
            accuracy=accuracy,
            health=health,
            undefined=undefined,
            rule=rule,
        )
        _check_declaration(made)
        _register(made)
        return made

    return declare


@dataclass(frozen=True)
class Elsewhere:
    """Another place that a quantity is available at.

    Attributes:
        place: The place.
        words: Its name in documentation.
        symbol: Its name in formulas.
    """

    place: Place
    words: str
    symbol: str


def also_at(
    made: Quantity,
    elsewhere: Mapping[str, Elsewhere],
    *,
    instead_of: tuple[str, str] = ("the output", "y"),
    lasts: bool = True,
) -> None:
    """Declares the same quantity at other places.

    Args:
        made: A quantity of one place.
        elsewhere: The other places, by the name of the quantity there.
        instead_of: The place as the quantity's own documentation and formula name it.
        lasts: False where training wears it down there, as it does sizes of gradients: the rule
            ``"lasting"`` then does not hold.
    """
    health = made.health if lasts or made.health != "lasting" else ""
    for name, there in elsewhere.items():
        sources = {k: there.place.reduce_as(source) for k, source in made.sources.items()}
        text = _retold(made.documentation, instead_of, there).replace(f"{made.name}.", f"{name}.")
        twin = dataclasses.replace(
            made, name=name, sources=sources, documentation=text, health=health
        )
        _check_declaration(twin)
        _register(twin)


def _register(made: Quantity) -> None:
    _REGISTRY[made.name] = made
    keep_own_rule(made.name, made.rule)


def _retold(text: str, instead_of: tuple[str, str], there: Elsewhere) -> str:
    words, symbol = instead_of
    lines = text.replace(words, there.words).splitlines()
    return "\n".join(
        re.sub(rf"\b{symbol}\b", there.symbol, line) if line.startswith("Formula: ") else line
        for line in lines
    )


def find_quantity(name: str) -> Quantity | None:
    """The quantity declared under a name."""
    return _REGISTRY.get(name)


def quantity_names() -> list[str]:
    """The names of all declared quantities, sorted."""
    return sorted(_REGISTRY)


def _check_declaration(made: Quantity) -> None:
    parameters = inspect.signature(made.compute).parameters.values()
    wanted = [p.name for p in parameters if p.kind is not inspect.Parameter.KEYWORD_ONLY]
    if set(wanted) != set(made.sources):
        raise TypeError(
            f"quantity {made.name!r}: the function takes {_listed(wanted)}, "
            f"but the readings given are {_listed(made.sources)}"
        )
    if made.over_all and len(made.sources) != 1:
        raise TypeError(f"quantity {made.name!r}: over_all takes one reading, not {len(wanted)}")
    for source in made.sources.values():
        if not isinstance(source, Source):
            raise TypeError(
                f"quantity {made.name!r}: {source!r} is not a reading, such as output.norm"
            )
    if made.batched and (made.window or made.over_all or made.looks_back):
        raise TypeError(
            f"quantity {made.name!r}: batched=True is for quantities of one step and one call"
        )
    _check_facts(made)
    known = _REGISTRY.get(made.name)
    if known and _origin(known) != _origin(made):
        raise ValueError(f"a quantity named {made.name!r} exists already ({_origin(known)})")


def _check_facts(made: Quantity) -> None:
    for name in ("unit", "accuracy"):
        text = getattr(made, name)
        if not isinstance(text, str):
            raise TypeError(f"quantity {made.name!r}: {name} is a string, not {text!r}")
    if made.rule is not None and not callable(made.rule):
        raise TypeError(
            f"quantity {made.name!r}: rule is a function of steps and values, not {made.rule!r}"
        )
    if made.health and made.health not in RULES:
        hint = suggestion(str(made.health), list(RULES))
        raise ValueError(f"quantity {made.name!r}: there is no health rule {made.health!r}.{hint}")


def _origin(made: Quantity) -> str:
    # The same function declared again, as a notebook's cell does, replaces itself.
    return f"{made.compute.__module__}.{made.compute.__qualname__}"


def _listed(names: Any) -> str:
    return ", ".join(map(repr, names)) or "nothing"
