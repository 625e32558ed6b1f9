"""Layers that are run twice on the very same values."""

import pytest
import torch
from torch import nn

from taiyi_fx.findings.facts.autograd import Uses
from taiyi_fx.findings.facts.same_calls import same_calls


def linear():
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4, bias=False))


def convolving():
    return nn.Sequential(nn.Conv1d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16, 4))


def dropping():
    return nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.5), nn.Linear(8, 4))


def looking_up():
    return nn.Sequential(nn.Embedding(20, 8), nn.Flatten(), nn.Linear(48, 4))


def batch(model):
    if isinstance(model[0], nn.Embedding):
        return torch.randint(20, (16, 6))
    return torch.randn(16, 1, 6) if isinstance(model[0], nn.Conv1d) else torch.randn(16, 6)


def found(model, *views, more=lambda _: 0):
    loss = (model(views[0]) * model(views[1])).sum() + more(model)
    modules = {id(p): name for name, part in model.named_modules() for p in part.parameters(False)}
    uses = Uses.of(loss, modules)
    return [uses.owner(node) for node in same_calls(uses)]


@pytest.mark.parametrize("make", [linear, convolving, looking_up])
def test_the_same_values_twice_are_found(make):
    torch.manual_seed(0)
    model = make()
    x = batch(model)
    assert found(model, x, x) == ["0"]
    assert found(model, x, x.clone()) == ["0"]
    assert found(model, x, batch(model)) == []


def test_where_something_is_drawn_in_between_nothing_is_found():
    model = dropping()
    x = batch(model)
    assert found(model, x, x) == []


def test_a_model_that_is_run_once_more_on_other_values_is_none():
    model = linear()
    x, y = batch(model), batch(model)
    assert found(model, x, x, more=lambda model: model(y).sum()) == []


def test_a_single_run_is_none():
    model = linear()
    assert [*same_calls(Uses.of(model(batch(model)).sum(), {id(model[0].weight): "0"}))] == []
    assert [*same_calls(Uses.of(torch.ones(())))] == []


def test_a_table_that_is_also_the_last_layer_is_given_indices_and_features():
    table, last = nn.Embedding(9, 1), nn.Linear(1, 9, bias=False)
    last.weight = table.weight
    nn.init.zeros_(table.weight)
    indices = torch.zeros(6, 1, dtype=torch.int64)  # as the features are then
    loss = last(table(indices).squeeze(1)).sum()
    assert [*same_calls(Uses.of(loss, {id(table.weight): "table"}))] == []
