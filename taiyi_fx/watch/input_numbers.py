"""Numbers of the inputs of one forward, found on the device and without waiting for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Generic, TypeVar

import torch
from torch import Tensor

from taiyi_fx.findings import Distribution, FarEntry, Interleaving, Repeats, ShownTokens
from taiyi_fx.reductions.sums import wide

_T = TypeVar("_T")

_MOST = 1_000_000
"""Elements of an input that are looked at."""
_ROWS, _ENTRIES = 32, 4096
"""Samples of a table by which the spread of an entry is known, and its largest width."""
_PAIRS = 16
"""Samples fewer than which may be repeated by chance."""
_MANY = 4096
"""And more than which are not counted."""
_CHANNELS = 64
"""Channels more than which are features."""
_RUN = 4
"""Places of one channel, in channels, below which it has no order."""


class Look(Generic[_T]):
    """The result of one look at an input, on its device until it is asked for.

    Args:
        numbers: Its numbers, in one tensor.
        meaning: Makes the fact of them, in their order.
    """

    def __init__(self, numbers: Tensor, meaning: Callable[..., _T]) -> None:
        self._numbers, self._meaning = numbers, meaning

    def read(self) -> _T:
        """The fact; the first time the host waits for the device."""
        self._numbers = self._numbers.cpu()
        return self._meaning(*self._numbers.tolist())


def distribution(value: Tensor) -> Look[Distribution]:
    """The mean and the deviation of an input."""
    variance, mean = torch.var_mean(_first(value).float(), correction=0)
    epsilon = torch.finfo(value.dtype).eps
    return Look(torch.stack([mean, variance.sqrt()]), partial(Distribution, epsilon=epsilon))


def furthest(table: Tensor) -> Look[FarEntry] | None:
    """The entry of a table that is the furthest from all others in several samples.

    Of each entry the samples that have its least value, or its largest, are put beside all others:
    of these the spread is taken. None of what is no table.
    """
    if table.ndim != 2 or table.shape[1] > _ENTRIES or len(table) < _ROWS:
        return None
    table = _first(table).to(wide(table.device))
    sides = torch.stack([table, -table])  # the least of the second is the largest
    ends = sides.amin(1)
    has_it = sides == ends[:, None]
    count, rows = has_it.sum(1), len(table)
    others = sides.masked_fill(has_it, 0)
    left = (rows - count).clamp(min=1)
    mean = others.sum(1) / left
    squares = (others - mean[:, None]).masked_fill(has_it, 0).square().sum(1)
    gap = sides.masked_fill(has_it, torch.inf).amin(1) - ends
    distance = gap / (squares / left).sqrt()
    is_some = (count > 1) & (2 * count <= rows) & (squares > 0) & distance.isfinite()
    distance = distance.where(is_some, 0)
    furthest = distance.flatten().argmax()
    side, entry = furthest // table.shape[1], furthest % table.shape[1]
    value = ends[side, entry] * (1 - 2 * side)
    numbers = torch.stack([entry, value, count[side, entry] / rows, distance[side, entry]])
    return Look(numbers, _far_entry)


def _far_entry(entry: float, *numbers: float) -> FarEntry:
    return FarEntry(int(entry), *numbers)


def repeats(values: Sequence[Tensor]) -> Look[Repeats] | None:
    """The copies among the samples of a batch, by one number for each sample made of its bits.

    None where its samples are few or very many, or one of the inputs has no entry for each.

    Args:
        values: All inputs of one forward.
    """
    samples = len(values[0])
    if not _PAIRS <= samples <= _MANY or any(len(value) != samples for value in values):
        return None
    codes = torch.zeros(samples, dtype=torch.int64, device=values[0].device)
    is_continuous = codes.bool()
    for i, value in enumerate(values):
        rows = _real(value).reshape(samples, -1)
        rows = rows[:, :: max(1, rows.numel() // _MOST)]
        codes = codes + _codes(rows, i)
        if value.is_floating_point():
            numbers = rows.float()
            is_continuous |= 2 * (numbers != numbers.round()).sum(1) >= rows.shape[1]
    half = samples // 2
    is_doubled = (codes[:half] == codes[half : 2 * half]).all()
    is_doubled |= (codes[: 2 * half : 2] == codes[1 : 2 * half : 2]).all()
    numbers = torch.cat([torch.stack([is_continuous.sum(), is_doubled.long()]), codes])
    return Look(numbers, _repeats)


def _repeats(continuous: int, is_doubled: int, *codes: int) -> Repeats:
    different = frozenset(codes)
    return Repeats(len(codes), len(different), continuous, bool(is_doubled), different)


def _real(value: Tensor) -> Tensor:
    """The numbers as memory has them: a complex one is two, and none is to be turned round."""
    value = value.resolve_conj().resolve_neg()
    return torch.view_as_real(value) if value.is_complex() else value


def _codes(rows: Tensor, salt: int) -> Tensor:
    """One integer for each row: equal for rows of equal bits, whatever their order is summed in."""
    bits = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    weights = torch.arange(1, rows.shape[1] + 1, device=rows.device) + (salt << 40)
    weights = weights * 0x1E3779B97F4A7C15  # products of integers that wrap, as hashes have them
    weights = (weights ^ (weights >> 29)) * 0x3F58476D1CE4E5B9
    return (rows.view(bits[rows.element_size()]).long() * (weights | 1)).sum(1)


def interleaving(value: Tensor) -> Look[Interleaving] | None:
    """How much the numbers of images and signals differ from those near them in memory.

    None of what has one channel, very many, or few places in each.
    """
    if value.ndim not in (3, 4) or not 1 < value.shape[1] <= _CHANNELS:
        return None
    shape = tuple(value.shape[1:])
    channels, places = shape[0], prod(shape[1:])
    if places < _RUN * channels:
        return None
    flat = _first(value).float().reshape(-1, channels * places)
    far = flat[:, channels:] - flat[:, :-channels]
    starts = torch.arange(1, channels, device=value.device)[:, None] * places
    across = far[:, (starts - 1 - torch.arange(channels, device=value.device)).flatten()]
    sizes = [x.square().mean().sqrt() for x in (flat.diff(dim=1), far, across)]
    return Look(torch.stack(sizes), partial(Interleaving, shape))


def shown_tokens(tokens: Tensor, mask: Tensor) -> Look[ShownTokens] | None:
    """The tokens that a mask of 0 and 1, or of truth values, shows; None of other shapes."""
    if tokens.shape != mask.shape or tokens.is_floating_point() or not tokens.numel():
        return None
    shown, tokens = mask != 0, tokens.to(wide(tokens.device))
    is_other = (shown & (mask != 1)).any()
    ends = [
        end
        for part in (shown, ~shown)
        for end in (
            tokens.where(part, torch.inf).amin(),
            tokens.where(part, -torch.inf).amax(),
        )
    ]
    counts = [count.to(tokens.dtype) for count in (is_other, shown.sum(), (~shown).sum())]
    return Look(torch.stack([*counts, *ends]), _shown_tokens)


def _shown_tokens(is_other: float, *numbers: float) -> ShownTokens:
    shown, hidden, least, most, least_hidden, most_hidden = numbers
    if is_other:
        return ShownTokens(0, 0, None, False)
    token = int(least) if least == most else None
    return ShownTokens(int(shown), int(hidden), token, least_hidden < most_hidden)


def _first(value: Tensor) -> Tensor:
    """As many samples as are looked at."""
    if value.ndim < 2:
        return value[:_MOST]
    return value[: max(1, _MOST // max(1, value[0].numel()))]
