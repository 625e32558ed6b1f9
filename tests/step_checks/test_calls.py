"""Calls of modules, as they were when they were made."""

import torch
from torch import nn

from taiyi_fx.step_checks.calls import recorded


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(2, 2), nn.ReLU(inplace=True))

    def forward(self, x, scale=1.0):
        return {"y": self.inner(x * scale).mul_(2)}


def test_calls_are_taken_down_in_the_order_in_which_they_return():
    model = Model()
    with recorded(model, records=True) as calls:
        y = model(torch.ones(3, 2), scale=torch.tensor(2.0))["y"]
    assert [(c.module, c.depth) for c in calls] == [
        ("inner.0", 2),
        ("inner.1", 2),
        ("inner", 1),
        ("", 0),
    ]
    assert [*calls[-1].given.tensors()] == ["x", "scale"]
    linear, relu = calls[0], calls[1]
    assert torch.equal(linear.outputs[0].relu() * 2, y)  # as it was before it was changed in place
    assert torch.equal(relu.inputs[0], linear.outputs[0])
    assert not any(x.requires_grad for c in calls for x in c.outputs)


def test_hooks_are_gone_afterwards_and_none_are_there_where_nothing_is_asked():
    model = Model()
    with recorded(model, records=True):
        pass
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    with recorded(model, records=False) as calls:
        model(torch.ones(3, 2))
    assert calls == []
