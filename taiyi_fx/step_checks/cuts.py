"""The lines at which numbers with a gradient lose it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from taiyi_fx.recorder.replay.places import place_of

_BY_NAME = {
    Tensor.detach: "detach",
    Tensor.detach_: "detach_",
    Tensor.item: "item",
    Tensor.numpy: "numpy",
    Tensor.tolist: "tolist",
    Tensor.__float__: "float",
    Tensor.data.__get__: "data",  # type: ignore[attr-defined]
    torch.tensor: "torch.tensor",
    torch.as_tensor: "torch.as_tensor",
}
_ON_PURPOSE = ("detach", "detach_", "no_grad", "data")
"""What stops gradients and is written for nothing else."""
_SHOWN = 3


class Cut(NamedTuple):
    """A line at which a gradient ends.

    Attributes:
        what: What ends it, such as ``detach``.
        file: The file.
        line: The number of the line.
    """

    what: str
    file: str
    line: int

    @property
    def is_on_purpose(self) -> bool:
        """True for what is written to stop a gradient."""
        return self.what in _ON_PURPOSE

    def __str__(self) -> str:
        return f"{self.what} at {os.path.basename(self.file)}:{self.line}"


class WatchingCuts(TorchFunctionMode):
    """Takes down where a tensor that has a graph is taken out of it."""

    def __init__(self) -> None:
        super().__init__()
        self.cuts: dict[Cut, None] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        what = _BY_NAME.get(func)
        if what is None and not torch.is_grad_enabled() and not _is_getter(func):
            what = "no_grad"
        if what is not None and any(_has_graph(x) for x in tree_leaves((args, kwargs))):
            place = place_of(sys._getframe(1), {})
            self.cuts.setdefault(Cut(what, place.file, place.line))
        return func(*args, **(kwargs or {}))

    def named(self) -> list[Cut]:
        """The cuts to be named: where some are written to stop a gradient, these alone."""
        known = [cut for cut in self.cuts if cut.file]
        return [cut for cut in known if cut.is_on_purpose] or known


def in_words(cuts: Sequence[Cut]) -> str:
    """The first of them."""
    more = ", ..." if len(cuts) > _SHOWN else ""
    return ", ".join(map(str, cuts[:_SHOWN])) + more


def _has_graph(x: Any) -> bool:
    return isinstance(x, Tensor) and x.requires_grad


def _is_getter(function: Any) -> bool:
    return getattr(function, "__name__", "") == "__get__"
