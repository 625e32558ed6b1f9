"""Heads that a module says, and the functions that attend in it."""

from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from taiyi_fx.quantities.heads import ATTENTION, heads_of


class OwnAttention(nn.Module):
    pass


class Router(nn.Module):
    pass


def having(kind, **attributes):
    made = kind()
    vars(made).update(attributes)
    return made


@pytest.mark.parametrize(
    ("module", "heads"),
    [
        (nn.MultiheadAttention(8, 4), 4),
        (having(Router, n_heads=3), 3),
        (having(OwnAttention, config=SimpleNamespace(num_attention_heads=2)), 2),
        (having(Router, config=SimpleNamespace(num_attention_heads=2)), None),
        (having(Router, heads=True), None),
        (having(Router, num_heads=[2, 4]), None),
        (having(Router, num_heads=0), None),
        (nn.Linear(2, 2), None),
    ],
)
def test_the_number_of_heads(module, heads):
    assert heads_of(module) == heads
    members = ATTENTION.members(module)
    assert F.scaled_dot_product_attention in members
    assert (F.softmax in members) is (torch.softmax in members) is (heads is not None)


def test_a_function_that_no_module_calls_has_no_heads():
    assert ATTENTION.members(None)[0] is F.scaled_dot_product_attention
    assert F.softmax not in ATTENTION.members(None)
    assert repr(ATTENTION) == "<functions attention>"
