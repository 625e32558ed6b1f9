"""Choices of experts, counted from what a router returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from taiyi_fx.passes.ir import CallArguments, State
from taiyi_fx.passes.structure import tensors_in
from taiyi_fx.reductions.rows import accumulated


class RoutingValue(NamedTuple):
    """Finished `Routing`.

    Attributes:
        chosen: The number of choices that each expert got; NaN if a logit was NaN.
        tokens: The number of tokens.
        taken: The number of choices that experts had room for, and the number of all choices, where
            the router says the first; else empty.
    """

    chosen: Tensor
    tokens: Tensor
    taken: Tensor


class _Routed(NamedTuple):
    """The choices in one result; ``taken`` and ``offered`` are known where the router drops any."""

    chosen: Tensor
    tokens: int
    taken: Tensor | None = None
    offered: int = 0


@dataclass(frozen=True)
class Routing:
    """Number of choices that each expert gets: those in what a router returns, else its top-k.

    Counts are exact. A router's result holds its choices as integers (indices of experts, or a mask
    as wide as the experts are many), as a dispatch of samples, tokens, experts and places; or it is
    logits or probabilities, the last axis the experts.

    Cost: a count of choices, or a top-k first

    Attributes:
        k: The number of experts for each token, where the result does not show it. None takes what
            the module says, else 1.
        experts: The number of experts, as far as the module says.
    """

    needs_experts = True

    k: int | None = None
    experts: int | None = None

    def __post_init__(self) -> None:
        if self.k is not None and self.k < 1:
            raise ValueError(f"k must be a number of at least 1, not {self.k!r}")

    def measure_call(self, call: CallArguments, result: Any) -> State:
        tensors = [x.detach() for x in tensors_in(result) if x.ndim]
        experts = self.experts or _width(tensors)
        logits = _logits(tensors, experts)
        found = _routed(tensors, logits, experts, self.k or 1)
        device = found.chosen.device
        tokens = torch.full((), found.tokens, dtype=torch.int64, device=device)
        broken = torch.zeros((), dtype=torch.int64, device=device)
        if logits is not None:
            broken = logits.isnan().sum()
        taken = torch.empty(0, dtype=torch.int64, device=device)
        if found.taken is not None:
            offered = torch.full((), found.offered, dtype=torch.int64, device=device)
            taken = torch.stack([found.taken.to(torch.int64), offered])
        return found.chosen, broken, tokens, taken

    def merge(self, a: State, b: State) -> State:
        return tuple(x + y for x, y in zip(a, b, strict=True))

    def scale(self, state: State, factor: float) -> State:
        return state  # what the loss was multiplied with chooses nothing

    def finish(self, state: State) -> RoutingValue:
        chosen, broken, tokens, taken = state
        return RoutingValue(torch.where(broken > 0, torch.nan, chosen.double()), tokens, taken)


def _width(tensors: Sequence[Tensor]) -> int:
    """The last axis of the first tensor of numbers, for a module that says no number of experts."""
    found = next((x for x in tensors if x.dtype.is_floating_point or x.dtype.is_complex), None)
    if found is None:
        raise ValueError("its output holds no logits or probabilities, and it says no num_experts")
    return found.shape[-1]


def _logits(tensors: Sequence[Tensor], experts: int) -> Tensor | None:
    """The logits: of several tensors that are as wide the last, as others may lack dropped ones."""
    found = [x for x in tensors if not _is_whole(x) and x.shape[-1] == experts]
    return accumulated(found[-1]) if found and not _dispatches(found[-1], experts) else None


def _routed(tensors: Sequence[Tensor], logits: Tensor | None, experts: int, k: int) -> _Routed:
    for x in tensors:
        if _is_whole(x) and _is_beside(x, logits, experts, k):
            if x.shape[-1] != experts or k == experts:
                return _Routed(_counts(x, experts), _rows(x if logits is None else logits))
            mask = x != 0
            if logits is None:
                return _Routed(_by_expert(mask), _rows(mask))
            return _Routed(_top(logits, k), _rows(mask), mask.sum(), k * _rows(mask))
    if logits is not None:
        return _Routed(_top(logits, k), _rows(logits))
    for x in tensors:
        if _dispatches(x, experts):
            mask = (x != 0).any(-1)
            return _Routed(_by_expert(mask), _rows(mask), mask.sum(), k * _rows(mask))
    raise ValueError(
        f"its output holds nothing for each of {experts} experts: ask for it of the router, whose "
        "output is the logits, probabilities or choices"
    )


def _is_whole(x: Tensor) -> bool:
    return not x.dtype.is_floating_point and not x.dtype.is_complex


def _dispatches(x: Tensor, experts: int) -> bool:
    """True for samples, tokens, experts and the places of each."""
    return not _is_whole(x) and x.ndim >= 4 and x.shape[-2] == experts


def _is_beside(x: Tensor, logits: Tensor | None, experts: int, k: int) -> bool:
    """True for integers that are choices of the tokens that logits are of."""
    if logits is None:
        return x.ndim > 1 and x.shape[-1] in (k, experts)
    lead = logits.shape[:-1]
    return x.shape == lead or (x.shape[:-1] == lead and x.shape[-1] <= experts)


def _counts(indices: Tensor, experts: int) -> Tensor:
    """The number of each index; one that is no expert's stands for no choice."""
    flat = indices.reshape(-1).to(torch.int64)
    is_one = (flat >= 0) & (flat < experts)
    counts = torch.zeros(experts + 1, dtype=torch.int64, device=flat.device)
    return counts.scatter_add(0, torch.where(is_one, flat, experts), is_one.long())[:experts]


def _top(logits: Tensor, k: int) -> Tensor:
    experts = logits.shape[-1]
    if k > experts:
        raise ValueError(f"k is {k}, but its output is of {experts} experts")
    return _counts(logits.topk(k, dim=-1).indices, experts)


def _by_expert(mask: Tensor) -> Tensor:
    return mask.reshape(-1, mask.shape[-1]).sum(0)


def _rows(of_tokens: Tensor) -> int:
    return of_tokens.numel() // max(1, of_tokens.shape[-1])
