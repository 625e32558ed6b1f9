"""What a case of the zoo is: a model to build and batches to feed it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor, nn
from torch.utils import _pytree as pytree

Batch = tuple[tuple[Any, ...], dict[str, Any]]
"""Positional and keyword arguments of one forward."""


@dataclass(frozen=True)
class Case:
    """A model and its batches.

    Attributes:
        name: The family and the model, such as ``"transformers/LlamaForCausalLM"``.
        build: Makes the model with random weights; the caller seeds.
        inputs: Makes the batch of a number of samples; the caller seeds.
    """

    name: str
    build: Callable[[], nn.Module]
    inputs: Callable[[int], Batch]

    def on(self, device: str) -> Case:
        """The same with model and batches on a device."""

        def inputs(size: int) -> Batch:
            return pytree.tree_map_only(Tensor, lambda x: x.to(device), self.inputs(size))

        return replace(self, build=lambda: self.build().to(device), inputs=inputs)
