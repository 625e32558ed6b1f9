"""Modules that are not finite now."""

import pytest
import torch
from torch import nn

from taiyi_fx.findings import NotFinite, not_finite_of

NAN, INF = float("nan"), float("inf")


def model():
    return nn.ModuleDict({"a": nn.Linear(2, 2), "b": nn.BatchNorm1d(2), "c": nn.BatchNorm1d(2)})


def seen(of):
    return not_finite_of(dict(of.named_modules()))


def test_a_model_that_is_well_has_finite_buffers_alone():
    assert seen(model()) == NotFinite(finite_buffers=("b", "c"))


@pytest.mark.parametrize("value", [NAN, INF, -INF])
def test_parameters_and_buffers_are_told_apart(value):
    odd = model()
    with torch.no_grad():
        odd["a"].bias[1] = value
        odd["c"].running_var[0] = value
    assert seen(odd) == NotFinite(("a",), ("c",), ("b",))


def test_numbers_of_any_format_and_size_are_looked_at_and_others_passed_over():
    odd = nn.Module()
    odd.register_buffer("count", torch.tensor(3))
    odd.register_buffer("empty", torch.zeros(0))
    odd.register_buffer("large", torch.full((3,), 6e4, dtype=torch.float16))
    odd.register_buffer("abstract", torch.zeros(2, device="meta"))
    odd.register_parameter("narrow", nn.Parameter(torch.tensor([1.0, NAN]).bfloat16()))
    odd.register_parameter("none", None)
    assert seen(odd) == NotFinite(("",), (), ("",))
