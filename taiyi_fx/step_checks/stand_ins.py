"""Copies in place of the parameters, buffers and other tensors of modules, for a while."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

import torch
from torch import Tensor, nn

from taiyi_fx.passes.module_tree import named_modules
from taiyi_fx.snapshot.state import State
from taiyi_fx.step_checks.batch import copied


@contextmanager
def stand_ins(
    models: Mapping[str, nn.Module], dtype: torch.dtype | None
) -> Iterator[dict[int, nn.Parameter]]:
    """In the body, copies stand in for all tensors that models hold; behind it nothing has changed.

    The parameters themselves, with their gradients, hooks and the optimizer that knows them, are
    not touched at all.

    Args:
        models: The models by name.
        dtype: The type of the copies of floating-point tensors; None leaves each its own.

    Yields:
        The copies of parameters, by the identity of the original.
    """
    with ExitStack() as stack:
        for model in models.values():
            stack.callback(State(model).restore)
        known: dict[int, Tensor] = {}  # by the identity of originals and of copies
        for model in models.values():
            for _, module in named_modules(model):
                _replace(module, dtype, known)
        yield {i: x for i, x in known.items() if isinstance(x, nn.Parameter)}


def _replace(module: nn.Module, dtype: torch.dtype | None, known: dict[int, Tensor]) -> None:
    if isinstance(module, torch.jit.ScriptModule):
        return  # its tensors are not Python's to replace
    for name, parameter in [*module._parameters.items()]:
        if parameter is not None:
            # By its own method: recurrent layers keep a list of their weights beside.
            setattr(module, name, _copy(parameter, dtype, known))
    for name, buffer in module._buffers.items():
        if buffer is not None:
            module._buffers[name] = _copy(buffer, dtype, known)
    for name, value in [*vars(module).items()]:
        if isinstance(value, Tensor):
            vars(module)[name] = _copy(value, dtype, known)


def _copy(x: Tensor, dtype: torch.dtype | None, known: dict[int, Tensor]) -> Tensor:
    made = known.get(id(x))
    if made is None:
        made = copied(x, dtype)
        if isinstance(x, nn.Parameter):
            made = nn.Parameter(made.detach(), x.requires_grad)
        known[id(x)] = known[id(made)] = made  # models may share modules
    return made


def learned(model: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters of a model that are to be learned, by name; none of script modules."""
    found: dict[nn.Parameter, str] = {}
    for name, module in named_modules(model):
        if isinstance(module, torch.jit.ScriptModule):
            continue
        for own, parameter in module._parameters.items():
            if parameter is not None and parameter.requires_grad:
                found.setdefault(parameter, f"{name}.{own}" if name else own)
    return {name: parameter for parameter, name in found.items()}
