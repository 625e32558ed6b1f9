"""The reasons for missing series, from the events of a run."""

import warnings

import numpy as np
import torch
from torch import nn

import taiyi_fx
from taiyi_fx.findings import Watched
from taiyi_fx.pictures.report.finding_entries import seen_in
from taiyi_fx.pictures.report.gathered import Gathered
from taiyi_fx.pictures.report.readout import MonitorReadout, RunReadout
from taiyi_fx.records.record import Event
from taiyi_fx.runs.reasons import reasons


def event(step, text, module="fc", kind="warning"):
    return Event(step, kind, module, text)


def series(steps):
    facts = ("backward", "", "")
    return Watched.made(("fc", "WeightGradNorm"), facts, np.array(steps), np.ones(len(steps)))


def test_the_last_reason_counts():
    found = reasons([event(0, "WeightGradNorm: frozen"), event(5, "WeightGradNorm: cut: off")], [])
    assert found == {("fc", "WeightGradNorm"): "cut: off"}


def test_a_later_value_ends_it_and_an_earlier_one_does_not():
    events = [event(5, "WeightGradNorm: frozen")]
    assert reasons(events, [series([0, 4])]) == {("fc", "WeightGradNorm"): "frozen"}
    assert reasons(events, [series([0, 5])]) == {}


def test_other_events_are_none():
    assert reasons([event(0, "a: b", kind="nan"), event(0, "no colon")], []) == {}


class Cut(nn.Module):
    """Parts of one kind, one of which gets no gradient."""

    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleList(nn.Linear(8, 8) for _ in range(6))

    def forward(self, x):
        for i, part in enumerate(self.parts):
            x = torch.tanh(x + (part(x).detach() if i == 3 else part(x)))
        return x


def test_a_run_has_the_reasons_that_a_preset_keeps_to_itself(tmp_path):
    torch.manual_seed(0)
    model = taiyi_fx.instrument(Cut(), run=tmp_path / "run")
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("error", taiyi_fx.MonitorWarning)
        for step in range(20):
            model(torch.randn(16, 8)).square().mean().backward()
            model.monitor.track(step)
            optimizer.step()
            optimizer.zero_grad()
    here, readout = model.monitor.findings, MonitorReadout(model.monitor)
    model.monitor.close()
    run = taiyi_fx.open_run(tmp_path / "run")
    assert [(one.kind, one.module) for one in here][:1] == [("detached", "parts.3")]
    assert run.findings == here
    assert [event.kind for event in run.events if event.kind != "finding"] == []
    for source in (readout, RunReadout(run)):
        gathered = Gathered()
        gathered.update(source)
        assert seen_in(gathered, source.about()).findings == here
