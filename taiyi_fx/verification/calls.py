"""The calls of a plain model's modules, with their tensors, observed by hooks."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal

import torch
from torch import Tensor, nn

from taiyi_fx.passes.probes.retained import keeps_graph
from taiyi_fx.snapshot.bitwise import leaves

Side = Literal["input", "output", "output_grad"]
Take = Callable[[str, Side, Tensor], None]
"""A function of a call (a module's name, with ``@1`` at its second) and the tensor there."""


class Calls:
    """Reports the first input and output tensor of each call, and the output's gradient.

    Of several backwards through one forward, each reports the sum so far, as autograd adds them up
    in ``Tensor.grad``. What backward calls to compute a forward again is no call of its own, nor is
    what ``torch.func`` maps or differentiates.

    Args:
        take: Called with each of them.

    Attributes:
        counts: The number of times that each module returned a tensor.
    """

    def __init__(self, take: Take) -> None:
        self.counts: Counter[str] = Counter()
        self._take = take
        self._inputs: dict[str, list[Tensor]] = {}
        self._first: dict[str, list[Tensor]] = {}
        self._kept: dict[str, Tensor] = {}

    @contextmanager
    def watching(self, modules: Mapping[str, nn.Module]) -> Iterator[None]:
        """Installs hooks on modules while the body runs.

        Not longer: some libraries share an activation between all models.
        """
        handles: list[Any] = []
        try:
            for name, module in modules.items():
                if isinstance(module, torch.jit.ScriptModule):
                    continue
                before, after = self._before(name), self._after(name)
                handles.append(module.register_forward_pre_hook(before, with_kwargs=True))
                # First of all, as others may return something else.
                handles.append(module.register_forward_hook(after, prepend=True))
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
            # As it is now; but reported once the call returns: one that fails does not count.
            self._first[name] = [tensor.detach().clone() for tensor in inputs[:1]]

        return hook

    def _after(self, name: str) -> Any:
        def hook(module: nn.Module, args: Any, value: Any) -> Any:
            if _is_beyond_hooks():
                return None
            given, tensors = self._inputs.pop(name), list(_tensors(value))
            call = self._call(name)
            for tensor in self._first.pop(name):
                self._take(call, "input", tensor)
            if not tensors:
                return None
            first = tensors[0]
            self.counts[name] += 1
            self._take(call, "output", first)
            if len(tensors) > 1 and not any(first is x for x in given):
                first, value = _with_copy(first, value)
            if first.requires_grad:
                first.register_hook(functools.partial(self._take_gradient, call))
            return value

        return hook

    def _take_gradient(self, call: str, gradient: Tensor) -> None:
        before = self._kept.pop(call, None)
        total = gradient.detach() if before is None else before + gradient.detach()
        if keeps_graph():
            self._kept[call] = total.clone()
        self._take(call, "output_grad", total)

    def _call(self, name: str) -> str:
        count = self.counts[name]
        return f"{name}@{count}" if count else name


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
    """True in a recomputing backward, or within torch.func, whose tensors hold no numbers."""
    is_in_backward = torch._C._current_graph_task_id() != -1
    return is_in_backward or torch._C._are_functorch_transforms_active()


def _tensors(value: Any) -> Iterator[Tensor]:
    return (leaf for _, leaf in leaves(value) if isinstance(leaf, Tensor))
