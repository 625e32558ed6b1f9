"""Quantities: pure functions of named readings, usable by name once declared."""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, get_args, get_origin

import torch
from torch import nn

from taiyi_fx import reductions
from taiyi_fx.feature_axis import feature_axis_of
from taiyi_fx.passes.ir import CALL_PORTS, Pick, Port, Reading, Reduction, Site
from taiyi_fx.schedule import Schedule

_REQUIRED = inspect.Parameter.empty


@dataclass(frozen=True)
class Range:
    """Bounds of a numeric option, for its annotation: ``Annotated[float, Range(0, 1)]``."""

    low: float
    below: float

    def __contains__(self, value: Any) -> bool:
        return self.low <= value < self.below

    def __str__(self) -> str:
        return f"of at least {self.low} and below {self.below}"


class Missing(Exception):
    """A module lacks what a quantity reads there."""


@dataclass(frozen=True)
class Source:
    """What one argument of a quantity's function is made of: a reduction at a place.

    Call it to fix parameters of the reduction: ``input.moments(reduce="feature")``. Those left
    open become options of the quantity.
    """

    port: Port
    reduction: Callable[..., Reduction]
    fixed: Mapping[str, Any] = field(default_factory=dict)
    name: str | None = None
    of_previous: bool = False

    def __call__(self, **parameters: Any) -> Source:
        """The same source with some of its reduction's parameters fixed.

        Raises:
            TypeError: The reduction has no such parameter.
        """
        for parameter in parameters:
            if parameter not in inspect.signature(self.reduction).parameters:
                raise TypeError(f"{self.reduction.__name__} has no parameter {parameter!r}")
        return dataclasses.replace(self, fixed={**self.fixed, **parameters})

    @property
    def options(self) -> dict[str, inspect.Parameter]:
        """What a configuration may set: the open parameters, and which tensor is read."""
        parameters = inspect.signature(self.reduction, eval_str=True).parameters
        found = {k: p for k, p in parameters.items() if k not in self.fixed}
        kind = inspect.Parameter.KEYWORD_ONLY
        if self.port in CALL_PORTS:
            pick = inspect.Parameter("tensor", kind, default=None, annotation=int | str | None)
            found["tensor"] = pick
        elif self.port != "buffer":
            param = inspect.Parameter("param", kind, default=self.name, annotation=str)
            found["param"] = param
        return found

    def reading(self, module: nn.Module, options: Mapping[str, Any]) -> Reading:
        """The reading to make at a module.

        Raises:
            Missing: The module has no such parameter or buffer.
        """
        given = {k: v for k, v in options.items() if k in self.options}
        site = Site(self.port, self._pick(module, given))
        parameters = {k: v for k, v in given.items() if k not in ("tensor", "param")}
        reduction = self.reduction(**{**self.fixed, **parameters})
        if getattr(reduction, "feature_axis", None) == "auto":
            reduction = dataclasses.replace(reduction, feature_axis=feature_axis_of(module))  # pyright: ignore[reportArgumentType]
        return Reading(site, reduction)

    def _pick(self, module: nn.Module, given: Mapping[str, Any]) -> Pick:
        if self.port in CALL_PORTS:
            pick = given.get("tensor")
            if pick is None or not self.port.startswith("input"):
                return pick
            names = list(inspect.signature(module.forward).parameters)
            if isinstance(pick, int):
                return pick, names[pick] if pick < len(names) else ""
            return names.index(pick) if pick in names else None, pick
        name = given.get("param", self.name)
        if name == "all":
            if next(module.parameters(), None) is None:
                raise Missing("has no parameters")
        elif not isinstance(getattr(module, name, None), torch.Tensor):
            raise Missing(f"has no {name}")
        return name


@dataclass(frozen=True)
class Place:
    """A side of a module whose tensor a quantity reads, with the stock of reductions."""

    port: Port
    name: str | None = None

    def reduce(self, reduction: Callable[..., Reduction]) -> Source:
        """A source that applies a reduction of your own: a frozen dataclass with its methods."""
        return Source(self.port, reduction, name=self.name)

    @property
    def norm(self) -> Source:
        """Euclidean norm of all elements, a scalar."""
        return self.reduce(reductions.Norm)

    @property
    def square_sum(self) -> Source:
        """Sum of squares of all elements, a scalar."""
        return self.reduce(reductions.SquareSum)

    @property
    def count(self) -> Source:
        """Number of elements, an integer scalar."""
        return self.reduce(reductions.Count)

    @property
    def moments(self) -> Source:
        """Count, mean and squared deviations, of all elements or per feature."""
        return self.reduce(reductions.Moments)

    @property
    def spectrum(self) -> Source:
        """All eigenvalues of the features' covariance, descending, and the number of rows."""
        return self.reduce(reductions.Spectrum)

    @property
    def singular(self) -> Source:
        """Singular values of the rows-by-features matrix, descending, and the number of rows."""
        return self.reduce(reductions.Singular)

    @property
    def feature_max(self) -> Source:
        """Largest value of each feature, a vector."""
        return self.reduce(reductions.FeatureMax)

    @property
    def sign(self) -> Source:
        """Sign of each element as int8, in the tensor's shape."""
        return self.reduce(reductions.Sign)

    @property
    def raw(self) -> Source:
        """A copy of the tensor itself."""
        return self.reduce(reductions.Raw)


input = Place("input")
output = Place("output")
input_grad = Place("input_grad")
output_grad = Place("output_grad")
weight = Place("parameter", "weight")
weight_grad = Place("parameter_grad", "weight")


def buffer(name: str) -> Place:
    """A buffer of the module, as it is when the quantity is emitted."""
    return Place("buffer", name)


def previous(source: Source) -> Source:
    """What the source was at the previous due step; the function gets None at the first."""
    return dataclasses.replace(source, of_previous=True)


@dataclass(frozen=True, eq=False)
class Quantity:
    """A number, or a vector, computed from readings of a module.

    Attributes:
        name: How configurations and records call it.
        compute: The pure function; its positional parameters are named as the sources.
        sources: What each of them is made of.
        window: Whether values and gradients come stacked along a new first axis, one entry for
            each step since the quantity was last emitted.
        requires: Says what a module lacks, or None.
    """

    name: str
    compute: Callable[..., Any]
    sources: Mapping[str, Source]
    window: bool = False
    requires: Callable[[nn.Module], str | None] | None = None

    def __repr__(self) -> str:
        return f"<quantity {self.name}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Computes the quantity from finished readings, as its function does."""
        return self.compute(*args, **kwargs)

    @property
    def options(self) -> dict[str, inspect.Parameter]:
        """What a configuration may set, by name."""
        own = inspect.signature(self.compute, eval_str=True).parameters.values()
        found = {p.name: p for p in own if p.kind is inspect.Parameter.KEYWORD_ONLY}
        for source in self.sources.values():
            found.update(source.options)
        return found

    def at(self, schedule: Schedule, **options: Any) -> Request:
        """This quantity on a schedule, as an entry of a configuration."""
        return Request(self, schedule, options)

    def compute_options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """The part of the options that goes to the function itself."""
        own = inspect.signature(self.compute).parameters
        return {k: v for k, v in options.items() if k in own}

    def check_options(self, options: Mapping[str, Any]) -> None:
        """Checks names, types and values of options.

        Raises:
            ValueError: One is unknown or not of the values allowed.
        """
        for name, value in options.items():
            if name not in self.options:
                allowed = ", ".join(sorted(self.options)) or "none"
                raise ValueError(f"{self.name} has no option {name!r}; its options are: {allowed}")
            _check_type(self.name, self.options[name], value)
        for source in self.sources.values():
            parameters = inspect.signature(source.reduction).parameters
            source.reduction(
                **source.fixed, **{k: v for k, v in options.items() if k in parameters}
            )

    def readings(self, module: nn.Module, options: Mapping[str, Any]) -> dict[str, Reading]:
        """What has to be read at a module.

        Raises:
            Missing: The module cannot have this quantity.
        """
        lacking = self.requires(module) if self.requires else None
        if lacking:
            raise Missing(lacking)
        return {name: source.reading(module, options) for name, source in self.sources.items()}


@dataclass(frozen=True)
class Request:
    """A quantity with its schedule and options, as a configuration asks for it."""

    quantity: Quantity
    schedule: Schedule
    options: Mapping[str, Any] = field(default_factory=dict)


_REGISTRY: dict[str, Quantity] = {}


def quantity(
    name: str | None = None,
    /,
    *,
    window: bool = False,
    requires: Callable[[nn.Module], str | None] | None = None,
    **sources: Source,
) -> Callable[[Callable[..., Any]], Quantity]:
    """Declares a quantity: the decorated function of the named readings.

    The function gets finished readings (tensors on the model's device) by position or name and
    returns a scalar, a vector, or a dictionary of suffix to value, where ``""`` is the quantity
    itself. Its keyword-only parameters are options that a configuration may set.

    Args:
        name: The name to use in configurations; by default the function's.
        window: Hand over values and gradients stacked over all steps since the last emission.
        requires: Takes a module, returns what it lacks, or None.
        **sources: What each parameter is made of, such as ``output.square_sum``.

    Raises:
        TypeError: The function's parameters and the sources' names differ.
        ValueError: Another quantity has this name.
    """

    def declare(function: Callable[..., Any]) -> Quantity:
        made = Quantity(name or function.__name__, function, sources, window, requires)
        _check_declaration(made)
        _REGISTRY[made.name] = made
        return made

    return declare


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
    for source in made.sources.values():
        if not isinstance(source, Source):
            raise TypeError(
                f"quantity {made.name!r}: {source!r} is no reading, such as output.norm"
            )
    known = _REGISTRY.get(made.name)
    if known and _origin(known) != _origin(made):
        raise ValueError(f"a quantity named {made.name!r} exists already ({_origin(known)})")


def _origin(made: Quantity) -> str:
    # The same function declared again, as a notebook's cell does, replaces itself.
    return f"{made.compute.__module__}.{made.compute.__qualname__}"


def _listed(names: Any) -> str:
    return ", ".join(map(repr, names)) or "nothing"


def _check_type(owner: str, option: inspect.Parameter, value: Any) -> None:
    annotation = option.annotation
    if annotation is _REQUIRED or _matches(value, annotation):
        return
    allowed = _described(annotation)
    raise ValueError(f"{owner}: option {option.name!r} must be {allowed}, not {value!r}")


def _matches(value: Any, annotation: Any) -> bool:
    if get_origin(annotation) is Annotated:
        kind, *bounds = get_args(annotation)
        return _matches(value, kind) and all(value in bound for bound in bounds)
    if get_origin(annotation) is Literal:
        return value in get_args(annotation)
    members = get_args(annotation)
    if members and not isinstance(annotation, type):
        return any(_matches(value, member) for member in members)
    if annotation in (None, type(None)):
        return value is None
    if annotation is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if annotation is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return annotation is Any or isinstance(value, typing.get_origin(annotation) or annotation)


def _described(annotation: Any) -> str:
    if get_origin(annotation) is Annotated:
        kind, *bounds = get_args(annotation)
        return " ".join([_described(kind), *map(str, bounds)])
    if get_origin(annotation) is Literal:
        return " or ".join(map(repr, get_args(annotation)))
    members = get_args(annotation)
    if members and not isinstance(annotation, type):
        return " or ".join(_described(member) for member in members)
    if annotation in (None, type(None)):
        return "None"
    return {int: "a whole number", float: "a number", str: "a text", bool: "True or False"}.get(
        annotation, str(annotation)
    )
