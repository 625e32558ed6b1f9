"""Modules whose outputs are theirs alone."""

import pytest
import torch
import torch.nn.functional as F
from torch import fx, nn

from taiyi_fx.passes.rewrite.fresh import is_fresh, is_torchs_call

FRESH = [
    (nn.Linear(4, 4), (3, 4)),
    (nn.Conv1d(4, 4, 1), (2, 4, 3)),
    (nn.BatchNorm1d(4), (3, 4)),
    (nn.LayerNorm(4), (3, 4)),
    (nn.GroupNorm(2, 4), (3, 4)),
]


@pytest.mark.parametrize(("module", "shape"), FRESH, ids=lambda each: type(each).__name__)
@pytest.mark.parametrize("training", [True, False])
def test_what_is_fresh_shares_no_memory_and_leaves_its_input_alone(module, shape, training):
    x = torch.randn(shape)
    before, made = x.clone(), module.train(training)(x)
    assert is_fresh(module)
    assert made.untyped_storage().data_ptr() != x.untyped_storage().data_ptr()
    assert torch.equal(x, before)


def test_what_hands_its_input_on_or_is_the_users_own_is_not_fresh(monkeypatch):
    patched = nn.Linear(1, 1)
    patched.forward = lambda x: x
    derived = type("Derived", (nn.Linear,), {"forward": lambda self, x: x})(1, 1)
    others = (nn.Identity(), nn.Dropout(), nn.Flatten(), nn.ReLU(inplace=True), patched, derived)
    assert not any(map(is_fresh, others))
    monkeypatch.setattr(nn.Linear, "forward", lambda self, x: x)
    assert not is_fresh(nn.Linear(1, 1))


def test_torchs_calls_hang_no_hooks_on_what_they_are_given():
    graph = fx.Graph()
    x = graph.placeholder("x")
    assert is_torchs_call(graph.call_function(F.relu, (x,)))
    assert is_torchs_call(graph.call_method("view", (x, -1)))
    assert not is_torchs_call(graph.call_method("register_hook", (x,)))
    assert not is_torchs_call(graph.call_function(print_it, (x,)))


def print_it(x):
    return x
