"""A parameter with what its optimizer keeps of it, whole or in pieces."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from taiyi_fx.passes.probes.dtensor import is_spread

_ON_HOST, _ON_DEVICE = 2**16, 2**24
"""The elements of a piece: what is made of them stays in a core's cache, or takes little memory."""


class NoGradient(LookupError):
    """A step is made of the gradient, and none reached the parameter."""


class WideState(Mapping[str, Any]):
    """The state that an optimizer keeps of a parameter, its tensors wide enough to compute with.

    Half precision is float32 here, and a complex number is two real ones.
    """

    def __init__(self, state: Mapping[str, Any]) -> None:
        self._state = state

    def __getitem__(self, key: str) -> Any:
        value = self._state[key]
        if value is None:  # as SGD has it before its first step
            raise KeyError(key)
        return in_wide(value) if isinstance(value, Tensor) else value

    def __iter__(self) -> Iterator[str]:
        return iter(self._state)

    def __len__(self) -> int:
        return len(self._state)


class TrainedParameter:
    """A parameter as its optimizer has it at `Monitor.track`, before the step.

    Tensors are in float32 or wider, and a complex number is two real ones.

    Attributes:
        dtype: The type that the parameter is kept in.
        state: The optimizer's state of it, after the steps so far.
        group: The options of its parameter group, such as ``"lr"``.
    """

    def __init__(
        self,
        tensor: Tensor,
        gradient: Tensor | None,
        state: Mapping[str, Any],
        group: Mapping[str, Any],
        factor: float = 1.0,
    ) -> None:
        self.dtype = tensor.dtype
        self.state = WideState(state)
        self.group = group
        self._tensor = tensor.detach()
        self._gradient = gradient
        self._raw = state
        self._factor = factor

    @property
    def parameter(self) -> Tensor:
        """The parameter's numbers, in float32 or wider."""
        return in_wide(self._tensor)

    @property
    def gradient(self) -> Tensor:
        """The gradient of the true loss, whatever it was scaled with, as it is at ``track``."""
        if self._gradient is None:
            raise NoGradient("no gradient reached it")
        wide = in_wide(_dense(self._gradient))
        return wide if self._factor == 1 else wide * self._factor


def in_pieces(
    of: TrainedParameter, at_most: int | None = None
) -> Iterator[tuple[Tensor, TrainedParameter]]:
    """A parameter in pieces, each with its tensor in the type that it is kept in.

    Tensors of the state with as many elements as the parameter are cut as it is. What is small, or
    not in one piece of memory, comes whole.

    Args:
        of: The parameter.
        at_most: The number of leading elements that are wanted; by default all.
    """
    tensor, n = of._tensor, of._tensor.numel()
    size = _ON_HOST if tensor.is_cpu else _ON_DEVICE
    gradient = None if of._gradient is None else _dense(of._gradient)
    like = {k: v for k, v in of._raw.items() if isinstance(v, Tensor) and v.numel() == n and v.ndim}
    every = [tensor, *like.values(), *([] if gradient is None else [gradient])]
    if n <= size or any(is_spread(x) or not x.is_contiguous() for x in every):
        yield tensor, of
        return
    end = n if at_most is None else min(n, at_most)
    for at in range(0, end, size):

        def cut(x: Tensor, at: int = at) -> Tensor:
            return x.detach().view(-1)[at : min(at + size, end)]

        state = {**of._raw, **{k: cut(v) for k, v in like.items()}}
        piece = None if gradient is None else cut(gradient)
        part = cut(tensor)
        yield part, TrainedParameter(part, piece, state, of.group, of._factor)


def in_wide(x: Tensor) -> Tensor:
    """A tensor in float32 or wider, without gradient; complex numbers as two real ones."""
    x = x.detach()
    x = torch.view_as_real(x.resolve_conj()) if x.is_complex() else x
    return x if x.dtype in (torch.float32, torch.float64) else x.to(torch.float32)


def _dense(x: Tensor) -> Tensor:
    return x if x.layout == torch.strided else x.to_dense()
