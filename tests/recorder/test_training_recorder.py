"""The recorder of one training."""

import pytest
import torch
from torch import nn

import taiyi_fx
from taiyi_fx import MonitorWarning


def trained(recorder, one, steps):
    for step in steps:
        one(torch.randn(4, 4)).sum().backward()
        one.monitor.track(step)
        one.zero_grad()


def instrumented(recorder, **options):
    return taiyi_fx.instrument(nn.Linear(4, 2), {"": ["NonFinite"]}, recorder=recorder, **options)


def test_one_recorder_is_for_one_training():
    recorder = taiyi_fx.Recorder()
    instrumented(recorder)
    with pytest.raises(ValueError, match="records another training: make one for each"):
        instrumented(recorder)


@pytest.mark.parametrize("options", [{}, {"checkpoint_every": 1}])
def test_audits_may_be_asked_for_while_a_training_goes_on(options):
    recorder = taiyi_fx.Recorder(**options)
    one = instrumented(recorder)
    trained(recorder, one, range(2))
    recorder.audit(every=2)
    trained(recorder, one, range(2, 6))
    assert [(audit.step, audit.is_equal) for audit in recorder.audits] == [(2, True), (4, True)]


def test_a_training_that_begins_anew_drops_what_was_kept():
    recorder = taiyi_fx.Recorder(checkpoint_every=1)
    one = instrumented(recorder)
    trained(recorder, one, range(3))
    one.monitor.start_at(1)
    trained(recorder, one, [1])
    assert recorder.dump().steps == (1,)
    assert [kept.step for kept in recorder._kept._keeper.steps] == [1]


def test_what_was_made_stays_after_the_end():
    recorder = taiyi_fx.Recorder(checkpoint_every=1)
    one = instrumented(recorder)
    trained(recorder, one, range(2))
    recorder.replay(1)
    with pytest.warns(MonitorWarning, match="recorded: "), pytest.raises(ValueError), recorder:
        raise ValueError("stop")
    one.monitor.close()
    assert recorder.last.reasons == ("ValueError: stop",)
    assert [found.step for found in recorder.replays] == [1]
