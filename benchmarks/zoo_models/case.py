"""What a case of the zoo is: a model to build and batches to feed it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import nn

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
