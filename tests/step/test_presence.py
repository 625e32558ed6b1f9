"""Modules that code takes out of the model, or replaces, while it trains."""

import pytest
import torch
from torch import nn

import taiyi_fx
from taiyi_fx.passes.module_tree import named_modules
from taiyi_fx.step.presence import GONE, Presence


def presence_of(model):
    return Presence(dict(named_modules(model)))


def test_all_are_there_until_one_is_replaced_with_what_it_holds():
    model = nn.Sequential(nn.Sequential(nn.Linear(2, 2), nn.ReLU()), nn.Linear(2, 2))
    presence = presence_of(model)
    assert not presence.gone()
    kept = model[0]
    model[0] = nn.Identity()
    assert set(presence.gone()) == {"0", "0.0", "0.1"}
    model[0] = kept
    assert not presence.gone()


def test_one_that_is_wrapped_or_moved_is_still_there():
    """As adapters wrap a layer, and surgery moves one."""
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    presence = presence_of(model)
    model[0] = nn.Sequential(model[0], nn.Linear(2, 2))
    assert not presence.gone()
    model.append(model[0][0])
    del model[0]
    assert not presence.gone()


def test_one_that_is_replaced_within_what_came_later_is_gone():
    """As an adapter's base is."""
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    presence = presence_of(model)
    kept = model[0]
    model[0] = nn.Sequential(kept)
    assert not presence.gone()
    model[0][0] = nn.Linear(2, 2)
    assert presence.gone() == {"0"}
    model[1].inner = kept
    assert not presence.gone()
    del model[1].inner
    assert presence.gone() == {"0"}


@pytest.mark.parametrize("is_replaced", [True, False])
def test_one_that_left_may_be_emptied(is_replaced):
    model = nn.Sequential(nn.Sequential(nn.Linear(2, 2)))
    presence = presence_of(model)
    gone = model[0]
    if is_replaced:
        model[0] = nn.Linear(2, 2)
    else:
        del model[0]
    vars(gone).clear()
    assert presence.gone() == {"0", "0.0"}
    assert presence.gone() == {"0", "0.0"}


@pytest.mark.parametrize(
    "quantity", ["WeightNorm", "ParameterNorm", "WeightGradNorm", "UpdateRatio", "OutputNorm"]
)
def test_nothing_is_recorded_of_a_module_that_was_replaced(quantity):
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    cfg = {"0": ["WeightNorm"], "2": [quantity]}
    watched = taiyi_fx.instrument(model, cfg, optimizer=optimizer)
    for step in range(4):
        if step == 2:
            watched[2] = nn.Linear(4, 2)
        watched(torch.randn(3, 4)).sum().backward()
        if step == 2:
            with pytest.warns(taiyi_fx.MonitorWarning, match="no longer part of the model"):
                watched.monitor.track(step)
        else:
            watched.monitor.track(step)
        optimizer.step()
    own = {record.step for record in watched.monitor.records if record.module == "2"}
    assert own <= {0, 1}
    assert own, "it was recorded before"
    other = [r.step for r in watched.monitor.records if r.module == "0"]
    assert other == [0, 1, 2, 3]
    assert any(GONE in why for why in watched.monitor.missing.values())


def test_parameters_are_those_that_the_module_has_now():
    model = taiyi_fx.instrument(nn.Sequential(nn.Linear(4, 4)), {"0": ["WeightNorm"]})
    model(torch.randn(3, 4)).sum().backward()
    model.monitor.track(0)
    model[0]._parameters = dict(model[0]._parameters)
    model[0].weight = nn.Parameter(torch.full((4, 4), 100.0))
    model(torch.randn(3, 4)).sum().backward()
    model.monitor.track(1)
    assert model.monitor.get_output()["0"]["WeightNorm"][1] == 400.0
