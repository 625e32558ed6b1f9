"""Settings of the groups of optimizers."""

import torch
from torch import nn

from taiyi_fx.findings import GroupSettings, group_settings_of


def test_groups_have_their_modules_their_momentum_and_their_direction():
    model = nn.ModuleDict({"a": nn.Linear(2, 2), "b": nn.Linear(2, 2), "c": nn.Linear(2, 2)})
    own = [[*model[name].parameters()] for name in "abc"]
    sgd = torch.optim.SGD(own[0], lr=0.1, momentum=0.8)
    groups = [{"params": own[1]}, {"params": own[2], "betas": (0.5, 0.9), "maximize": True}]
    found = group_settings_of(dict(model.named_modules()), [sgd, torch.optim.AdamW(groups)])
    assert found == (
        GroupSettings(("a",), 0.8, False),
        GroupSettings(("b",), 0.9, False),
        GroupSettings(("c",), 0.5, True),
    )


def test_optimizers_without_momentum_have_none():
    model = nn.Linear(2, 2)
    (found,) = group_settings_of({"": model}, [torch.optim.Adagrad(model.parameters())])
    assert found == GroupSettings(("",), 0.0, False)
