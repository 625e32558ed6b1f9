"""Edits: functions of a value or a gradient that a configuration places at a module."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from taiyi_fx.passes.ir import Change, Port, Site
from taiyi_fx.passes.structure import attribute_of
from taiyi_fx.quantities.source import NotApplicable, Unobservable, input_pick

TensorFunction = Callable[[Tensor], Tensor]

_VALUES: dict[str, Port] = {"output": "output", "input": "input"}
_GRADIENTS: dict[str, Port] = {"output": "output_grad", "input": "input_grad"}


@dataclass(frozen=True)
class Edit:
    """A change of a value at a module, of its gradient, or of both.

    Attributes:
        value: The function of the value.
        grad: The function of the gradient.
        at: The module's side.
        tensor: The tensor there, by position or name; None is the first one found.

    Raises:
        TypeError: An argument is not a function, or not a tensor's place.
        ValueError: Neither function is given, or there is no such side of a module.
    """

    value: TensorFunction | None = None
    grad: TensorFunction | None = None
    at: Literal["output", "input"] = "output"
    tensor: int | str | None = None

    def __post_init__(self) -> None:
        if self.value is None and self.grad is None:
            raise ValueError("an edit changes something: give it value=, grad= or both")
        for name, function in (("value", self.value), ("grad", self.grad)):
            if function is not None and not callable(function):
                raise TypeError(f"an edit's {name} is a function of a tensor, not {function!r}")
        if self.at not in _VALUES:
            raise ValueError(f"an edit is at 'output' or at 'input', not at {self.at!r}")
        if not isinstance(self.tensor, (int, str, type(None))):
            raise TypeError(f"an edit's tensor is a position or a name, not {self.tensor!r}")

    def changes(self, module: nn.Module) -> tuple[Change, ...]:
        """The changes to make at a module.

        Raises:
            NotApplicable: The module has no tensor there that can be changed.
        """
        if isinstance(module, torch.jit.ScriptModule):
            raise Unobservable(
                "is a ScriptModule, which runs outside of Python; edit a module before it"
            )
        pick = self.tensor
        if self.at == "input":
            if self.grad is not None and attribute_of(module, "inplace"):
                raise NotApplicable(
                    "changes its input in place: edit the gradient of its output instead"
                )
            pick = None if pick is None else input_pick(module, pick)
            _check_argument(module, self.tensor)
        found = []
        if self.value is not None:
            found.append(Change(Site(_VALUES[self.at], pick), self.value))
        if self.grad is not None:
            found.append(Change(Site(_GRADIENTS[self.at], pick), self.grad))
        return tuple(found)


def edit(
    *,
    value: TensorFunction | None = None,
    grad: TensorFunction | None = None,
    at: Literal["output", "input"] = "output",
    tensor: int | str | None = None,
) -> Edit:
    """A change of a value or gradient at a module, placed in a configuration beside quantities.

    It is part of the computation, like a hook that returns a value: it applies at each call, in
    training and evaluation, even if nothing is due. At one site edits apply in the order of the
    configuration; the first edit of a gradient sees it first. Quantities see the value after its
    edits and the gradient before: that of the value which the consumers, or the module, got. Where
    the loss is scaled, so is the gradient that an edit sees.

    Args:
        value: A function of the value that returns the new value, in the path of autograd.
        grad: A function of the gradient, run under no_grad, that returns the new gradient, of the
            same shape, dtype and device. It must not write to its argument.
        at: The module's side, ``"output"`` or ``"input"``.
        tensor: The tensor there: for inputs an argument's position or name, for outputs a
            position or key; the first one found if left out.

    Raises:
        TypeError: An argument is not a function, or not a tensor's place.
        ValueError: Neither function is given, or there is no such side of a module.
    """
    return Edit(value, grad, at, tensor)


def _check_argument(module: nn.Module, name: int | str | None) -> None:
    parameters = inspect.signature(module.forward).parameters
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    if isinstance(name, str) and name not in parameters and not takes_any:
        raise NotApplicable(f"has no argument {name!r}; it takes {', '.join(parameters)}")
