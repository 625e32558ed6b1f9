"""The compiler's shared terms: sites, readings, reductions, and targets with their readings."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal, Protocol, runtime_checkable

import torch
from torch import Tensor

Port = Literal[
    "input",
    "output",
    "call",
    "span",
    "input_grad",
    "output_grad",
    "pair",
    "backward",
    "parameter",
    "parameter_grad",
    "buffer",
    "gradients",
    "optimizer",
    "logged",
    "first_moment",
    "second_moment",
    "step",
]
"""Sides of a module; a call is all its arguments with its result, a span the time from a call's
begin to its end, a pair its input with its output's gradient; a backward is what autograd runs for
the call.

Of the model as a whole are all its gradients, its optimizer, and logged losses. The last three are
what the optimizer's state tells of a parameter; a step goes with the parameter itself.
"""
VALUE_PORTS: tuple[Port, ...] = ("input", "output")
GRADIENT_PORTS: tuple[Port, ...] = ("input_grad", "output_grad", "pair", "backward")
CALL_PORTS: tuple[Port, ...] = (*VALUE_PORTS, "call", "span", *GRADIENT_PORTS)
PARAMETER_PORTS: tuple[Port, ...] = ("parameter", "parameter_grad", "buffer")
MODEL_PORTS: tuple[Port, ...] = ("gradients", "optimizer", "logged")
OPTIMIZER_PORTS: tuple[Port, ...] = ("first_moment", "second_moment", "step")

Mode = Literal["train", "eval"]
State = tuple[Tensor, ...]
Numbers = tuple[int | float, ...]
"""A state of scalars as Python's numbers, where that takes less time than a tensor of each."""
States = tuple[Tensor | Sequence[int | float], ...]
"""Many states: each part has one more axis, the first, or is a list of Python's numbers."""
Pick = int | str | tuple[int | None, str] | None


@runtime_checkable
class Foldable(Protocol):
    """A mergeable statistic: what a probe keeps instead of tensors.

    Implementations are frozen dataclasses (two equal ones are computed once) with pure methods.
    What one can do besides is written down in `Capabilities` and `FastPaths`.
    """

    def merge(self, a: State, b: State) -> State:
        """The statistic of the rows of both."""
        ...

    def scale(self, state: State, factor: float) -> State:
        """The statistic that ``factor * x`` would have had."""
        ...

    def finish(self, state: State) -> Any:  # a Tensor, or whatever the quantity's function takes
        """The value that a quantity receives."""
        ...


@runtime_checkable
class Reduction(Foldable, Protocol):
    """A statistic of one tensor.

    For any split of the rows of ``x`` into ``a`` and ``b``,
    ``finish(merge(measure(a), measure(b)))`` equals ``finish(measure(x))`` up to rounding.
    """

    def measure(self, x: Tensor) -> State:
        """The statistic of one tensor; keeps no reference to it."""
        ...


@runtime_checkable
class PairReduction(Foldable, Protocol):
    """A statistic of a call's input and its output's gradient together."""

    def measure_pair(self, x: Tensor, g: Tensor) -> State:
        """The statistic of one call; keeps no reference to either."""
        ...


class CallArguments(Protocol):
    """The arguments of a call, as a `CallReduction` gets them.

    Attributes:
        args: The positional ones.
        kwargs: The keywords.
        function: The name of the function that is called; empty for a module.
    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    function: str


@runtime_checkable
class CallReduction(Foldable, Protocol):
    """A statistic of all arguments of a call and its result."""

    def measure_call(self, call: CallArguments, result: Any) -> State:
        """The statistic of one call; keeps no reference to its tensors."""
        ...


@runtime_checkable
class SpanReduction(Foldable, Protocol):
    """A statistic of what happens between the begin and the end of a call."""

    def mark(self) -> int:
        """A count that only grows, such as a clock's; taken at both ends of the call."""
        ...

    def measure_span(
        self, first: int, last: int, result: Any
    ) -> State | Numbers | Callable[[], Numbers]:
        """The statistic of one call, from the marks at its ends and its result.

        Where a device is still computing, a function that gives it later, when the step is tracked.
        """
        ...


@runtime_checkable
class BackwardReduction(Foldable, Protocol):
    """A statistic of the backward of what happens between the begin and the end of a call."""

    def mark(self) -> int:
        """A count that only grows; taken at both ends of the call."""
        ...

    def watch(self, first: int, last: int, result: Any, take: Callable[[Any], None]) -> str | None:
        """Has the statistics of one call taken as its backward runs; returns why none can come.

        They are what `SpanReduction.measure_span` returns.
        """
        ...


@dataclass(frozen=True, eq=False, repr=False)
class FunctionGroup:
    """Functions that do the same thing: whichever of them a forward calls is one target there.

    Attributes:
        name: The name of the sites.
        members: Takes the module whose forward it is; returns the functions that count there.
        through: Python functions of torch that call one of them inside, where it is read too.
        modules: Classes of torch's own modules whose forwards call those; a graph that keeps such
            a module as one call would not show it.
        layers: Classes of torch's own modules that do nothing but such a call: it belongs to the
            module that holds them.
        of_scores: Functions that count, too, where their input is made of a product of two
            computed tensors.
        unseen: Names of functions that do the same and cannot be seen, and why, in words.
    """

    name: str
    members: Callable[[Any], tuple[Callable[..., Any], ...]]
    through: tuple[Callable[..., Any], ...] = ()
    modules: tuple[type, ...] = ()
    layers: tuple[type, ...] = ()
    of_scores: tuple[Callable[..., Any], ...] = ()
    unseen: Mapping[str, str] = field(default_factory=dict)

    @property
    def __name__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"<functions {self.name}>"


Function = Callable[..., Any]


def members_of(target: Function | FunctionGroup, module: Any) -> tuple[Function, ...]:
    """The functions that a target stands for in the forward of a module."""
    return target.members(module) if isinstance(target, FunctionGroup) else (target,)


@dataclass(frozen=True)
class Site:
    """A place at a module where a tensor can be read.

    Attributes:
        port: The side of the module.
        pick: The tensor there; ``None`` is the first one found. For inputs, an argument's
            position and name; for outputs, a position or key. For parameters and buffers, a
            name; ``"all"`` takes every parameter that the module itself holds.
    """

    port: Port
    pick: Pick = None

    def __str__(self) -> str:
        return self.port if self.pick is None else f"{self.port}[{self.pick!r}]"


@dataclass(frozen=True)
class Reading:
    """A statistic of the tensor at a site. Equal readings of one tensor are made once."""

    site: Site
    reduction: Reduction | PairReduction | CallReduction | SpanReduction | BackwardReduction

    @functools.cached_property
    def _hash(self) -> int:
        return hash((self.site, self.reduction))

    def __hash__(self) -> int:
        return self._hash  # needed many times a step

    def __str__(self) -> str:
        return f"{self.site}.{type(self.reduction).__name__}"


@dataclass(frozen=True)
class Change:
    """A function of the tensor at a site, whose result takes the tensor's place.

    Several at one site apply in their order, which for gradients is the order in backward.
    """

    site: Site
    function: Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Capabilities:
    """The capabilities that a reduction declares by attributes or properties of these names.

    Attributes:
        has_fixed_shape: True if states have one shape, whatever the number of rows; compiled code
            cannot fold gradients of one that has not, where the compiler left that number open.
        is_costly: True if ``finish`` takes long; it then runs in the background.
        is_over_elements: True if it takes the elements of a tensor in any arrangement; of a tensor
            that several ranks hold in parts each then reduces its own.
        takes_whole: True if it needs all of a tensor, however that is held.
        needs_layer: True if it has a field ``layer``, the rule of the module at its site.
        needs_heads: True if it has a field ``heads``, the number of heads that the module says.
        needs_experts: True if it has fields ``experts`` and ``k``, the numbers of experts, and of
            those for each token, that the module says.
        needs_model: True if it has a field ``modules`` and a method ``of_model``, which takes all
            modules of the model and returns it with those that it needs.
        finishes_as_is: True if ``finish`` returns the only part of a state as it is, where that is
            in float64 or int64. A derived class with its own ``finish`` does not inherit it.
        of_product: The names of functions at whose calls it reads the product that their result
            leads to instead of the result: a pair of that and the axis of its heads, or None where
            it is not found.
        keeps_batches: True if its statistic is that of each batch, along a first axis, and not
            that of all their rows. ``merge`` then puts the batches of one rank behind each other,
            and a method ``merge_ranks`` joins the ranks' parts of each.
        feature_axis: The axis of the features; ``"auto"`` is resolved by the module's class, and
            None says that it has none.
    """

    has_fixed_shape: bool = True
    is_costly: bool = False
    is_over_elements: bool = False
    takes_whole: bool = False
    needs_layer: bool = False
    needs_heads: bool = False
    needs_experts: bool = False
    needs_model: bool = False
    finishes_as_is: bool = False
    of_product: tuple[str, ...] = ()
    keeps_batches: bool = False
    feature_axis: int | Literal["auto"] | None = None


def capabilities(reduction: Any) -> Capabilities:
    """The capabilities that a reduction, or a class of reductions, declares."""
    return Capabilities(*(getattr(reduction, name, usual) for name, usual in _USUAL))


def reads_product(reduction: Any, function: str) -> bool:
    """True if a reduction reads the product that the result of a function's call leads to."""
    return function in capabilities(reduction).of_product


def merge_of_ranks(reduction: Any) -> Callable[[State, State], State]:
    """The function that joins what two ranks have of a step."""
    return reduction.merge_ranks if capabilities(reduction).keeps_batches else reduction.merge


_USUAL: tuple[tuple[str, Any], ...] = tuple((f.name, f.default) for f in fields(Capabilities))


@dataclass(frozen=True, slots=True)
class Elements:
    """Scalars of one vector, which one pass over a tensor on a GPU makes.

    Attributes:
        vector: Six numbers in float64, and behind them three in int64.
    """

    vector: Tensor

    @property
    def norm(self) -> Tensor:
        """The Euclidean norm of all elements; NaN or Inf if one is, as the next two."""
        return self.vector[0]

    @property
    def square_sum(self) -> Tensor:
        """The sum of the squares of all."""
        return self.vector[1]

    @property
    def abs_max(self) -> Tensor:
        """The largest magnitude of all."""
        return self.vector[2]

    @property
    def finite(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The number of finite elements, their sum, norm and largest magnitude; 0 of none."""
        return self._counts[6], self.vector[3], self.vector[4], self.vector[5]

    @property
    def nan(self) -> Tensor:
        """The number of NaN."""
        return self._counts[7]

    @property
    def bad(self) -> Tensor:
        """The number of all that are not finite."""
        return self._counts[8]

    @property
    def _counts(self) -> Tensor:
        return self.vector.view(torch.int64)


class FastPaths(Protocol):
    """Ways to measure in less time, each of which a reduction may have."""

    def measure_scalar(self, x: Tensor) -> Numbers | None:
        """The statistic of one tensor in numbers of Python; None where that takes no less time."""
        ...

    def measure_shape(self, shape: Sequence[int]) -> Numbers:
        """The statistic of all tensors of a shape in numbers of Python, whatever they hold."""
        ...

    def of_elements(self, elements: Elements) -> State:
        """The statistic of one tensor on a GPU of what one pass told, which serves others, too."""
        ...

    def measure_many(self, tensors: Sequence[Tensor]) -> States:
        """The statistics of several tensors of one device.

        The tensors have one shape, unless the reduction is over elements.
        """
        ...


def fast_path(reduction: Foldable, name: str) -> Callable[..., Any] | None:
    """One of the `FastPaths`, if there is one and it belongs to ``measure``.

    A derived class with its own ``measure`` does not inherit them.
    """
    return getattr(reduction, name) if has_fast_path(type(reduction), name) else None


@functools.cache
def has_fast_path(kind: type, name: str) -> bool:
    """True if a class of reductions has one of the `FastPaths` that belongs to its ``measure``."""
    return _belongs_to("measure", kind, name)


def finishes_as_is(reduction: Foldable) -> bool:
    """True if ``finish`` returns the only part of a state as it is, where its type is wide."""
    return capabilities(reduction).finishes_as_is and _belongs_to(
        "finish", type(reduction), "finishes_as_is"
    )


@functools.cache
def _belongs_to(method: str, kind: type, name: str) -> bool:
    """True if no class between has a method of its own that a name was not declared for."""
    first = next((vars(c) for c in kind.__mro__ if name in vars(c) or method in vars(c)), {})
    return name in first


def has_fixed_shape(reduction: Foldable) -> bool:
    """True if states of a reduction have one shape, whatever the size of the batch."""
    return capabilities(reduction).has_fixed_shape


Due = frozenset[tuple[str, Reading]]
"""The due readings: pairs of a module's name and a reading."""


@dataclass(frozen=True)
class Target:
    """A module to observe, the readings to make at its calls, and the changes."""

    module: str
    readings: frozenset[Reading]
    changes: tuple[Change, ...] = ()

    def at(self, *ports: Port) -> frozenset[Reading]:
        """The readings made at these ports."""
        return frozenset(r for r in self.readings if r.site.port in ports)

    @property
    def is_at_calls(self) -> bool:
        """True if anything happens at its calls."""
        return bool(self.changes) or bool(self.at(*CALL_PORTS))


Plan = Mapping[str, Target]
"""Targets by the dotted name of their module."""
