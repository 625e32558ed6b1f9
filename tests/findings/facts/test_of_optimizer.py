"""Settings of the groups of optimizers."""

import math

import pytest
import torch
from torch import nn

from taiyi_fx.findings import OptimizerFacts
from taiyi_fx.findings.facts.of_optimizer import (
    GroupSettings,
    decays_of,
    group_settings_of,
    groups_of,
    left_out_of,
    shared_state_of,
    shrinkage_of,
    step_counts_of,
    undecaying_moments_of,
)


def test_groups_have_their_modules_their_momentum_and_their_direction():
    model = nn.ModuleDict({"a": nn.Linear(2, 2), "b": nn.Linear(2, 2), "c": nn.Linear(2, 2)})
    own = [[*model[name].parameters()] for name in "abc"]
    sgd = torch.optim.SGD(own[0], lr=0.1, momentum=0.8)
    groups = [{"params": own[1]}, {"params": own[2], "betas": (0.5, 0.9), "maximize": True}]
    found = group_settings_of(dict(model.named_modules()), [sgd, torch.optim.AdamW(groups)])
    assert found == (
        GroupSettings(("a",), 0.8, False, "sgd"),
        GroupSettings(("b",), 0.9, False, "adam", second=0.999, epsilon=1e-8),
        GroupSettings(("c",), 0.5, True, "adam", second=0.9, epsilon=1e-8),
    )


def test_optimizers_without_momentum_have_none():
    model = nn.Linear(2, 2)
    (found,) = group_settings_of({"": model}, [torch.optim.Adagrad(model.parameters())])
    assert found == GroupSettings(("",), 0.0, False)


def test_dampening_is_that_of_sgd():
    model = nn.Linear(2, 2)
    optimizers = [
        torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, dampening=0.5),
        torch.optim.Adam(model.parameters()),
    ]
    assert [g.dampening for g in group_settings_of({"": model}, optimizers)] == [0.5, 0.0]


def test_the_rule_of_an_optimizer_is_told_by_its_class():
    model = nn.Linear(2, 2)

    class Own(torch.optim.AdamW):
        pass

    kinds = (Own, torch.optim.SGD, torch.optim.RMSprop, torch.optim.LBFGS)
    optimizers = [kind(model.parameters(), lr=0.1) for kind in kinds]
    found = group_settings_of({"": model}, optimizers)
    assert [group.rule for group in found] == ["adam", "sgd", "", "lbfgs"]


def test_steps_are_those_that_adam_counts_and_none_of_others():
    model = nn.ModuleDict({"a": nn.Linear(2, 2), "b": nn.Linear(2, 2), "c": nn.Linear(2, 2)})
    adam = torch.optim.Adam([*model["a"].parameters(), *model["b"].parameters()])
    sgd = torch.optim.SGD(model["c"].parameters(), lr=0.1)
    for _ in range(3):
        model["c"](model["a"](torch.ones(1, 2))).sum().backward()
        adam.step()
        sgd.step()
    modules = dict(model.named_modules())
    assert step_counts_of(modules, [adam, sgd]) == {"a": 3, "b": 0}
    adam.state.clear()
    assert step_counts_of(modules, [adam, sgd]) == {"a": 0, "b": 0}


def test_of_a_modules_parameters_the_one_with_most_steps_counts():
    model = nn.utils.parametrizations.weight_norm(nn.Linear(2, 2, bias=False))
    gain, direction = model.parametrizations.weight.parameters()
    gain.requires_grad_(False)  # as in DINO's head
    adam = torch.optim.Adam([gain, direction])
    for _ in range(3):
        direction.grad = torch.ones_like(direction)
        adam.step()
    assert step_counts_of(dict(model.named_modules()), [adam]) == {"parametrizations.weight": 3}


def test_an_optimizer_that_keeps_a_state_and_counts_no_steps_is_left_out():
    class Lion(torch.optim.Adam):
        """As it is mostly written: averages alone."""

    model = nn.Linear(2, 2)
    lion = Lion(model.parameters())
    for parameter in model.parameters():
        lion.state[parameter] = {"exp_avg": torch.zeros_like(parameter)}
    assert step_counts_of({"a": model}, [lion]) == {}


def test_counts_that_are_no_numbers_are_left_out():
    model = nn.Linear(2, 2)
    adam = torch.optim.Adam(model.parameters())
    for count in (None, "1", torch.ones(2), torch.ones(1, device="meta")):
        adam.state[model.weight] = {"step": count}
        assert step_counts_of({"a": model}, [adam]) == {}


@pytest.mark.parametrize("betas", [(0.9, 0.999), (0.5, 0.999), (0.0, 0.99), (0.9, 0.95)])
def test_no_step_of_adam_is_longer(betas):
    """Gradients that grow as fast as makes the most of it come close to the bound."""
    weight = nn.Parameter(torch.zeros((), dtype=torch.float64))
    optimizer = torch.optim.Adam([weight], lr=1.0, betas=betas, eps=0.0)
    (settings,) = group_settings_of({}, [optimizer])
    # From zeros on, long after the first step, whose correction would count.
    optimizer.state[weight] = {
        "step": torch.tensor(1e6),
        "exp_avg": torch.zeros_like(weight),
        "exp_avg_sq": torch.zeros_like(weight),
    }
    growth = betas[1] / betas[0] if betas[0] else 10.0
    longest = 0.0
    for i in range(200):
        before = weight.item()
        weight.grad = torch.full_like(weight, growth ** (i - 100))
        optimizer.step()
        longest = max(longest, abs(weight.item() - before))
    assert 0.95 * settings.most_rates < longest < settings.most_rates * (1 + 1e-9)


@pytest.mark.parametrize("betas", [(0.999, 0.9), (0.99, 0.9), (0.9, 1.0)])
def test_steps_have_no_bound_where_squares_are_forgotten_first(betas):
    settings = GroupSettings((), betas[0], False, "adam", second=betas[1])
    assert settings.most_rates == math.inf


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
    rate = torch.optim.SGD([layer.weight, layer.bias], lr=0.1)
    assert groups_of({"0": layer}, [rate]) == {"0": (0, 0.1)}


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


def test_the_rate_that_a_scheduler_took_over_is_known_but_for_cycles():
    model = nn.Linear(2, 2)
    made = {
        "": lambda of: None,
        "factors": lambda of: torch.optim.lr_scheduler.LambdaLR(of, lambda step: 0.1 * step),
        "cycle": lambda of: torch.optim.lr_scheduler.OneCycleLR(of, 1.0, total_steps=9),
    }
    found = {}
    for name, scheduled in made.items():
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        scheduled(optimizer)
        (group,) = group_settings_of({"": model}, [optimizer])
        found[name] = group.initial
    assert found == {"": 0.0, "factors": 0.5, "cycle": 0.0}


@pytest.mark.parametrize(("is_copied", "found"), [(True, {}), (False, {"": "momentum_buffer"})])
def test_what_is_kept_in_the_memory_of_a_gradient_is_found(is_copied, found):
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    assert shared_state_of({"": model}, [optimizer]) == {}
    model(torch.ones(1, 2)).sum().backward()
    for parameter in model.parameters():
        kept = parameter.grad.clone() if is_copied else parameter.grad.detach()
        optimizer.state[parameter] = {
            "step": 1,
            "momentum_buffer": kept,
            "sparse": kept.to_sparse(),
        }
    assert shared_state_of({"": model}, [optimizer]) == found
    optimizer.zero_grad(set_to_none=True)
    assert shared_state_of({"": model}, [optimizer]) == {}


def test_a_gradient_without_memory_shares_none():
    with torch.device("meta"):
        model = nn.Linear(2, 2)
    for parameter in model.parameters():
        parameter.grad = torch.empty_like(parameter)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    optimizer.state[model.weight] = {"momentum_buffer": torch.empty(2, 2, device="meta")}
    assert shared_state_of({"": model}, [optimizer]) == {}


@pytest.mark.parametrize("kept", [torch.zeros(2, 2), [1], None, 3])
@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.Adam])
def test_an_optimizer_may_keep_other_things_than_names(kept, kind):
    model = nn.Linear(2, 2)
    model(torch.ones(1, 2)).sum().backward()
    optimizer = kind(model.parameters(), 0.1)
    for parameter in model.parameters():
        optimizer.state[parameter] = kept
    found = OptimizerFacts.of({"": model}, [optimizer])
    assert (found.shared_state, found.undecaying_moments) == ({}, {})
    optimizer.state = kept
    assert OptimizerFacts.of({"": model}, [optimizer]).shared_state == {}
