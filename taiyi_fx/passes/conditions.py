"""Plain values that a trace relied on: while they are what they were, its graph may stand in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

SIMPLE = (type(None), bool, int, float, complex, str, bytes, torch.dtype, torch.device)
MISSING: Any = object()
"""What a condition holds for a name that was not there."""


@dataclass(frozen=True)
class Condition:
    """A plain value that a trace relied on.

    Attributes:
        owner: The name of the module that holds it, or the namespace that does.
        name: Its name there.
        value: What it was; `MISSING` if the name was not there.
    """

    owner: str | Mapping[str, Any]
    name: str
    value: Any

    @property
    def key(self) -> tuple[Any, str]:
        """The same for two conditions on one value."""
        return self.owner if isinstance(self.owner, str) else id(self.owner), self.name


Conditions = dict[tuple[Any, str], Condition]


def namespace(holder: Any, name: str) -> Mapping[str, Any]:
    """The dictionary in which Python finds a name of a Python module or class."""
    if isinstance(holder, type):
        holder = next((c for c in holder.__mro__ if name in vars(c)), holder)
    return vars(holder)
