"""Settings of the groups of optimizers."""

import math

import pytest
import torch
from torch import nn

from taiyi_fx.findings import GroupSettings, group_settings_of, step_counts_of


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
