"""The reading behind one argument of a quantity's function: the tensor, and what of it."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

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
from taiyi_fx.passes.module_tree import has_children, named_parameters, parameters_of
from taiyi_fx.passes.structure import (
    attribute_of,
    computed_by,
    computed_text,
    is_computed,
    tensor_named,
)
from taiyi_fx.quantities.feature_axis import feature_axis_of
from taiyi_fx.quantities.function_call import FunctionCall
from taiyi_fx.quantities.heads import heads_of
from taiyi_fx.quantities.layer_rules import weight_gradient_of
from taiyi_fx.quantities.routers import choices_of, experts_of


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
            if not has_children(module):
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
        if self.port == "input_grad" and attribute_of(module, "inplace"):
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
            if next(parameters_of(module), None) is None:
                raise NotApplicable("has no parameters")
        elif own_code := computed_by(module, name):
            raise NotApplicable(computed_text(name, own_code))
        elif not is_computed(module, name) and not isinstance(
            tensor_named(module, name), torch.Tensor
        ):
            own = ", ".join(k for k, _ in named_parameters(module, recurse=False))
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


def is_call_of(module: nn.Module, functions: FunctionGroup) -> bool:
    """True if a module stands for the calls of these functions, or of one of them."""
    if not isinstance(module, FunctionCall):
        return False
    if module.function is functions:
        return True
    return any(module.function is f for f in functions.members(module.caller))


def has_no_forward(module: nn.Module) -> bool:
    """True if a module only holds others, as a ModuleList does."""
    own = getattr(type(module), "forward", None)
    return own is nn.Module.forward and "forward" not in vars(module)
