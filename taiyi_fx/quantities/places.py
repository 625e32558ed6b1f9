"""Places at a module that quantities read, and the stock of reductions there."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from taiyi_fx import reductions
from taiyi_fx.passes.ir import (
    CALL_PORTS,
    MODEL_PORTS,
    OPTIMIZER_PORTS,
    BackwardReduction,
    CallReduction,
    FunctionGroup,
    PairReduction,
    Pick,
    Port,
    Reading,
    Reduction,
    Site,
    SpanReduction,
    capabilities,
)
from taiyi_fx.passes.structure import computed_by, computed_text, is_computed, tensor_named
from taiyi_fx.quantities.feature_axis import feature_axis_of
from taiyi_fx.quantities.function_call import FunctionCall
from taiyi_fx.quantities.heads import heads_of
from taiyi_fx.quantities.layer_rules import weight_gradient_of
from taiyi_fx.quantities.routers import choices_of, experts_of
from taiyi_fx.quantities.views import asks_of_views


class NotApplicable(Exception):
    """A module lacks the tensor or layer that a quantity or an edit needs."""


class Unobservable(NotApplicable):
    """A module whose calls cannot be observed; reported even if other modules match as well."""


@dataclass(frozen=True)
class Source:
    """The reading behind one argument of a quantity's function: a reduction at a place.

    Call it to fix parameters of the reduction: ``input.moments(reduce="feature")``. The others
    become options of the quantity.

    Attributes:
        functions: The functions at whose calls the reading is made, if not at a module's.
    """

    port: Port
    reduction: Callable[
        ..., Reduction | PairReduction | CallReduction | SpanReduction | BackwardReduction
    ]
    fixed: Mapping[str, Any] = field(default_factory=dict)
    name: str | None = None
    ago: int = 0
    functions: FunctionGroup | None = None

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
        """The options that a configuration may set: open parameters, and the tensor to read."""
        parameters = inspect.signature(self.reduction, eval_str=True).parameters
        can = capabilities(self.reduction)
        of_module = ("layer",) * can.needs_layer + ("heads",) * can.needs_heads
        of_module += ("experts",) * can.needs_experts + ("modules",) * can.needs_model
        found = {k: p for k, p in parameters.items() if k not in (*self.fixed, *of_module)}
        kind = inspect.Parameter.KEYWORD_ONLY
        if self.port in ("call", "span", "backward"):
            return found
        if self.port in CALL_PORTS:
            pick = inspect.Parameter("tensor", kind, default=None, annotation=int | str | None)
            found["tensor"] = pick
        elif self.port in ("parameter", "parameter_grad", *OPTIMIZER_PORTS):
            param = inspect.Parameter("param", kind, default=self.name, annotation=str)
            found["param"] = param
        return found

    def reading(self, module: nn.Module, options: Mapping[str, Any]) -> Reading:
        """The reading to make at a module.

        Raises:
            NotApplicable: The module has no such parameter or buffer.
        """
        if self.port in CALL_PORTS and isinstance(module, torch.jit.ScriptModule):
            raise Unobservable(
                "is a ScriptModule, which runs outside of Python; observe a module before it"
            )
        if self.port in CALL_PORTS and has_no_forward(module):
            if next(module.children(), None) is None:
                raise NotApplicable("has no forward, and is never called")
            raise NotApplicable("only holds its parts and is never called: match them instead")
        if self.functions is not None and not is_call_of(module, self.functions):
            raise NotApplicable(f"is not a call of {self.functions.name}")
        given = {k: v for k, v in options.items() if k in self.options}
        site = Site(self.port, self._pick(module, given))
        parameters = {k: v for k, v in given.items() if k not in ("tensor", "param")}
        reduction = self.reduction(**{**self.fixed, **parameters})
        return Reading(site, _resolved(reduction, module))

    def _pick(self, module: nn.Module, given: Mapping[str, Any]) -> Pick:
        if self.port in MODEL_PORTS:
            return None
        if self.port == "input_grad" and asks_of_views(module):
            raise Unobservable(
                "tests if a tensor is a view (`_is_view`, `_base`), and its input would be one "
                "while its gradient is read: read that of the output of the module before it"
            )
        if self.port == "input_grad" and getattr(module, "inplace", False):
            raise NotApplicable(
                "changes its input in place, so that its gradient is that of the output"
            )
        if self.port in CALL_PORTS:
            pick = given.get("tensor")
            if pick is None or self.port in ("output", "output_grad"):
                return pick
            return input_pick(module, pick)
        name = given.get("param", self.name)
        if name == "all":
            if next(module.parameters(), None) is None:
                raise NotApplicable("has no parameters")
        elif own_code := computed_by(module, name):
            raise NotApplicable(computed_text(name, own_code))
        elif not is_computed(module, name) and not isinstance(
            tensor_named(module, name), torch.Tensor
        ):
            own = ", ".join(k for k, _ in module.named_parameters(recurse=False))
            hint = f" (the option param takes one of {own}, or all)" if own else ""
            raise NotApplicable(f"has no {name}{hint}")
        return name


def input_pick(module: nn.Module, pick: int | str) -> Pick:
    """The argument of a module's forward at a position or of a name, as both."""
    parameters = inspect.signature(module.forward).parameters.values()
    names = [p.name for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    if isinstance(pick, int):
        return pick, names[pick] if pick < len(names) else ""
    return names.index(pick) if pick in names else None, pick


def _resolved(reduction: Any, module: nn.Module) -> Any:  # a frozen dataclass of any kind
    """A reduction with the feature axis or the layer's rule filled in from its module."""
    can = capabilities(reduction)
    if can.feature_axis == "auto":
        return dataclasses.replace(reduction, feature_axis=feature_axis_of(module))
    if can.needs_heads:
        caller = module.caller if isinstance(module, FunctionCall) else module
        return dataclasses.replace(reduction, heads=None if caller is None else heads_of(caller))
    if can.needs_experts:
        k = reduction.k or choices_of(module)
        return dataclasses.replace(reduction, experts=experts_of(module), k=k)
    if can.needs_layer:
        rule = weight_gradient_of(module)
        if isinstance(rule, str):
            raise NotApplicable(rule)
        return dataclasses.replace(reduction, layer=rule)
    return reduction


@dataclass(frozen=True)
class Place:
    """A side of a module whose tensor a quantity reads, with the stock of reductions."""

    port: Port
    name: str | None = None

    def __getattr__(self, name: str) -> Any:
        stock = [k for k, v in vars(Place).items() if isinstance(v, property)]
        raise AttributeError(f"no reduction is named {name!r}; known are {', '.join(stock)}")

    def reduce(self, reduction: Callable[..., Reduction]) -> Source:
        """A source that applies a reduction of your own.

        Args:
            reduction: A class with the methods of `taiyi_fx.Reduction`, a frozen dataclass
                whose fields are options of the quantity; or a function that returns one.

        Raises:
            TypeError: It is an instance, or a class without one of the methods.
        """
        check_reduction(reduction, Reduction)
        return Source(self.port, reduction, name=self.name)

    def reduce_as(self, source: Source) -> Source:
        """Another place's source, at this place."""
        return dataclasses.replace(source, port=self.port, name=self.name)

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
    def abs_max(self) -> Source:
        """Largest absolute value of all elements, a scalar."""
        return self.reduce(reductions.AbsMax)

    @property
    def non_finites(self) -> Source:
        """Number of elements that are NaN, and number of infinite ones."""
        return self.reduce(reductions.NonFinites)

    @property
    def scalar(self) -> Source:
        """Number of tensors, of one element each, and their sum."""
        return self.reduce(reductions.Scalar)

    @property
    def sample_norms(self) -> Source:
        """Number of samples (axis 0) and the sum of their Euclidean norms."""
        return self.reduce(reductions.SampleNorms)

    @property
    def activity(self) -> Source:
        """Share of rows in which each feature is larger than ``eps`` in absolute value."""
        return self.reduce(reductions.Activity)

    @property
    def moments(self) -> Source:
        """Count, mean and squared deviations, of all elements or per feature."""
        return self.reduce(reductions.Moments)

    @property
    def fourth_moment(self) -> Source:
        """Number of elements and their kurtosis."""
        return self.reduce(reductions.FourthMoment)

    @property
    def histogram(self) -> Source:
        """Counts by sign and power of two, a vector of 514 integers."""
        return self.reduce(reductions.Histogram)

    @property
    def quantiles(self) -> Source:
        """Values below which given shares of the elements lie."""
        return self.reduce(reductions.Quantiles)

    @property
    def out_of_range(self) -> Source:
        """Number of non-zero elements that are too small, and too large, for a format."""
        return self.reduce(reductions.OutOfRange)

    @property
    def spectrum(self) -> Source:
        """All eigenvalues of the features' covariance, descending, and the number of rows."""
        return self.reduce(reductions.Spectrum)

    @property
    def singular(self) -> Source:
        """Singular values of the rows-by-features matrix, descending, and the number of rows."""
        return self.reduce(reductions.Singular)

    @property
    def matrix_singular(self) -> Source:
        """Singular values of the tensor as a matrix, axis 0 by the rest, descending."""
        return self.reduce(reductions.MatrixSingular)

    @property
    def feature_max(self) -> Source:
        """Largest value of each feature, a vector."""
        return self.reduce(reductions.FeatureMax)

    @property
    def sign(self) -> Source:
        """Sign of each element as int8, in the tensor's shape."""
        return self.reduce(reductions.Sign)

    @property
    def fingerprint(self) -> Source:
        """A hash of all bits and of their places, in two halves."""
        return self.reduce(reductions.Fingerprint)

    @property
    def raw(self) -> Source:
        """A copy of the tensor itself."""
        return self.reduce(reductions.Raw)


@dataclass(frozen=True)
class Pair:
    """A call's input together with its output's gradient."""

    def reduce(self, reduction: Callable[..., PairReduction]) -> Source:
        """A source that applies a reduction of your own, with ``measure_pair(x, g)``.

        Raises:
            TypeError: It is an instance, or a class without one of the methods.
        """
        check_reduction(reduction, PairReduction)
        return Source("pair", reduction)

    @property
    def sample_grad_norms(self) -> Source:
        """Norm of each sample's share in the gradient of the weight."""
        return self.reduce(reductions.PerSample)

    @property
    def noise(self) -> Source:
        """Squared norms of the samples' shares in the weight's gradient, and of their sum."""
        return self.reduce(reductions.Noise)


@dataclass(frozen=True)
class CallPlace:
    """All arguments of a call, together with its result.

    Attributes:
        functions: Those whose calls they are, wherever the forward of a module makes one; None
            for calls of the module itself, or of a function that is a key.
    """

    functions: FunctionGroup | None = None

    def reduce(self, reduction: Callable[..., CallReduction]) -> Source:
        """A source that applies a reduction of your own, with ``measure_call(call, result)``.

        Raises:
            TypeError: It is an instance, or a class without one of the methods.
        """
        check_reduction(reduction, CallReduction)
        return Source("call", reduction, functions=self.functions)


def is_call_of(module: nn.Module, functions: FunctionGroup) -> bool:
    """True if a module stands for the calls of these functions, or of one of them."""
    if not isinstance(module, FunctionCall):
        return False
    if module.function is functions:
        return True
    return any(module.function is f for f in functions.members(module.caller))


def check_reduction(reduction: Any, protocol: type) -> None:
    """Checks that something makes reductions.

    Raises:
        TypeError: It is an instance, or a class without one of the methods.
    """
    name = getattr(reduction, "__name__", type(reduction).__name__)
    if not callable(reduction):
        raise TypeError(f"give the reduction's class, {name}, not an instance of it")
    measure = {PairReduction: "measure_pair", CallReduction: "measure_call"}
    methods = (measure.get(protocol, "measure"), "merge", "scale", "finish")
    lacking = [m for m in methods if isinstance(reduction, type) and not hasattr(reduction, m)]
    if lacking:
        raise TypeError(f"the reduction {name} has no {' and no '.join(lacking)}")


def has_no_forward(module: nn.Module) -> bool:
    """True if a module only holds others, as a ModuleList does."""
    own = getattr(type(module), "forward", None)
    return own is nn.Module.forward and "forward" not in vars(module)


EACH = "each"
"""The name for every parameter that a module itself has."""

input = Place("input")
output = Place("output")
input_grad = Place("input_grad")
output_grad = Place("output_grad")
weight = Place("parameter", "weight")
weight_grad = Place("parameter_grad", "weight")
parameter = Place("parameter", EACH)
parameter_grad = Place("parameter_grad", EACH)
first_moment = Place("first_moment", EACH)
second_moment = Place("second_moment", EACH)
optimizer_step = Source("step", reductions.StepOfParameter, name=EACH)
pair = Pair()
all_gradients = Source("gradients", reductions.Norm)
learning_rates = Source("optimizer", reductions.Raw, {"max_elements": None})
logged_losses = Source("logged", reductions.Raw, {"max_elements": None})
call = CallPlace()
forward_seconds = Source("span", reductions.ForwardSeconds)
backward_seconds = Source("backward", reductions.BackwardSeconds)
saved_bytes = Source("span", reductions.SavedBytes)


def buffer(name: str) -> Place:
    """A buffer of the module, as it is when the quantity is emitted."""
    return Place("buffer", name)


def previous(source: Source) -> Source:
    """The source's reading of one due step earlier; None at the first due step."""
    return dataclasses.replace(source, ago=source.ago + 1)
