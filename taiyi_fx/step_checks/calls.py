"""The calls of modules during one run, with what they were given and returned."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from taiyi_fx.passes.module_tree import named_modules
from taiyi_fx.step_checks.batch import Batch, batch_of


@dataclass(frozen=True)
class Call:
    """One call of a module.

    Attributes:
        module: Its name.
        depth: How many other modules were under way.
        given: What it was called with.
        output: What it returned.
    """

    module: str
    depth: int
    given: Batch
    output: Batch

    @property
    def inputs(self) -> list[Tensor]:
        """The tensors it was given."""
        return [*self.given.tensors().values()]

    @property
    def outputs(self) -> list[Tensor]:
        """The tensors it returned."""
        return [*self.output.tensors().values()]


@contextmanager
def recorded(model: nn.Module, records: bool) -> Iterator[list[Call]]:
    """Takes down all calls in the body, in the order in which they return.

    By hooks, which are there for one run of a model whose state is restored behind it.
    """
    calls: list[Call] = []
    under_way: list[Batch] = []
    handles: list[Any] = []

    def before(module: nn.Module, args: Any, kwargs: Any) -> None:
        given = batch_of(type(module).forward, (module, *args), kwargs)
        names = given.names[1:]
        under_way.append(_kept(Batch(args, kwargs, names)))

    def after(name: str) -> Any:
        def hook(module: nn.Module, args: Any, value: Any) -> None:
            given = under_way.pop()
            calls.append(Call(name, len(under_way), given, _kept(Batch((value,), {}))))

        return hook

    try:
        for name, module in named_modules(model) if records else ():
            if not isinstance(module, torch.jit.ScriptModule):
                handles.append(module.register_forward_pre_hook(before, with_kwargs=True))
                handles.append(module.register_forward_hook(after(name)))
        yield calls
    finally:
        for handle in handles:
            handle.remove()


def _kept(batch: Batch) -> Batch:
    """The same, as it is now."""
    return batch.mapped(lambda _, x: x.detach().clone())
