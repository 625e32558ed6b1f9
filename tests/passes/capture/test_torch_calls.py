"""Torch's functions that a graph may call."""

import math
import operator

import pytest
import torch
import torch.nn.functional as F

from taiyi_fx.passes.capture.torch_calls import makes_new_tensor, takes_what_flows


@pytest.mark.parametrize(
    "function",
    [torch.add, F.gelu, F.relu_, torch.cat, F.scaled_dot_product_attention, operator.matmul, len,
     torch.rand_like, math.sqrt, torch.Tensor.mul, operator.getitem],
)  # fmt: skip
def test_what_computes_may_be_called(function):
    assert takes_what_flows(function)


@pytest.mark.parametrize(
    "function",
    [torch.is_tensor, torch.equal, torch.is_grad_enabled, torch.manual_seed, torch.save, print,
     torch.Tensor.set_, torch.Tensor.backward, torch.Tensor.item, torch.no_grad, sorted,
     torch.Tensor.register_hook, torch.resize_as_],
)  # fmt: skip
def test_what_asks_or_changes_something_else_may_not(function):
    assert not takes_what_flows(function)


def test_a_function_that_was_replaced_is_not_torchs(monkeypatch):
    def mine(x):
        return x

    assert takes_what_flows(F.gelu)
    monkeypatch.setattr(F, "gelu", mine)
    assert not takes_what_flows(F.gelu)


def test_new_tensors_are_made_by_what_draws_no_numbers():
    assert makes_new_tensor(torch.ones)
    assert makes_new_tensor(torch.arange)
    assert not makes_new_tensor(torch.randn)
    assert not makes_new_tensor(torch.from_numpy)
