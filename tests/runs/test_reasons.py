"""The reasons for missing series, from the events of a run."""

import numpy as np

from taiyi_fx.findings import Watched
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
