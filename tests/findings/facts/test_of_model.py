"""Facts about a model that no number tells."""

import pytest
import torch
from torch import nn

from taiyi_fx.findings import (
    batch_axes_of,
    decays_of,
    evaluates,
    frozen_of,
    groups_of,
    hooks_of,
    left_out_of,
    owners_of,
    repeated_in,
    shrinkage_of,
    undecaying_moments_of,
)


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


def test_what_no_optimizer_has_is_told_with_the_number_of_what_else_it_has():
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2))
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.3)
    assert left_out_of(dict(model.named_modules()), [optimizer]) == (frozenset(), 0)
    model[2] = nn.Linear(2, 3)
    modules = dict(model.named_modules())
    assert left_out_of(modules, [optimizer]) == (frozenset({"2"}), 2)
    assert decays_of(modules, [optimizer]) == {"0": 0.3}
    model[2].requires_grad_(False)
    assert left_out_of(modules, [optimizer]) == (frozenset(), 2)
    # An optimizer may keep copies of all, and no optimizer may be known.
    copies = torch.optim.SGD([torch.zeros(2, requires_grad=True)], lr=0.1)
    assert left_out_of(modules, [copies]) == left_out_of(modules, []) == (frozenset(), 0)


def test_layers_say_which_axis_is_that_of_the_batch():
    model = nn.ModuleList([nn.GRU(2, 2), nn.MultiheadAttention(2, 1, batch_first=True), nn.ReLU()])
    assert batch_axes_of(dict(model.named_modules())) == {"0": 1, "1": 0}


def test_a_model_without_anything_in_training_mode_says_what_acts_otherwise():
    model = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.0), nn.BatchNorm1d(2))
    modules = dict(model.named_modules())
    assert evaluates(modules) == ""
    model.eval()
    assert evaluates(modules) == "BatchNorm1d"
    model[0].train()
    assert evaluates(modules) == ""
    assert evaluates({"": nn.BatchNorm1d(2, track_running_stats=False).eval()}) == ""


def test_modules_that_are_frozen_are_those_without_a_parameter_that_is_trained():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2))
    model[0].requires_grad_(False)
    model[1].weight.requires_grad_(False)
    assert frozen_of(dict(model.named_modules())) == {"0"}


def test_the_owner_of_a_parameter_is_the_first_module_that_has_it():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    model[1].weight = model[0].weight
    owners = owners_of(dict(model.named_modules()))
    assert owners[id(model[1].weight)] == "0"
    assert owners[id(model[1].bias)] == "1"


def test_decay_shrinks_weights_by_its_product_with_the_rate():
    model = nn.Linear(2, 2)
    modules, parameters = {"": model}, [*model.parameters()]
    adamw = torch.optim.AdamW(parameters, lr=0.1, weight_decay=0.5)
    sgd = torch.optim.SGD(parameters, lr=0.1, weight_decay=0.5, momentum=0.75)
    adam = torch.optim.Adam(parameters, lr=0.1, weight_decay=0.5)
    assert shrinkage_of(modules, [adamw]) == {"": 0.5}
    assert shrinkage_of(modules, [sgd]) == {"": 2.0}
    assert shrinkage_of(modules, [adam]) == shrinkage_of(modules, []) == {}
    sgd.param_groups[0]["momentum"] = None  # as an optimizer of a user's own may have it
    assert shrinkage_of(modules, [sgd]) == {}


def test_second_moments_that_their_format_cannot_make_smaller():
    kinds = [
        (torch.bfloat16, torch.optim.Adam, {"betas": (0.9, 0.999)}),
        (torch.bfloat16, torch.optim.Adam, {"betas": (0.9, 0.99)}),
        (torch.bfloat16, torch.optim.RMSprop, {"alpha": 0.999}),
        (torch.float16, torch.optim.AdamW, {"betas": (0.9, 0.999)}),
        (torch.float16, torch.optim.AdamW, {"betas": (0.9, 0.9999)}),
        (torch.float32, torch.optim.AdamW, {"betas": (0.9, 0.9999)}),
        (torch.bfloat16, torch.optim.SGD, {"momentum": 0.999}),
    ]
    model = nn.ModuleList([nn.Linear(2, 2, dtype=dtype) for dtype, _, _ in kinds])
    optimizers = [
        kind(layer.parameters(), lr=1e-3, **options)
        for layer, (_, kind, options) in zip(model, kinds, strict=True)
    ]
    named = dict(model.named_modules())
    assert undecaying_moments_of(named, optimizers) == {}  # before the first step
    for layer, optimizer in zip(model, optimizers, strict=True):
        layer(torch.ones(1, 2, dtype=layer.weight.dtype)).sum().backward()
        optimizer.step()
    assert undecaying_moments_of(named, optimizers) == {
        "0": ("bfloat16", 0.999),
        "2": ("bfloat16", 0.999),
        "4": ("float16", 0.9999),
    }


@pytest.mark.parametrize(
    ("dtype", "decay", "is_rounded"),
    [
        (torch.bfloat16, 0.999, True),
        (torch.bfloat16, 0.99, False),
        (torch.float16, 0.9999, True),
        (torch.float16, 0.999, False),
    ],
)
def test_a_quarter_of_epsilon_is_where_all_numbers_are_rounded_to_themselves(
    dtype, decay, is_rounded
):
    every = torch.arange(2**16, dtype=torch.int32).to(torch.int16).view(dtype)
    normal = every[(every.abs() >= torch.finfo(dtype).tiny) & every.isfinite()]
    assert (normal * decay == normal).all() == is_rounded
