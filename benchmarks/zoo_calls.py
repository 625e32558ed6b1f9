"""The calls of leaf modules in a training step, told by hooks on a plain model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.bitwise import leaves
from taiyi_fx import output, quantity

INPUT, OUTPUT, GRADIENT = "InputSndNorm", "output_norm", "OutputGradSndNorm"
QUANTITIES = (INPUT, OUTPUT, GRADIENT)


@quantity(norm=output.norm)
def output_norm(norm: Tensor) -> Tensor:
    """Euclidean norm of the output over all its elements."""
    return norm


Reading = tuple[str, str]
"""A module's name, with ``@1`` at its second call, and a quantity."""


def is_leaf(name: str, module: nn.Module) -> bool:
    """Whether a module has no parts."""
    return next(module.children(), None) is None


@dataclass
class Calls:
    """What the calls of leaf modules had to show.

    A call counts for a quantity if there is a first tensor in its arguments, or in what it
    returns, or if a gradient reached that tensor. What backward calls to compute a forward again
    does not count, nor what ``torch.func`` maps or differentiates.

    Attributes:
        norms: Each reading's norm.
    """

    norms: dict[Reading, float] = field(default_factory=dict)
    _inputs: dict[str, list[Tensor]] = field(default_factory=dict)
    _counts: Counter[str] = field(default_factory=Counter)

    @contextmanager
    def watching(self, model: nn.Module) -> Iterator[None]:
        """Has hooks on every leaf of a model while the body runs.

        Not longer: some libraries share an activation between all models.
        """
        handles: list[Any] = []
        for name, module in model.named_modules():
            if is_leaf(name, module) and not isinstance(module, torch.jit.ScriptModule):
                before, after = self._before(name), self._after(name)
                handles.append(module.register_forward_pre_hook(before, with_kwargs=True))
                handles.append(module.register_forward_hook(after))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _before(self, name: str) -> Any:
        def hook(module: nn.Module, args: Any, kwargs: Any) -> None:
            if _is_beyond_hooks():
                return
            inputs = list(_tensors((args, kwargs)))
            self._inputs[name] = inputs
            for tensor in inputs[:1]:
                self.norms[self._call(name), INPUT] = _norm(tensor)

        return hook

    def _after(self, name: str) -> Any:
        def hook(module: nn.Module, args: Any, value: Any) -> Any:
            if _is_beyond_hooks():
                return None
            given, tensors = self._inputs.pop(name), list(_tensors(value))
            if not tensors:
                return None
            call, first = self._call(name), tensors[0]
            self._counts[name] += 1
            self.norms[call, OUTPUT] = _norm(first)
            if len(tensors) > 1 and not any(first is x for x in given):
                first, value = _with_copy(first, value)
            if first.requires_grad:
                self._await_gradient(first, call)
            return value

        return hook

    def _call(self, name: str) -> str:
        count = self._counts[name]
        return f"{name}@{count}" if count else name

    def _await_gradient(self, tensor: Tensor, call: str) -> None:
        def hook(gradient: Tensor) -> None:
            self.norms[call, GRADIENT] = _norm(gradient)

        tensor.register_hook(hook)


def _with_copy(first: Tensor, value: Any) -> tuple[Tensor, Any]:
    """A copy of the first tensor, and the value with it; else both as they are.

    Gradients from elsewhere, such as another result that is made of the first, do not pass the
    copy.
    """
    copied = first.clone()
    if value is first:
        return copied, copied
    if type(value) is tuple and value[0] is first:
        return copied, (copied, *value[1:])
    return first, value


def _is_beyond_hooks() -> bool:
    """Whether backward calls this, or a function of torch.func, whose tensors hold no numbers."""
    is_in_backward = torch._C._current_graph_task_id() != -1
    return is_in_backward or torch._C._functorch.peek_interpreter_stack() is not None


def _tensors(value: Any) -> Iterator[Tensor]:
    return (leaf for _, leaf in leaves(value) if isinstance(leaf, Tensor))


def _norm(x: Tensor) -> float:
    x = x.detach()
    x = x.abs() if x.is_complex() else x
    # In float64: in float32 torch is off by 1e-4 on large tensors, and finds tiny ones to be zero.
    return float(torch.linalg.vector_norm(x.double()))
