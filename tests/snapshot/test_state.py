"""What a model holds is put back, whatever Python keeps it in."""

from __future__ import annotations

import random
from types import SimpleNamespace

import numpy as np
import torch
from torch import nn

from taiyi_fx.snapshot.state import State


def test_state_puts_back_whatever_python_holds():
    class Slots:
        __slots__ = ("n",)

    slots, counter, fc = Slots(), SimpleNamespace(n=0, parts=[{"a": {1}}]), nn.Linear(2, 2)
    slots.n = 0

    def closing(m=counter):
        nonlocal slots
        return m, slots

    fc.held, fc.function, fc.array = counter, closing, np.zeros(3)
    fc.random, fc.numpy, fc.torch = random.Random(0), np.random.default_rng(0), torch.Generator()
    fc.outside = [nn.Linear(2, 2)]
    first = fc.random.random(), fc.numpy.random(), torch.rand(1, generator=fc.torch)
    fc.random.seed(0)
    fc.numpy, fc.torch = np.random.default_rng(0), torch.Generator()
    state = State(fc)
    counter.n, counter.parts[0]["a"], fc.array[1], slots.n = 1, {2}, 1, 1
    fc.random.random(), fc.numpy.random(), torch.rand(1, generator=fc.torch)
    fc.new, fc.weight.data[0] = 1, 0
    fc.outside[0].weight.data.zero_()
    del fc.in_features
    paths = state.changes()
    for path in ("attribute 'held' of the model.n", "attribute 'held' of the model.parts[0]['a']",
                 "attribute 'array' of the model", "attribute 'random' of the model",
                 "attribute 'numpy' of the model", "attribute 'torch' of the model",
                 "attribute 'new' of the model", "attribute 'in_features' of the model"):  # fmt: skip
        assert path in paths, path
    state.restore()
    assert state.changes() == {}
    assert (counter.n, counter.parts, list(fc.array), slots.n) == (0, [{"a": {1}}], [0, 0, 0], 0)
    assert first == (fc.random.random(), fc.numpy.random(), torch.rand(1, generator=fc.torch))
    assert fc.weight[0].abs().sum() > 0
    assert fc.outside[0].weight.abs().sum() > 0
    assert fc.in_features == 2
    assert not hasattr(fc, "new")
