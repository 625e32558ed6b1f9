"""Dumps: written into the run at alerts and when asked for, whole or not at all; else in memory."""

import signal
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import taiyi_fx
from taiyi_fx.runs.recording import RecordedSite, file_of, read_recording, stamps_in


def broken_at(step, recorder, steps=12, cfg=None, **options):
    """A training whose weight breaks at a step; only its loss is recorded."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2))
    one = taiyi_fx.instrument(model, cfg or {}, recorder=recorder, **options)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for now in range(steps):
            if now == step:
                model[0].weight.data[0, 0] = torch.nan
            loss = one(torch.randn(8, 4)).square().mean()
            loss.backward()
            one.monitor.log("loss", loss.detach())
            one.monitor.track(now)
            optimizer.step()
            optimizer.zero_grad()
        one.monitor.close()
    return [str(each.message) for each in caught]


def test_an_alert_writes_the_last_steps_and_names_the_first_site(tmp_path):
    recorder = taiyi_fx.Recorder(steps=5)
    texts = broken_at(6, recorder, run=tmp_path / "run")
    with taiyi_fx.open_run(tmp_path / "run") as run:
        first = run.recordings[0]
    assert first.first_non_finite == (6, RecordedSite("0", "output"))
    assert "alert" in first.reasons[0]
    assert len(first.steps) == 5
    assert recorder.last is not None
    assert any("NaN or Inf is first at step 6, in the output of '0'" in text for text in texts)


def test_those_of_a_part_have_its_name_as_the_run_s_series_do(tmp_path):
    broken_at(6, taiyi_fx.Recorder(steps=5), run=tmp_path / "run", part="critic")
    with taiyi_fx.open_run(tmp_path / "run") as run:
        first = run.recordings[0]
    assert first.first_non_finite == (6, RecordedSite("critic.0", "output"))
    assert run.path / "critic" in {file.parent for file in run.path.rglob("recording-*.json")}


def test_without_a_run_they_are_kept_in_memory_which_is_said():
    recorder = taiyi_fx.Recorder(steps=5)
    texts = broken_at(6, recorder)
    assert recorder.last.first_non_finite == (6, RecordedSite("0", "output"))
    assert any("in memory alone, as recorder.last" in text for text in texts)


def test_a_healthy_training_writes_nothing(tmp_path):
    recorder = taiyi_fx.Recorder()
    broken_at(None, recorder, run=tmp_path / "run")
    assert not [file for file in (tmp_path / "run").iterdir() if "recording" in file.name]
    assert recorder.last is None


def test_a_dump_goes_to_the_path_that_it_is_given(tmp_path):
    recorder = taiyi_fx.Recorder(steps=3)
    broken_at(None, recorder)
    made = recorder.dump(tmp_path / "here.json")
    found = read_recording(tmp_path / "here.json")
    assert (found.steps, found.sites, found.reasons) == (made.steps, made.sites, made.reasons)
    np.testing.assert_allclose(found.values, made.values, rtol=1e-6)


def test_reasons_at_one_step_are_added_up(tmp_path):
    recorder = taiyi_fx.Recorder()
    broken_at(None, recorder, run=tmp_path / "run")
    recorder.dump()
    with pytest.raises(ZeroDivisionError), pytest.warns(taiyi_fx.MonitorWarning), recorder:
        raise ZeroDivisionError("by zero")
    found = read_recording(file_of(tmp_path / "run", 11))
    assert found.reasons == ("dump() was called", "ZeroDivisionError: by zero")


def test_a_dump_that_cannot_be_written_is_told_and_kept(tmp_path, monkeypatch):
    def full(*_):
        raise OSError("no space left")

    monkeypatch.setattr("taiyi_fx.runs.recording.Recording.write", full)
    recorder = taiyi_fx.Recorder()
    texts = broken_at(3, recorder, run=tmp_path / "run")
    recorder._training._dumps.dump_of_itself("another alert")
    (text,) = [text for text in texts if "no space left" in text]
    assert text.startswith("the last steps could not be written, and are in memory alone, as recor")
    assert recorder.last.first_non_finite is not None


def test_a_run_that_is_replaced_or_resumed_loses_the_recordings_of_its_later_steps(tmp_path):
    run = tmp_path / "run"
    broken_at(6, taiyi_fx.Recorder(), run=run)
    assert file_of(run, 6).exists()
    broken_at(None, taiyi_fx.Recorder(), run=run, overwrite=True, steps=2)
    assert not file_of(run, 6).exists()


def test_nothing_is_written_before_the_first_step(tmp_path):
    recorder = taiyi_fx.Recorder()
    taiyi_fx.instrument(nn.Linear(2, 2), {}, recorder=recorder, run=tmp_path / "run")
    assert recorder.dump().step is None
    assert not list((tmp_path / "run").glob("recording*"))


def test_what_is_not_attached_says_so():
    with pytest.raises(RuntimeError, match="give this recorder to instrument"):
        taiyi_fx.Recorder().dump()


def test_a_stamp_changes_with_what_is_written(tmp_path):
    run, recorder = tmp_path / "run", taiyi_fx.Recorder()
    assert stamps_in(tmp_path) == ()
    broken_at(None, recorder, run=run, part="critic")
    recorder.dump()
    first = stamps_in(run)
    assert len(first) == 1
    recorder.last.write(file_of(run / "critic", 12))
    assert len({first, stamps_in(run)}) == 2


def test_sigterm_in_the_middle_of_a_dump_leaves_whole_files(tmp_path, monkeypatch):
    """A handler of the user's that lets the process go on, as those of schedulers' clients do."""
    caught, sent, write = [], [], Path.write_text
    before = signal.signal(signal.SIGTERM, lambda *_: caught.append("the user's"))

    def halves(path, text, **options):
        with path.open("w", **options) as file:
            file.write(text[: len(text) // 2])
            file.flush()
            if not sent:
                sent.append(signal.SIGTERM)
                signal.raise_signal(signal.SIGTERM)
            file.write(text[len(text) // 2 :])

    try:
        recorder = taiyi_fx.Recorder(steps=5)
        one = taiyi_fx.instrument(nn.Linear(4, 2), {}, recorder=recorder, run=tmp_path / "run")
        one(torch.randn(8, 4)).sum().backward()
        one.monitor.track(0)
        monkeypatch.setattr(Path, "write_text", halves)
        with pytest.warns(taiyi_fx.MonitorWarning, match="recorded: the last step of 2 sites"):
            recorder.dump()
        monkeypatch.setattr(Path, "write_text", write)
        one.monitor.close()
    finally:
        signal.signal(signal.SIGTERM, before)
    assert caught == ["the user's"]
    with taiyi_fx.open_run(tmp_path / "run") as run:
        assert [each.steps for each in run.recordings] == [(0,)]
    assert not [*(tmp_path / "run").glob("*.part")]
