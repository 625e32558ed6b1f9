"""A small instrumented model, and the work and statistics of its steps as `track` makes them."""

from __future__ import annotations

import torch
from torch import nn

import taiyi_fx
from taiyi_fx.step.statistics import Scale, Statistics
from taiyi_fx.step.transfer import Column, Outcome, Transfer
from taiyi_fx.step.work import Work, works_of


class Given:
    """An instrumented model, whose steps a test takes apart."""

    def __init__(self, cfg, model=None, **options):
        model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2)) if model is None else model
        self.model = taiyi_fx.instrument(model, cfg, **options)
        self.monitor = self.model.monitor
        self.modules = dict(self.model.named_modules())
        self.table = self.monitor._tracker._table

    @property
    def subscriptions(self):
        return self.monitor.subscriptions

    def statistics(self, scale=None):
        return Statistics(self.modules, self.table, Scale() if scale is None else scale)

    def works(self, *, is_emitted=True, modes=("train",)):
        """All work, with what the forward before left for it."""
        self.table.measure()
        statistics = self.statistics()
        for readings in self.monitor._tracker.steps.due_at(0).parameters:
            statistics.parameters.measure(readings)
        self.table.board.held.settle()
        asked = [(s, is_emitted) for s in self.subscriptions]
        return [statistics.read(work) for work in works_of(asked, modes, self.table)]


def column(step=0, mode="train", **values):
    """Numbers of series of the model itself, under their names."""
    series = tuple(("", name) for name in values)
    return Column(step, mode, series, series, torch.tensor(list(values.values())))


def arrived(*columns, **outcome):
    return Transfer(Outcome(**outcome), columns)


def bare(work: Work):
    return work.series, work.mode, work.call, work.is_emitted
