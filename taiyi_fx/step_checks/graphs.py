"""Steps whose samples are the nodes of a graph."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.overrides import TorchFunctionMode

from taiyi_fx.step_checks.trial import Trial

_PRODUCTS = (
    torch.matmul,
    torch.mm,
    torch.sparse.mm,
    torch.spmm,
    Tensor.matmul,
    Tensor.mm,
    Tensor.__matmul__,
)
_LOOKUPS = (torch.index_select, Tensor.index_select, Tensor.__getitem__)


def is_of_a_graph(trial: Trial, size: int) -> bool:
    """True if values of all samples are passed on along edges.

    That is: multiplied by a table of samples against samples, or taken by an index that is longer,
    or shorter, than there are samples. An order of the samples is as long.
    """
    edges = _Edges(size)
    trial.run(within=edges)
    return edges.are_there


class _Edges(TorchFunctionMode):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.are_there = False
        self._size = size

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in _PRODUCTS and len(args) == 2:
            self.are_there |= self._is_table(args[0]) and self._is_of_samples(args[1])
        elif func in _LOOKUPS and len(args) > 1:
            self.are_there |= self._is_of_samples(args[0]) and self._are_ends(args[-1])
        return func(*args, **(kwargs or {}))

    def _is_table(self, x: Any) -> bool:
        return isinstance(x, Tensor) and x.shape == (self._size, self._size)

    def _is_of_samples(self, x: Any) -> bool:
        is_weight = isinstance(x, Parameter) or isinstance(getattr(x, "_base", None), Parameter)
        return isinstance(x, Tensor) and x.ndim == 2 and len(x) == self._size and not is_weight

    def _are_ends(self, x: Any) -> bool:
        """True for one end of each edge."""
        is_index = isinstance(x, Tensor) and x.ndim == 1 and x.dtype in (torch.int64, torch.int32)
        return is_index and len(x) > 1 and len(x) != self._size and int(x.max()) < self._size
