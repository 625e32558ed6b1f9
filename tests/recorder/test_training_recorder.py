"""The recorder of one training."""

import pytest
import torch
from torch import nn

import taiyi_fx
from taiyi_fx import MonitorWarning
from taiyi_fx.recorder import load_bad_step


def trained(recorder, one, steps, rows=4):
    for step in steps:
        one(torch.randn(rows, 4)).sum().backward()
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


class Spoilt(nn.Module):
    """Its outputs grow by a factor of a million at one step."""

    def __init__(self):
        super().__init__()
        self.fc, self.by = nn.Linear(4, 2), 1.0

    def forward(self, x):
        return self.fc(x) * self.by


@pytest.mark.filterwarnings("ignore::taiyi_fx.MonitorWarning")
@pytest.mark.parametrize("is_process_ending", [False, True])
def test_an_alert_that_is_found_as_training_is_over_runs_its_step_again(
    monkeypatch, is_process_ending
):
    monkeypatch.setattr("taiyi_fx.monitor.is_process_ending", lambda: is_process_ending)
    model, recorder = Spoilt(), taiyi_fx.Recorder(checkpoint_every=1)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    cfg = {"": ["OutputRMS"]}
    one = taiyi_fx.instrument(model, cfg, recorder=recorder, optimizer=optimizer)
    monkeypatch.setattr(one.monitor._responder, "after", lambda step, scale: ())  # it looks later
    for step in range(30):
        model.by = 1e6 if step == 25 else 1.0
        optimizer.zero_grad()
        one(torch.randn(4, 4)).tanh().sum().backward()
        one.monitor.track(step)
        optimizer.step()
    alert = taiyi_fx.Finding(
        "spike", "alert", "", "OutputRMS", step=25, value=1e6, expected="", text="", advice=""
    )
    monkeypatch.setattr(one.monitor._responder, "at_end", lambda: (alert,))
    one.monitor.close()
    assert recorder.last is not None
    found = [(one.step, one.operation) for one in recorder.replays]
    assert found == ([] if is_process_ending else [(25, "mul")])


def spiked(recorder=None, run=None):
    """Trains with a loss that jumps once; gives the model, its monitor, and the bits of it all."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.1), nn.Tanh(), nn.Linear(16, 1))
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    one = taiyi_fx.instrument(
        model, {}, optimizer=optimizer, recorder=recorder, run=run, strict=True
    )
    for step in range(90):
        x = torch.randn(16, 8)
        y = x.sum(1, keepdim=True) * (40.0 if step == 60 else 1.0)
        optimizer.zero_grad()
        loss = ((one if recorder else model)(x) - y).square().mean()
        loss.backward()
        one.monitor.log("loss", loss.detach())
        one.monitor.track(step)
        optimizer.step()
    return model, one.monitor, [*(p.detach() for p in model.parameters()), torch.rand(1)]


@pytest.mark.filterwarnings("ignore::taiyi_fx.MonitorWarning")
@pytest.mark.parametrize("every", [1, 20])
def test_a_lone_spike_of_the_loss_has_its_step_run_again(tmp_path, every):
    recorder = taiyi_fx.Recorder(checkpoint_every=every)
    model, monitor, bits = spiked(recorder, tmp_path / "run")
    assert [(f.kind, f.severity) for f in monitor.findings] == [("loss_spike", "warning")]
    (found,) = recorder.replays
    assert (found.step, found.operation, found.phase, found.is_exact) == (
        60, "the gradient that reached output 0 of the model", "backward", True,
    )  # fmt: skip
    monitor.close()
    assert all(map(torch.equal, bits, spiked()[2]))
    again = load_bad_step(tmp_path / "run" / "bad-step.safetensors").run_on(model)
    assert (again.step, again.operation) == (60, found.operation)
    with taiyi_fx.open_run(tmp_path / "run") as run:
        assert any("run again: step 60" in event.text for event in run.events)
        (recording,) = run.recordings
    assert recording.reasons == ("step 60 was run again",)
    assert 60 in recording.steps


class Nested(nn.Module):
    """A model of batches that are dictionaries of lists of lists."""

    def __init__(self):
        super().__init__()
        self.fc, self.is_broken = nn.Linear(4, 2), False

    def forward(self, batch):
        rows = [x for part in batch["parts"]["views"] for x in part]
        h = torch.stack([self.fc(x) for x in rows])
        return torch.log(h - 100) if self.is_broken else h


@pytest.mark.filterwarnings("ignore::taiyi_fx.MonitorWarning")
def test_a_batch_of_nested_containers_is_kept_and_runs_again():
    model, recorder = Nested(), taiyi_fx.Recorder(checkpoint_every=1)
    one = taiyi_fx.instrument(model, {"": ["NonFinite"]}, recorder=recorder)
    for step in range(3):
        model.is_broken = step == 2
        views = [[torch.randn(3, 4), torch.randn(3, 4)], [torch.randn(3, 4)]]
        one({"parts": {"views": views}, "names": ["a", {"b": 1}]}).sum().backward()
        one.monitor.track(step)
        one.zero_grad()
    (found,) = recorder.replays
    assert (found.step, found.operation, found.is_exact) == (2, "log", True)


def test_a_batch_that_is_too_large_ends_keeping_and_not_the_training():
    recorder = taiyi_fx.Recorder(checkpoint_every=1, checkpoint_bytes=2**16)
    one = instrumented(recorder)
    trained(recorder, one, range(2))
    with pytest.warns(MonitorWarning, match="checkpoint_bytes= allows 65,536 bytes") as told:
        trained(recorder, one, [2], rows=2**16)
    assert len(told) == 1
    trained(recorder, one, range(3, 5))
    assert recorder.dump().steps == (0, 1, 2, 3, 4)
    assert not recorder._kept._keeper.steps


@pytest.mark.filterwarnings("ignore::taiyi_fx.MonitorWarning")
def test_recorders_of_models_that_share_parts_run_their_own_steps_again():
    judge, maker = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1)), nn.Linear(4, 4)
    recorders = [taiyi_fx.Recorder(checkpoint_every=1) for _ in range(2)]
    ones = [
        taiyi_fx.instrument(model, {nn.Module: ["NonFinite"]}, recorder=recorder)
        for model, recorder in zip((judge, nn.Sequential(maker, judge)), recorders, strict=True)
    ]
    for step in range(4):
        for i, one in enumerate(ones):
            x = torch.randn(4, 4)
            if (i, step) == (1, 3):
                x[0, 0] = torch.nan
            one(x).mean().backward()
            one.monitor.track(step)
            one.zero_grad()
    assert recorders[0].replays == []
    (found,) = recorders[1].replays
    assert (found.step, found.operation) == (3, "argument 0 of the model")
    assert recorders[0].replay(3).is_exact


class Rooted(nn.Module):
    """The root of a number below zero is NaN."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        return self.fc(x.sqrt())


@pytest.mark.filterwarnings("ignore::taiyi_fx.MonitorWarning")
@pytest.mark.parametrize("is_kept", [True, False])
def test_the_finding_is_of_the_operation_once_its_step_was_run_again(is_kept):
    recorder = taiyi_fx.Recorder(**{"checkpoint_every": 1} if is_kept else {})
    one = taiyi_fx.instrument(Rooted(), {"fc": ["InputRMS", "OutputRMS"]}, recorder=recorder)
    for step in range(12):
        x = torch.rand(3, 4)
        x[0, 0] = -1.0 if step == 9 else 1.0
        one(x).sum().backward()
        one.monitor.track(step)
        one.zero_grad()
    (found,) = (one for one in one.monitor.findings if one.kind == "non_finite")
    assert found.step == 9
    assert ("made by sqrt" in found.text) is is_kept
    assert ("(test_training_recorder.py:" in found.text) is is_kept
