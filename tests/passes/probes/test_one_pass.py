"""What one pass tells serves each reduction as its own measurement does."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch._subclasses import FakeTensorMode
from torch.testing._internal.two_tensor import TwoTensor

from taiyi_fx.passes.ir import Elements
from taiyi_fx.passes.probes.one_pass import _is_in_memory, elements_of, in_memory_order
from taiyi_fx.reductions import AbsMax, NonFinites, Norm, SquareSum, Summary
from taiyi_fx.testing import tensors

SHAPES = st.sampled_from([(1,), (3, 5), (2, 1024), (2, 3, 5, 17)])
drawn = tensors(SHAPES, scales=(1.0, 1e3, 1e-3))


def told_of(x):
    """What the kernel would tell, by torch in float64."""
    x = x.double()
    kept = x[x.isfinite()]
    most = kept.abs().amax() if kept.numel() else x.new_zeros(())
    sizes = [x.norm(), x.square().sum(), x.abs().amax(), kept.sum(), kept.norm(), most]
    counts = torch.tensor([kept.numel(), x.isnan().sum(), x.numel() - kept.numel()])
    return Elements(torch.cat([torch.stack(sizes), counts.view(torch.float64)]))


@pytest.mark.parametrize("reduction", [Norm(), SquareSum(), AbsMax(), NonFinites(), Summary()])
@given(drawn)
def test_each_reduction_takes_its_part(reduction, recipe):
    x = recipe.make().double()  # of float32 sums are right to 1e-5
    found = reduction.of_elements(told_of(x))
    expected = reduction.measure(x)
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        allowed = 1e-12 * float(x.abs().nan_to_num(0, 0, 0).sum())
        torch.testing.assert_close(a.double(), b.double(), rtol=1e-12, atol=allowed, equal_nan=True)


def test_there_is_none_of_a_tensor_on_the_host():
    assert elements_of(torch.randn(3)) is None


def test_rows_are_those_of_memory():
    x = torch.randn(2, 8, 16, 16).to(memory_format=torch.channels_last)
    assert in_memory_order(x).reshape(-1).data_ptr() == x.data_ptr()


def fake():
    with FakeTensorMode():
        return torch.randn(3)


def freed():
    x = torch.randn(3)
    x.untyped_storage().resize_(0)
    return x


@pytest.mark.filterwarnings("ignore:.*nested tensors")
@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: torch.randn(3, 4).t(), True),
        (lambda: nn.Parameter(torch.randn(3)), True),
        (lambda: TwoTensor(torch.randn(2), torch.randn(2)), False),
        (lambda: torch.eye(3).to_sparse(), False),
        (lambda: torch._efficientzerotensor(3), False),
        (lambda: torch.nested.nested_tensor([torch.randn(2)], layout=torch.jagged), False),
        (lambda: torch.zeros(0), False),
        (fake, False),
        (freed, False),
    ],
)
def test_what_has_no_elements_at_its_address_is_not_read_there(make, expected):
    assert _is_in_memory(make()) == expected
