"""A recorder of a training."""

import warnings

import pytest
import torch
from torch import nn

import taiyi_fx
from taiyi_fx import MonitorWarning
from taiyi_fx.recorder.replay.replayer import CannotReplay
from taiyi_fx.snapshot.bitwise import difference
from tests.recorder.replay.given import Net
from tests.recorder.replay.test_replayer import logs


def trained(model, recorder, steps=6, run=None, **options):
    """All bits of a training, after it."""
    torch.manual_seed(0)
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    given = {"optimizer": optimizer, "run": run, "recorder": recorder, **options}
    instrumented = taiyi_fx.instrument(model, {nn.Module: ["NonFinite"]}, **given)
    losses = []
    for step in range(steps):
        loss = instrumented(torch.randn(8, 4)).square().mean()
        loss.backward()
        instrumented.monitor.track(step)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
    instrumented.monitor.close()
    bits = {f"loss {i}": loss for i, loss in enumerate(losses)}
    bits |= {f"model.{name}": x for name, x in model.state_dict().items()}
    for i, state in enumerate(optimizer.state.values()):
        bits |= {f"moments {i}.{k}": v for k, v in state.items()}
    return bits | {"drawn": torch.rand(1)}


def made(between=None):
    torch.manual_seed(1)
    return Net(between)


@pytest.mark.filterwarnings("ignore::taiyi_fx.MonitorWarning")
@pytest.mark.parametrize("every", [1, 3])
@pytest.mark.parametrize("between", [None, logs])
def test_a_training_is_the_same_to_the_bit(every, between, tmp_path):
    model, recorder = made(between), taiyi_fx.Recorder(checkpoint_every=every)
    recorder.audit(every=2)
    plain = trained(made(between), None)
    recorded = trained(model, recorder, run=tmp_path / "run", strict=True)
    assert plain.keys() == recorded.keys()
    assert [n for n, x in plain.items() if difference(x, recorded[n])] == []
    assert model.count == 6
    assert bool(recorder.replays) == (between is not None)
    assert len(recorder.audits) == 3


def test_what_was_found_is_warned_of_written_and_kept_in_a_file(tmp_path):
    recorder = taiyi_fx.Recorder(checkpoint_every=1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", MonitorWarning)
        trained(made(logs), recorder, run=tmp_path / "run")
    (found,) = recorder.replays
    assert found.saved == str(tmp_path / "run" / "bad-step.safetensors")
    assert f"a step was run again\n{found}" in [str(one.message) for one in caught]
    events = taiyi_fx.open_run(tmp_path / "run").events
    assert [(e.step, e.module) for e in events if e.text == f"run again: {found}"] == [(3, "")]


@pytest.mark.filterwarnings("ignore::taiyi_fx.MonitorWarning")
def test_a_step_that_went_wrong_unseen_by_the_rules_writes_the_last_steps_too(tmp_path):
    """As on a rank that does not record, whose findings are another's."""
    recorder, model = taiyi_fx.Recorder(checkpoint_every=1), made()
    one = taiyi_fx.instrument(model, {}, recorder=recorder, run=tmp_path / "run")
    one(torch.full((8, 4), torch.nan)).square().mean().backward()
    one.monitor.track(0)
    assert recorder.last.reasons == ("step 0 was run again",)
    assert recorder.last.first_non_finite is not None


def test_a_step_can_be_asked_for():
    recorder = taiyi_fx.Recorder(checkpoint_every=1)
    with pytest.raises(RuntimeError, match=r"Recorder\(checkpoint_every=1\)"):
        recorder.replay(0)
    model = made()
    instrumented = taiyi_fx.instrument(model, {"": ["NonFinite"]}, recorder=recorder)
    instrumented(torch.randn(8, 4)).sum().backward()
    instrumented.monitor.track(0)
    found = recorder.replay(0)
    assert (found.step, found.operation, found.is_exact) == (0, "", True)
    assert recorder.replays == [found]


@pytest.mark.parametrize("every", [1, 3])
def test_a_step_that_is_asked_for_is_the_one_that_runs_again(every):
    model, recorder = made(), taiyi_fx.Recorder(checkpoint_every=every)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    instrumented = taiyi_fx.instrument(
        model, {"": ["NonFinite"]}, optimizer=optimizer, recorder=recorder
    )
    for step in range(6):
        instrumented(torch.randn(8, 4)).sum().backward()
        instrumented.monitor.track(step)
        optimizer.step()
        optimizer.zero_grad()
    found = [recorder.replay(step) for step in (3, 5, 4)]
    assert [(one.step, one.is_exact) for one in found] == [(3, True), (5, True), (4, True)]


def test_what_cannot_be_kept_is_warned_of_once_and_the_training_goes_on():
    recorder = taiyi_fx.Recorder(checkpoint_every=1, checkpoint_bytes=10)
    with pytest.warns(
        MonitorWarning, match="no step will be run again, or audited: two states"
    ) as w:
        found = trained(made(), recorder)
    assert len(w) == 1
    assert not difference(found["loss 5"], trained(made(), None)["loss 5"])
    assert recorder.replays == []
    with pytest.raises(CannotReplay, match="no step is kept: two states of the training"):
        recorder.replay(5)


def test_if_strict_it_is_raised():
    recorder = taiyi_fx.Recorder(checkpoint_every=1, checkpoint_bytes=10)
    with pytest.raises(Exception, match="checkpoint_bytes= allows 10 bytes"):
        trained(made(), recorder, strict=True)


def test_nothing_is_kept_while_monitoring_is_paused_or_after_its_end():
    recorder, model = taiyi_fx.Recorder(checkpoint_every=1), made()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    instrumented = taiyi_fx.instrument(
        model, {"": ["NonFinite"]}, recorder=recorder, optimizer=optimizer
    )
    instrumented(torch.randn(8, 4))
    instrumented.monitor.track(0)
    instrumented.monitor.pause()
    for _ in range(3):
        instrumented(torch.randn(8, 4))
    kept = recorder._kept._keeper
    assert [(one.step, len(one.calls)) for one in kept.steps] == [(0, 1)]
    instrumented.monitor.resume()
    instrumented.monitor.close()
    instrumented(torch.randn(8, 4))
    assert not kept.steps
    assert not optimizer._optimizer_step_pre_hooks


def test_one_recorder_is_for_one_training():
    recorder = taiyi_fx.Recorder(checkpoint_every=1)
    taiyi_fx.instrument(made(), {"": ["NonFinite"]}, recorder=recorder)
    with pytest.raises(ValueError, match="records another training: make one for each"):
        taiyi_fx.instrument(made(), {"": ["NonFinite"]}, recorder=recorder)


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        ({"checkpoint_every": 0}, ValueError, "checkpoint_every is a whole number of at least 1"),
        ({"checkpoint_every": 1.5}, TypeError, "checkpoint_every"),
        ({"checkpoint_bytes": -1}, ValueError, "checkpoint_bytes"),
    ],
)
def test_wrong_numbers_are_refused(given, error, text):
    with pytest.raises(error, match=text):
        taiyi_fx.Recorder(**given)
    with pytest.raises(ValueError, match="every is a whole number of at least 1"):
        taiyi_fx.Recorder().audit(every=0)


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"steps": 0}, ValueError, "steps is a whole number of at least 1, not 0"),
        ({"every": -2}, ValueError, "every is a whole number of at least 1, not -2"),
        ({"steps": "many"}, TypeError, "steps is a whole number, not 'many'"),
        ({"every": 1.5}, TypeError, "every is a whole number, not 1.5"),
    ],
)
def test_wrong_numbers_are_refused_as_it_is_made(options, error, text):
    with pytest.raises(error, match=text):
        taiyi_fx.Recorder(**options)


def test_a_recorder_of_another_training_is_refused():
    recorder = taiyi_fx.Recorder()
    taiyi_fx.instrument(nn.Linear(2, 2), {}, recorder=recorder)
    with pytest.raises(ValueError, match="records another training: make one for each"):
        taiyi_fx.instrument(nn.Linear(2, 2), {}, recorder=recorder)
