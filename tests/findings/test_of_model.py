"""Facts about a model that no number tells."""

import torch
from torch import nn

from taiyi_fx.findings import groups_of, hooks_of, repeated_in


def test_each_module_has_the_group_of_its_parameters_counted_over_all_optimizers():
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2), nn.Linear(2, 2))
    one = torch.optim.SGD(model[0].parameters(), lr=0.1)
    two = torch.optim.SGD([{"params": [model[2].weight]}, {"params": [model[2].bias]}], lr=0.2)
    assert groups_of(dict(model.named_modules()), [one, two]) == {"0": (0, 0.1)}
    two.param_groups[0]["params"].append(model[2].bias)
    two.param_groups[1]["params"] = []
    assert groups_of(dict(model.named_modules()), [one, two]) == {"0": (0, 0.1), "2": (1, 0.2)}


def test_no_code_of_the_model_is_run():
    class Own(nn.Linear):
        def parameters(self, recurse=True):
            raise RuntimeError("ours alone")

    layer = Own(2, 2)
    layer.around = around = nn.ModuleList([layer, layer])  # a circle
    rate = torch.optim.SGD([layer.weight, layer.bias], lr=0.1)
    modules = {"": around, "0": layer}
    assert groups_of(modules, [rate]) == {"0": (0, 0.1)}
    assert repeated_in(modules) == {"": 2}


def test_hooks_before_and_behind_a_forward_are_named():
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())

    def scale(module, args, out):
        return 2 * out

    model[1].register_forward_hook(scale)
    ((name, hooks),) = hooks_of(dict(model.named_modules())).items()
    assert name == "1"
    assert hooks[0].endswith("scale")


def test_entries_that_are_one_module_are_counted_where_they_have_parameters():
    shared, relu = nn.Linear(2, 2), nn.ReLU()
    model = nn.ModuleDict(
        {"a": nn.ModuleList([shared] * 3), "b": nn.Sequential(relu, shared, relu)}
    )
    assert repeated_in(dict(model.named_modules())) == {"a": 3}
    once = nn.ModuleList(nn.Linear(2, 2) for _ in range(3))
    assert repeated_in(dict(once.named_modules())) == {}
