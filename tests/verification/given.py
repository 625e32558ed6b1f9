"""A model to verify, and ways to disturb it."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

import taiyi_fx
from taiyi_fx.passes.runtime.random_state import random_state
from taiyi_fx.testing import is_leaf
from taiyi_fx.verification import side_by_side

NORMS = {is_leaf: ["InputSndNorm", "OutputRMS", "OutputGradSndNorm"]}


class Net(nn.Module):
    """Has all that can be changed: parameters, buffers, draws and attributes."""

    def __init__(self):
        super().__init__()
        self.fc, self.bn = nn.Linear(4, 6), nn.BatchNorm1d(6)
        self.drop, self.head = nn.Dropout(0.5), nn.Linear(6, 3)
        self.count, self.stats = 0, {"seen": [0], "last": torch.zeros(())}
        self.scale = torch.ones(3, requires_grad=True)

    def forward(self, x):
        self.count += 1
        self.stats["seen"].append(len(x))
        self.stats["last"] = x.detach().mean()
        return self.head(self.drop(self.bn(self.fc(x)).relu())) * self.scale


def instrumenting(monkeypatch, then):
    """What `instrument` returns is given to a function before it is compared."""

    def made(*args, **kwargs):
        instrumented = taiyi_fx.instrument(*args, **kwargs)
        then(instrumented)
        return instrumented

    monkeypatch.setattr(side_by_side, "instrument", made)


def calling(monkeypatch, after):
    """What the instrumented model returns is what a function makes of that."""

    def then(instrumented):
        kind = type(instrumented)
        call = kind.__call__

        def called(self, *args, **kwargs):
            return after(self, call(self, *args, **kwargs))

        monkeypatch.setattr(kind, "__call__", called)

    instrumenting(monkeypatch, then)


def everything(model):
    """All that a test looks at, to be compared with later."""
    grads = {n: p.grad if p.grad is None else p.grad.clone() for n, p in model.named_parameters()}
    tensors = {n: t.detach().clone() for n, t in model.state_dict().items()}
    flags = [m.training for m in model.modules()]
    identities = [id(t) for t in (*model.parameters(), *model.buffers())]
    return tensors, grads, flags, identities, random_state()


def assert_as_before(model, before):
    tensors, grads, flags, identities, state = before
    now_tensors, now_grads, now_flags, now_identities, now_state = everything(model)
    assert same_streams(state, now_state)
    assert (flags, identities) == (now_flags, now_identities)
    assert all(torch.equal(tensors[n], now_tensors[n]) for n in tensors)
    for name, grad in grads.items():
        assert (grad is None) == (now_grads[name] is None), name
        assert grad is None or torch.equal(grad, now_grads[name])


def same_streams(a, b):
    return (
        a["python"] == b["python"]
        and torch.equal(a["torch"], b["torch"])
        and all(map(np.array_equal, a["numpy"], b["numpy"]))
    )
