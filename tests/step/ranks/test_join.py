"""Ranks that join what they read record what one rank with all rows would."""

import pytest
import torch
from torch import nn

import taiyi_fx
from taiyi_fx.step.ranks import Join
from tests.step.ranks.given import on_ranks

CFG = {"Linear": ["InputSndNorm", "OutputRMS", "WeightNorm"], "0": [["InputStd", "every(2)"]]}


def joined(ranks, cfg=CFG):
    """An instrumented model whose monitor joins other threads instead of processes."""
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    model = taiyi_fx.instrument(layers, cfg, process_group=None)
    monitor = model.monitor
    monitor._tracker._table.join()
    monitor._tracker._collector.join = Join(ranks, monitor.subscriptions, monitor._tracker._table)
    monitor._tracker.is_begun = True
    return model


def numbers(monitor):
    return {(r.step, r.module, r.quantity): r.value for r in monitor.records}


def alone(x):
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    model = taiyi_fx.instrument(layers, CFG)
    for step, rows in enumerate(x):
        model(rows)
        model.monitor.track(step)
    return numbers(model.monitor)


def test_values_are_those_of_one_rank_that_saw_all_rows():
    x = torch.randn(3, 6, 3)
    models = [joined(ranks) for ranks in on_ranks(2, lambda ranks: ranks)]
    for step, rows in enumerate(x):
        for place, part in enumerate(rows.chunk(2)):
            models[place](part)
        on_ranks(2, lambda ranks, step=step: models[ranks.place].monitor.track(step))
    assert numbers(models[0].monitor) == pytest.approx(alone(x), rel=1e-5)
    assert numbers(models[1].monitor) == {}


def test_a_step_that_asks_for_nothing_meets_no_other_rank():
    (ranks,) = on_ranks(1, lambda ranks: ranks)
    model = joined(ranks, {"0": [["InputSndNorm", "at_steps(1)"]]})
    for step in range(3):
        model(torch.ones(2, 3))
        model.monitor.track(step)
    assert ranks.collectives == ["objects", "tensor"]


def test_only_parameters_that_each_rank_has_whole_are_not_sent():
    (ranks,) = on_ranks(1, lambda ranks: ranks)
    model = joined(ranks, {"0": ["WeightNorm"]})
    for step in range(3):
        model(torch.ones(2, 3))
        model.monitor.track(step)
    assert ranks.collectives == []
    assert len(model.monitor.records) == 3
