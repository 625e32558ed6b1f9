"""Calls of a plain model, told to a witness."""

import torch
from torch import nn

from taiyi_fx.recorder.replay.told_by_hooks import told_by_hooks


class Witness:
    def __init__(self):
        self.told = []

    def begin(self, args, kwargs, is_compiled):
        self.told.append((args, kwargs, is_compiled))
        return len(self.told)

    def end(self, token, value):
        self.told.append((token, value))


def test_training_forwards_are_told_and_no_hook_stays():
    model, witness, x = nn.Linear(2, 2), Witness(), torch.ones(1, 2)
    with told_by_hooks(model)(witness):
        y = model(input=x)
        with torch.no_grad():
            model(x)
        model.eval()
        model(x)
    model.train()
    model(x)
    (args, kwargs, is_compiled), (token, value) = witness.told
    assert (args, is_compiled, token) == ((), False, 1)
    assert kwargs["input"] is x
    assert value is y
