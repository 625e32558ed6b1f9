"""Facts about a model that no number tells."""

import torch
from torch import nn

from taiyi_fx.findings import groups_of, hooks_of


def test_each_module_has_the_group_of_its_parameters_counted_over_all_optimizers():
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2), nn.Linear(2, 2))
    one = torch.optim.SGD(model[0].parameters(), lr=0.1)
    two = torch.optim.SGD([{"params": [model[2].weight]}, {"params": [model[2].bias]}], lr=0.2)
    assert groups_of(dict(model.named_modules()), [one, two]) == {"0": (0, 0.1)}
    two.param_groups[0]["params"].append(model[2].bias)
    two.param_groups[1]["params"] = []
    assert groups_of(dict(model.named_modules()), [one, two]) == {"0": (0, 0.1), "2": (1, 0.2)}


def test_hooks_before_and_behind_a_forward_are_named():
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())

    def scale(module, args, out):
        return 2 * out

    model[1].register_forward_hook(scale)
    ((name, hooks),) = hooks_of(dict(model.named_modules())).items()
    assert name == "1"
    assert hooks[0].endswith("scale")
