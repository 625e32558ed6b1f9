import functools

import torch
from torch import nn

from taiyi_fx.passes.clone import clone_tree


class Odd(nn.Module):
    """Holds its parts in every way that aliases them."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(2, 2), nn.BatchNorm1d(2)
        self.listed, self.tupled, self.by_name = [self.a], (self.b, 1), {"a": [self.a]}
        self.method, self.partial = self.a.forward, functools.partial(self.helper, self.b)
        self.parent = [self]
        self.handle = self.a.register_forward_hook(self.note)
        self.noted = 0

    def helper(self, module, x):
        return module(x)

    def note(self, module, args, output):
        self.noted += 1

    def forward(self, x):
        return self.partial(self.method(x)) + self.listed[0](x)


def test_aliases_of_parts_are_those_of_the_clone():
    model = Odd()
    clone = clone_tree(model)
    assert clone.listed[0] is clone.a is not model.a
    assert clone.tupled[0] is clone.b
    assert clone.by_name["a"][0] is clone.a
    assert clone.method.__self__ is clone.a
    assert clone.partial.func.__self__ is clone
    assert clone.partial.args[0] is clone.b
    assert clone.parent[0] is clone
    assert model.parent[0] is model


def test_tensors_are_shared_and_hooks_are_copied():
    model = Odd()
    clone = clone_tree(model)
    assert clone.a.weight is model.a.weight
    assert clone.b.running_mean is model.b.running_mean
    clone(torch.randn(3, 2))
    assert (clone.noted, model.noted) == (1, 0)
    model.handle.remove()
    clone(torch.randn(3, 2))
    assert clone.noted == 2


def test_shared_modules_stay_shared():
    shared = nn.Linear(2, 2)
    clone = clone_tree(nn.Sequential(shared, shared))
    assert clone[0] is clone[1]
