"""The hash of a tensor's bits: whole numbers, the same however a tensor lies or is split."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import taiyi_fx
from taiyi_fx.reductions import Fingerprint, fingerprint
from taiyi_fx.reductions.fingerprints import _BLOCK
from tests.quantities.references.fingerprints import whole

DTYPES = [
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn,
    torch.float8_e5m2, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool,
]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10_000), st.lists(st.integers(0, 5), max_size=3))
def test_it_is_that_of_whole_numbers_of_python(dtype, seed, shape):
    x = (100 * torch.randn(shape, generator=torch.Generator().manual_seed(seed))).to(dtype)
    assert taiyi_fx.fingerprint(x) == whole(x)


@pytest.mark.parametrize(
    "n", [_BLOCK + 1, *(pytest.param(n, marks=pytest.mark.slow) for n in (_BLOCK, 2 * _BLOCK + 77))]
)
def test_blocks_of_a_large_tensor_are_one_after_the_other(n):
    x = torch.randn(n)
    assert fingerprint(x) == whole(x)


def test_no_difference_of_bits_is_too_small():
    x = torch.tensor([1.0, 0.0, torch.nan, 2.0])
    others = [
        torch.tensor([1.0, -0.0, torch.nan, 2.0]),
        torch.tensor([1.0, 0.0, torch.inf, 2.0]),
        torch.tensor([1.0, 0.0, torch.nan, 2.0 + 2**-22]),
        torch.tensor([0.0, 1.0, torch.nan, 2.0]),
        torch.tensor([1.0, 0.0, torch.nan]),
        torch.tensor([1.0, 0.0, torch.nan, 2.0, 0.0]),
    ]
    assert len({fingerprint(t) for t in (x, *others)}) == 7
    assert fingerprint(x.clone()) == fingerprint(x)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.int8])
def test_each_bit_of_each_element_counts_as_does_each_exchange(dtype):
    size = torch.empty((), dtype=dtype).element_size()
    kind = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[size]
    x = torch.arange(24).to(dtype)
    found = [fingerprint(x)]
    for i in range(24):
        for bit in range(8 * size):
            flipped = x.clone().view(kind)
            flipped[i] ^= torch.tensor(1, dtype=torch.int64).bitwise_left_shift(bit).to(kind)
            found.append(fingerprint(flipped))
        for j in range(i):
            order = torch.arange(24)
            order[[i, j]] = order[[j, i]]
            found.append(fingerprint(x[order]))
    assert len(set(found)) == len(found)


def test_signs_that_all_flip_are_seen_in_float64():
    """Their bits differ at the top alone, where plain products of odd numbers cancel in pairs."""
    x = torch.ones(64, dtype=torch.float64)
    masks = [torch.where(torch.arange(64) % k == 0, -x, x) for k in range(1, 33)]
    assert len({fingerprint(m) for m in (x, *masks)}) == 33


def test_it_does_not_depend_on_how_a_tensor_lies_in_memory():
    x = torch.randn(3, 4, 5, 6)
    assert fingerprint(x.contiguous(memory_format=torch.channels_last)) == fingerprint(x)
    assert fingerprint(x.transpose(1, 2)) == fingerprint(x.transpose(1, 2).contiguous())
    assert fingerprint(torch.randn(1).expand(5)[:0]) == fingerprint(torch.zeros(0)) == 0
    z = torch.randn(4, dtype=torch.complex64)
    assert fingerprint(z.conj()) == fingerprint(z.conj().resolve_conj()) != fingerprint(z)
    assert fingerprint(z.conj().imag) == fingerprint(-z.imag)
    assert fingerprint(z) == fingerprint(torch.view_as_real(z))


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10_000), st.lists(st.integers(0, 300), min_size=3, max_size=3))
def test_pieces_merge_to_the_whole_in_their_order(seed, sizes):
    x = torch.randn(sum(sizes), generator=torch.Generator().manual_seed(seed))
    reduction = Fingerprint()
    a, b, c = (reduction.measure(part) for part in x.split(sizes))
    expected = [float(half) for half in reduction.finish(reduction.measure(x))]
    for merged in (
        reduction.merge(reduction.merge(a, b), c),
        reduction.merge(a, reduction.merge(b, c)),
    ):
        assert [float(half) for half in reduction.finish(merged)] == expected


def test_halves_are_the_whole():
    x = torch.randn(100)
    high, low = (int(half) for half in Fingerprint().finish(Fingerprint().measure(x)))
    assert (high << 32) + low == fingerprint(x)


@pytest.mark.parametrize("given", [None, 1.0, torch.eye(2).to_sparse(), torch.empty(2, device="meta")])  # fmt: skip
def test_what_has_no_elements_in_memory_is_refused(given):
    with pytest.raises(TypeError, match="give a dense tensor that is in memory, not "):
        taiyi_fx.fingerprint(given)


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
def test_a_quantized_tensor_is_refused_and_its_whole_numbers_are_not():
    x = torch.quantize_per_tensor(torch.randn(3, 4), 0.1, 0, torch.qint8)
    with pytest.raises(TypeError, match="a quantized tensor has no fingerprint: take that of its"):
        fingerprint(x)
    assert fingerprint(x.int_repr()) == fingerprint(x.int_repr().clone())
    watched = taiyi_fx.instrument(nn.Sequential(nn.Identity()), {"0": ["Fingerprint"]})
    watched(x)
    with pytest.warns(taiyi_fx.MonitorWarning, match="a quantized tensor has no fingerprint"):
        watched.monitor.track(0)
