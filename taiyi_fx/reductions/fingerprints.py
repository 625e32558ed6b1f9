"""A hash of a tensor's bits and of their places: equal tensors have one, on every device."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from taiyi_fx.passes.ir import State
from taiyi_fx.passes.probes.compiling import is_compiling
from taiyi_fx.reductions.rows import count

_BLOCK = 2**16
_HALF = 2**32 - 1
_BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def _signed(number: int) -> int:
    """The number of 64 bits that is equal modulo 2^64."""
    return (number + 2**63) % 2**64 - 2**63


# Odd, so that a product with one modulo 2^64 loses nothing. `_BASE` is 5 modulo 8, by which its
# powers repeat after 2^62 and no sooner.
_BASE = 0x9E3779B97F4A7C15
_FIRST = _signed(0xBF58476D1CE4E5B9)
_SECOND = _signed(0x94D049BB133111EB)


class FingerprintValue(NamedTuple):
    """Finished `Fingerprint`: the upper and the lower 32 bits, each exact as a float64."""

    high: Tensor
    low: Tensor


@dataclass(frozen=True)
class Fingerprint:
    """A hash of 64 bits, in two halves: sum over i of mix(bits_i) b^(i+1) modulo 2^64.

    ``b`` is odd and ``mix`` takes no two patterns to one, so that a change of one element always
    changes it, and an exchange of two all but certainly. Integers add up to the same in any order,
    on any device. The hash of two pieces one after the other is H(a) + b^len(a) H(b).

    A factor, as that of a loss scale, is not taken off: the bits are those that flow.

    Cost: about 25 passes, on the CPU: some eight operations on integers of 64 bits
    """

    takes_whole: ClassVar[bool] = True

    def measure(self, x: Tensor) -> State:
        bits = _bits(x)
        return *_halves(_hash(bits)), count(bits.numel(), x)

    def merge(self, a: State, b: State) -> State:
        joined = _joined(a) + _power(a[2]) * _joined(b)
        return *_halves(joined), a[2] + b[2]

    def scale(self, state: State, factor: float) -> State:
        return state

    def finish(self, state: State) -> FingerprintValue:
        return FingerprintValue(state[0].double(), state[1].double())


def fingerprint(x: Tensor) -> int:
    """The hash of a tensor's bits and of their places, as `Fingerprint` records it in two halves.

    Args:
        x: A dense tensor of any shape and type, on any device. Its shape does not count.

    Returns:
        A number from 0 to 2^64 - 1.

    Raises:
        TypeError: It is no tensor, or one whose elements do not lie in memory one by one.
    """
    if not isinstance(x, Tensor) or x.layout is not torch.strided or x.is_meta or x.is_nested:
        kind = type(x).__name__ if not isinstance(x, Tensor) else f"one of {x.layout} on {x.device}"
        raise TypeError(f"give a dense tensor that is in memory, not {kind}")
    high, low, _ = Fingerprint().measure(x.detach())
    return (int(high) << 32) | int(low)


def _bits(x: Tensor) -> Tensor:
    """The elements as integers of their own size, in order.

    Raises:
        TypeError: The tensor is quantized.
    """
    if x.is_quantized:  # torch's view ends the process
        raise TypeError("a quantized tensor has no fingerprint: take that of its int_repr()")
    if x.is_complex():
        x = torch.view_as_real(x.resolve_conj())
    return x.resolve_neg().contiguous().reshape(-1).view(_BITS[x.element_size()])


def _hash(bits: Tensor) -> Tensor:
    powers = _powers(
        min(bits.shape[0], _BLOCK) if not is_compiling() else bits.shape[0], bits.device
    )
    if is_compiling() or bits.shape[0] <= _BLOCK:
        return (_mixed(bits) * powers).sum()
    total = torch.zeros((), dtype=torch.int64, device=bits.device)
    for i, block in enumerate(bits.split(_BLOCK)):  # small enough to stay in a cache
        own = (_mixed(block) * powers[: block.shape[0]]).sum()
        total += own * _signed(pow(_BASE, i * _BLOCK, 2**64))
    return total


def _mixed(bits: Tensor) -> Tensor:
    # Products carry upwards only: the upper half, which tells most of a number, goes below first.
    is_wide = bits.dtype is torch.int64
    found = _folded(bits) if is_wide else bits.to(torch.int64)
    found = found.add_(_FIRST).mul_(_FIRST)  # so that zeros count, of which tensors are full
    return _folded(found).mul_(_SECOND)


def _folded(bits: Tensor) -> Tensor:
    return bits ^ ((bits >> 32) & _HALF)


def _powers(n: int, device: torch.device) -> Tensor:
    return torch.full((n,), _signed(_BASE), device=device).cumprod(0)


def _power(n: Tensor) -> Tensor:
    """The base to the power of a number in a tensor."""
    squares = torch.tensor(_squares(), device=n.device)
    is_set = (n >> torch.arange(len(squares), device=n.device)) & 1
    return torch.where(is_set.bool(), squares, 1).prod()


@functools.cache
def _squares() -> tuple[int, ...]:
    return tuple(_signed(pow(_BASE, 2**k, 2**64)) for k in range(48))


def _halves(found: Tensor) -> tuple[Tensor, Tensor]:
    return (found >> 32) & _HALF, found & _HALF


def _joined(state: State) -> Tensor:
    high, low = state[0].to(torch.int64), state[1].to(torch.int64)
    return (high << 32) | low
