"""Counts of magnitudes in bins of powers of two: histograms, quantiles and what a format loses.

A bin is a float32's exponent. Counting them is exact, needs no range known beforehand, adds over
micro-batches and ranks, and a loss scale, which is a power of two, only shifts it.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple, get_args

import torch
from torch import Tensor

from taiyi_fx.passes.ir import State
from taiyi_fx.passes.probes.compiling import is_compiling
from taiyi_fx.reductions.rows import accumulated, are_nan, copied, count, on_device
from taiyi_fx.reductions.sums import is_fast, pieces

Format = Literal["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"]

_LARGEST_FRACTIONS = {
    name: struct.unpack("<I", struct.pack("<f", torch.finfo(getattr(torch, name)).max))[0]
    & 0x7FFFFF
    for name in get_args(Format)
}
"""The fraction bits of each format's largest number."""
_EXPONENTS = 255
"""Exponents of finite float32 numbers as they are stored: 0 is subnormal, e is 2^(e - 127)."""
_ZERO = 1 + _EXPONENTS
BINS = 2 * _EXPONENTS + 4
_HALVED_BINS = 2 * _EXPONENTS + 3


def histogram_edges() -> Tensor:
    """The 512 values in ascending order between which the finite bins of a histogram lie.

    A histogram's first entry counts -Inf, entry 1 + i values between edges i and i + 1, the
    last but one +Inf and the last NaN. Entry 256 is that of zero alone, between two edges 0.
    """
    powers = 2.0 ** torch.arange(-126, 129, dtype=torch.float64)
    zero = powers.new_zeros(1)
    return torch.cat([-powers.flip(0), zero, zero, powers])


@dataclass(frozen=True)
class Histogram:
    """Counts of signed elements by powers of two, as a vector of 514 integers.

    In ascending order: -Inf, negative bins, zero, positive bins, +Inf and NaN; see
    `histogram_edges`. Numbers below 2^-126 share one bin. Counts are exact; a loss scale that is
    no power of two is rounded to one.

    Cost: ten passes, most of them torch's own count
    """

    is_over_elements: ClassVar[bool] = True

    def measure(self, x: Tensor) -> State:
        x = _as_float32(x).reshape(-1)
        if not is_fast(x):
            return (_counts(_signed_bins(x), BINS),)
        counts = torch.zeros(BINS, dtype=torch.int64)
        for piece in pieces(x):
            counts += _histogram_of(piece)
        return (counts,)

    def merge(self, a: State, b: State) -> State:
        return (a[0] + b[0],)

    def scale(self, state: State, factor: float) -> State:
        counts, shift = state[0], _shift_of(factor)
        negative, positive = counts[1:_ZERO].flip(0), counts[_ZERO + 1 : -2]
        moved = [_shifted(part.unsqueeze(1), shift).squeeze(1) for part in (negative, positive)]
        parts = [counts[:1], moved[0].flip(0), counts[_ZERO : _ZERO + 1], moved[1], counts[-2:]]
        return (torch.cat(parts),)

    def finish(self, state: State) -> Tensor:
        return state[0]


class QuantilesValue(NamedTuple):
    """Finished `Quantiles`: the number of elements, and one value for each share asked for."""

    n: Tensor
    values: Tensor
    q: tuple[float, ...]


@dataclass(frozen=True)
class Quantiles:
    """Values below which given shares of the elements lie; NaN if an element is NaN.

    From a histogram by powers of two: within a factor of two, linear inside the bin. Or, with
    ``exact``, from all elements, which are then kept until ``track``.

    Cost: ten passes, most of them torch's own count, or a copy where exact

    Attributes:
        q: The shares, from 0 to 1.
        exact: True to keep all elements.
    """

    q: tuple[float, ...] = (0.05, 0.25, 0.5, 0.75, 0.95)
    exact: bool = False

    is_over_elements: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not self.q or not all(0 <= share <= 1 for share in self.q):
            raise ValueError(f"q holds shares from 0 to 1, not {self.q!r}")

    @property
    def has_fixed_shape(self) -> bool:
        """True if the state is a histogram."""
        return not self.exact

    def measure(self, x: Tensor) -> State:
        if self.exact:
            return (copied(accumulated(x).reshape(-1)),)
        return Histogram().measure(x)

    def merge(self, a: State, b: State) -> State:
        return (torch.cat([a[0], b[0]]),) if self.exact else Histogram().merge(a, b)

    def scale(self, state: State, factor: float) -> State:
        return (state[0] * factor,) if self.exact else Histogram().scale(state, factor)

    def finish(self, state: State) -> QuantilesValue:
        of_state = _of_elements if self.exact else _of_histogram
        shares = on_device(self.q, state[0].device, torch.float64)
        n = count(len(state[0]), state[0]) if self.exact else state[0].sum()
        return QuantilesValue(n, of_state(state[0], shares), self.q)


class OutOfRangeValue(NamedTuple):
    """Finished `OutOfRange`: numbers of elements that are not zero, too small, too large, and NaN.

    NaN is none of the others; Inf is not zero and too large.
    """

    n: Tensor
    below: Tensor
    above: Tensor
    nan: Tensor


@dataclass(frozen=True)
class OutOfRange:
    """Number of non-zero elements that a format cannot hold at full precision, or at all.

    Counts are exact, also of gradients of a loss that was scaled by a power of two.

    Cost: fifteen passes, a third of them torch's own count

    Attributes:
        format: The format.
        loss_scaled: Count gradients as they flow, multiplied with the loss scale.
    """

    format: Format = "float16"
    loss_scaled: bool = False

    is_over_elements: ClassVar[bool] = True

    def measure(self, x: Tensor) -> State:
        x, fraction = _as_float32(x).reshape(-1), _LARGEST_FRACTIONS[self.format]
        if not is_fast(x):
            return (_counts(_halved_bins(x, fraction), _HALVED_BINS),)
        counts = torch.zeros(_HALVED_BINS, dtype=torch.int64)
        for piece in pieces(x):
            counts += _halved_of(piece, fraction)
        return (counts,)

    def merge(self, a: State, b: State) -> State:
        return (a[0] + b[0],)

    def scale(self, state: State, factor: float) -> State:
        if self.loss_scaled:
            return state
        finite, rest = state[0][:-3], state[0][-3:]
        moved = _shifted(finite.view(_EXPONENTS, 2), _shift_of(factor))
        return (torch.cat([moved.reshape(-1), rest]),)

    def finish(self, state: State) -> OutOfRangeValue:
        counts, nan = state[0][:-2], state[0][-1]
        bounds = torch.finfo(getattr(torch, self.format))
        smallest = 2 * (round(math.log2(bounds.smallest_normal)) + 127)
        largest = 2 * (math.floor(math.log2(bounds.max)) + 127) + 1
        return OutOfRangeValue(counts.sum(), counts[:smallest].sum(), counts[largest:].sum(), nan)


def _as_float32(x: Tensor) -> Tensor:
    """``x`` in float32, float64 on the same side of every power of two and of a format's largest.

    Rounded to odd: towards zero, with the last bit set where something is lost. All bounds have an
    even one. What float64 holds beyond the range of float32 is put to its ends.
    """
    x = accumulated(x).contiguous()
    if x.dtype == torch.float32:
        return x
    ends = torch.finfo(torch.float32)
    x = torch.where(x.isinf(), x, x.clamp(ends.min, ends.max))
    nearest = x.to(torch.float32)
    back = nearest.double()
    towards_zero = nearest.view(torch.int32) - (back.abs() > x.abs()).to(torch.int32)
    return (towards_zero | (back != x).to(torch.int32)).view(torch.float32)


def _signed_bins(x: Tensor) -> Tensor:
    """The bin of a histogram that each element belongs to."""
    top = x.view(torch.int32) >> 23
    exponent = top & 0xFF
    index = torch.where(top < 0, _ZERO - 1 - exponent, _ZERO + 1 + exponent)
    index = torch.where(x == 0, _ZERO, index)
    return torch.where(are_nan(x), BINS - 1, index)


def _histogram_of(x: Tensor) -> Tensor:
    """The histogram of a piece, by a single look at each element where nothing is special."""
    if math.isfinite(x.sum()):
        # Sign and exponent are the upper bits: the negative from -256, the positive from 0.
        top = (x.view(torch.int32) >> 23).add_(256)
        negative, positive = torch.bincount(top, minlength=512).split(256)
        zeros = int(negative[0] + positive[0])  # or they are subnormal
        if not zeros or not x.count_nonzero() + zeros - len(x):
            negative[0] = positive[0] = 0
            middle, nan = negative.new_tensor([zeros]), negative.new_zeros(1)
            return torch.cat([negative.flip(0), middle, positive, nan])
    return torch.bincount(_signed_bins(x), minlength=BINS)


def _halved_bins(x: Tensor, fraction: int) -> Tensor:
    """Two bins for each power of two: up to the largest number's fraction, and beyond."""
    bits = x.view(torch.int32)
    index = 2 * ((bits >> 23) & 0xFF) + ((bits & 0x7FFFFF) > fraction)
    # At the end Inf (exponent 255), zero and NaN.
    index = torch.where(x == 0, _HALVED_BINS - 2, index)
    return torch.where(are_nan(x), _HALVED_BINS - 1, index)


def _halved_of(x: Tensor, fraction: int) -> Tensor:
    """The counts of a piece in these bins."""
    if not math.isfinite(x.sum()):
        return torch.bincount(_halved_bins(x, fraction), minlength=_HALVED_BINS)
    bits = x.abs().view(torch.int32)
    exponent = bits >> 23
    # What is beyond the fraction carries into the exponent.
    carried = bits.add_(0x7FFFFF - fraction).bitwise_right_shift_(23)
    counts = torch.bincount(carried.add_(exponent), minlength=_HALVED_BINS)
    if counts[0]:  # zeros, or they are subnormal
        zeros = len(x) - x.count_nonzero()
        counts[0] -= zeros
        counts[-2] += zeros
    return counts


def _counts(index: Tensor, bins: int) -> Tensor:
    if index.device.type == "cpu" and not is_compiling():
        return torch.bincount(index, minlength=bins)
    # Elsewhere bincount waits for the device, and its shape depends on the data.
    index = index.to(torch.int64)
    zeros = torch.zeros(bins, dtype=torch.int64, device=index.device)
    return zeros.scatter_add(0, index, torch.ones_like(index))


def _shift_of(factor: float) -> int:
    return round(math.log2(abs(factor))) if factor else -_EXPONENTS


def _shifted(by_exponent: Tensor, shift: int) -> Tensor:
    """Counts with their first axis moved by whole powers of two; the ends take what falls off."""
    n = len(by_exponent)
    index = (torch.arange(n, device=by_exponent.device) + shift).clamp(0, n - 1)
    return torch.zeros_like(by_exponent).index_add(0, index, by_exponent)


def _of_elements(x: Tensor, q: Tensor) -> Tensor:
    if len(x) == 0:
        return torch.full_like(q, torch.nan)
    ordered = x.sort().values.double()
    values = _between(q * (len(x) - 1), lambda rank: ordered[rank.long()])
    return torch.where(x.isnan().any(), torch.nan, values)


def _of_histogram(counts: Tensor, q: Tensor) -> Tensor:
    edges = histogram_edges().to(counts.device)
    inf = edges.new_full((1,), torch.inf)
    edges = torch.cat([-inf, edges, inf])  # the bins of the infinities lie between infinities
    per_bin, broken = counts[:-1], counts[-1] > 0
    up_to = per_bin.cumsum(0)
    n = up_to[-1]

    def value(rank: Tensor) -> Tensor:
        found = torch.searchsorted(up_to, rank, right=True).clamp(max=len(per_bin) - 1)
        inside = (rank - (up_to - per_bin)[found] + 0.5) / per_bin[found].clamp(min=1)
        low, high = edges[found], edges[found + 1]
        is_last, is_first = found == len(per_bin) - 1, found == 0
        finite = low + (high - low) * inside
        return torch.where(is_last, torch.inf, torch.where(is_first, -torch.inf, finite))

    values = _between(q * (n - 1).clamp(min=0), value)
    return torch.where(broken | (n == 0), torch.nan, values)


def _between(at: Tensor, value: Callable[[Tensor], Tensor]) -> Tensor:
    """Values at ranks counted from 0, linear between two."""
    low, high, share = value(at.floor()), value(at.ceil()), at - at.floor()
    # Two equal infinities have no value between them but themselves.
    return torch.where(low == high, low, low * (1 - share) + high * share)
