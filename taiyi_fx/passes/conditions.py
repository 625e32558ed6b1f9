"""Plain values that a trace relied on: while they are what they were, its graph may stand in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch

SIMPLE = (type(None), bool, int, float, complex, str, bytes, torch.dtype, torch.device)
MISSING: Any = object()
"""What a condition holds for a name that was not there."""


@dataclass(frozen=True)
class Condition:
    """A plain value that a trace relied on.

    Attributes:
        owner: The name of the module that holds it, the class or Python module that answers for it,
            or the global variables of a function.
        name: Its name there.
        value: What it was; `MISSING` if the name was not there.
    """

    owner: str | type | ModuleType | Mapping[str, Any]
    name: str
    value: Any

    @property
    def key(self) -> tuple[Any, str]:
        """The same for two conditions on one value."""
        return id(self.owner) if isinstance(self.owner, Mapping) else self.owner, self.name


Conditions = dict[tuple[Any, str], Condition]
