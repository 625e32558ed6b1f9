"""A monitor's writers: when they are opened, flushed and closed, and what their failures do."""

import gc
import os
import warnings

import pytest
import torch
from torch import nn

import taiyi_fx
from taiyi_fx import MonitorWarning
from taiyi_fx.step import queue
from taiyi_fx.writers import Batch, Store, writer_group
from taiyi_fx.writers.writer_group import WriterGroup
from tests.writers.runs import info, trained


class Diary:
    """Notes what is asked of it; raises where it is told to."""

    def __init__(self, raises=(), notes=None):
        self.notes = [] if notes is None else notes
        self.raises = raises
        self.batches = []

    def open(self, run):
        self._note("open")
        self.run = run

    def write(self, batch):
        self._note("write")
        self.batches.append(batch)

    def flush(self):
        self._note("flush")

    def close(self):
        self._note("close")

    def _note(self, what):
        self.notes.append(what)
        if what in self.raises:
            raise ZeroDivisionError(f"in {what}")


def watched(*writers, **options):
    return taiyi_fx.instrument(nn.Linear(4, 2), {"": ["InputMean"]}, writers=writers, **options)


def test_a_writer_is_opened_before_anything_and_closed_after_a_flush():
    diary = Diary()
    model = watched(diary, start_step=3)
    assert diary.notes == ["open"]
    assert diary.run.start_step == 3
    trained(model, range(3, 5)).monitor.close()
    assert diary.notes == ["open", "write", "write", "flush", "close"]
    model.monitor.close()
    assert diary.notes[-2:] == ["flush", "close"]
    assert diary.notes.count("close") == 1


def test_the_run_is_opened_before_the_other_writers(tmp_path):
    class After(Diary):
        def open(self, run):
            assert (tmp_path / "run.sqlite").exists()
            super().open(run)

    diary = After()
    trained(watched(diary, run=tmp_path), range(2)).monitor.close()
    assert "write" in diary.notes


def test_what_opening_raises_ends_instrument():
    with pytest.raises(ZeroDivisionError, match="in open"):
        watched(Diary(raises=["open"]))


@pytest.mark.parametrize("what", ["write", "flush", "close"])
def test_a_writer_that_raises_is_told_once_by_name_and_training_goes_on(what, monkeypatch):
    monkeypatch.setattr(writer_group, "FLUSH_SECONDS", 0)
    broken, sound = Diary(raises=[what]), Diary()
    model = watched(broken, sound)
    with pytest.warns(MonitorWarning) as caught:
        trained(model, range(4)).monitor.close()
    texts = [str(w.message) for w in caught]
    assert texts == [f"the writer Diary failed: ZeroDivisionError: in {what}"]
    assert caught[0].filename == (__file__ if what == "close" else trained.__code__.co_filename)
    assert len(model.monitor.records) == 4
    assert sound.notes == ["open", *["write", "flush"] * 4, "flush", "flush", "close"]
    assert broken.notes == sound.notes


def test_strict_raises_what_a_writer_raises():
    model = watched(Diary(raises=["write"]), strict=True)
    with pytest.raises(ZeroDivisionError, match="in write"):
        trained(model, range(1))


def test_flushes_follow_the_clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(writer_group.time, "monotonic", lambda: now[0])
    diary = Diary()
    model = watched(diary)
    trained(model, range(3))
    assert "flush" not in diary.notes
    now[0] += writer_group.FLUSH_SECONDS
    trained(model, range(3, 5))
    assert diary.notes.count("flush") == 1
    model.monitor.flush()
    assert diary.notes.count("flush") == 2


def test_undue_steps_flush_too(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(writer_group.time, "monotonic", lambda: now[0])
    diary = Diary()
    model = nn.Sequential(nn.Linear(4, 2))
    model = taiyi_fx.instrument(model, {"0": [["InputMean", "every(50)"]]}, writers=[diary])
    trained(model, range(3))
    assert diary.notes == ["open", "write"]
    now[0] += writer_group.FLUSH_SECONDS
    trained(model, range(3, 6))
    assert diary.notes == ["open", "write", "flush"]


def test_writers_of_a_rank_that_does_not_record_are_never_opened(tmp_path):
    diary = Diary()
    found = WriterGroup()
    found.add([diary, Store(tmp_path / "run")])
    found.drop()
    found.open(info())
    found.write(Batch(0))
    found.add([Diary(notes=diary.notes)])
    found.open(info())
    found.flush(at_once=True)
    found.close()
    assert diary.notes == []
    assert not len(found)
    assert not (tmp_path / "run").exists()


def test_a_writer_that_cannot_be_opened_late_is_told_and_left_out():
    broken, sound = Diary(raises=["open"]), Diary()
    found = WriterGroup()
    found.add([broken, sound])
    found.open(info(), may_fail=True)
    found.write(Batch(0))
    assert found.pop_errors() == ["the writer Diary failed: ZeroDivisionError: in open"]
    assert broken.notes == ["open"]
    assert sound.notes == ["open", "write"]


@pytest.mark.parametrize(
    ("writer", "text"),
    [(Diary, r"not its class: Diary\(...\)"), (3, "3 is not a writer: it has no open, no write")],
)
def test_what_is_no_writer_is_refused(writer, text):
    with pytest.raises(TypeError, match=text):
        watched(writer)


def test_a_writer_that_is_added_gets_what_comes_after(tmp_path):
    model = trained(watched(), range(2))
    model.monitor.add_writer(Store(tmp_path))
    trained(model, range(2, 4)).monitor.close()
    with taiyi_fx.open_run(tmp_path) as run:
        assert run.series("", "InputMean").steps.tolist() == [2, 3]


def test_a_monitor_that_is_forgotten_closes_its_run(tmp_path):
    model = trained(watched(run=tmp_path), range(2))
    del model
    gc.collect()
    with taiyi_fx.open_run(tmp_path) as run:
        assert run.series("", "InputMean").steps.tolist() == [0, 1]
    assert not (tmp_path / "run.sqlite-wal").exists()


def test_a_run_holds_what_the_monitor_recorded(tmp_path):
    model = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2))
    cfg = {nn.Linear: ["InputMean", "WeightNorm", "InputCovCondition"]}
    model = taiyi_fx.instrument(model, cfg, run=tmp_path, record_eval=True)
    for epoch in range(2):
        trained(model, range(4 * epoch, 4 * epoch + 4), loss=0.5)
        with torch.no_grad():
            model.eval()(torch.randn(3, 4))
        model.train().monitor.tick_epoch(10 + epoch)
    model.monitor.close()
    records = model.monitor.records
    with taiyi_fx.open_run(tmp_path) as run:
        for mode in ("train", "eval"):
            for (module, quantity), values in records.select(mode=mode).series().items():
                curve = run.series(module, quantity, mode)
                assert dict(zip(curve.steps.tolist(), curve.values.tolist(), strict=True)) == values
        assert len(run.to_numpy()["step"]) == len(records)
        assert [e.number for e in run.epochs] == [10, 11]
        grid, same = run.grid("InputMean"), records.grid("InputMean")
        assert grid.modules == same.modules == ("0", "2")
        assert (grid.values == same.values).all()
        directions = dict(zip(run.to_numpy()["quantity"], run.to_numpy()["direction"], strict=True))
    assert directions["InputMean"] == "forward"
    assert directions["WeightNorm"] == "parameter"
    assert directions["loss"] == ""


def test_a_run_can_be_resumed_by_its_start_step(tmp_path):
    model = nn.Linear(4, 2)
    for start, steps in ((0, range(6)), (4, range(4, 8))):
        watching = taiyi_fx.instrument(model, {"": ["InputMean"]}, run=tmp_path, start_step=start)
        trained(watching, steps).monitor.close()
    with taiyi_fx.open_run(tmp_path) as run:
        assert run.series("", "InputMean").steps.tolist() == list(range(8))
    with pytest.raises(FileExistsError, match="steps 0 to 7"):
        taiyi_fx.instrument(model, {"": ["InputMean"]}, run=tmp_path)


@pytest.mark.parametrize("run", [3, Store])
def test_a_run_is_a_path(run):
    with pytest.raises(TypeError, match="a run is kept in a folder: a path belongs here, not"):
        watched(run=run)


def test_warnings_and_non_finite_sites_are_events_of_the_run(tmp_path):
    model = nn.Linear(4, 2)
    model.weight.requires_grad_(False)
    model = taiyi_fx.instrument(model, {"": ["WeightGradNorm", "NonFinite"]}, run=tmp_path)
    model(torch.full((3, 4), torch.nan)).sum().backward()
    with pytest.warns(MonitorWarning):
        model.monitor.track(0)
    model.monitor.close()
    with taiyi_fx.open_run(tmp_path) as run:
        kinds = {event.kind: event.text for event in run.events}
    assert "WeightGradNorm: weight is frozen" in kinds["warning"]
    assert "the first NaN or Inf" in kinds["non_finite"]


@pytest.mark.parametrize(
    "reading", [taiyi_fx.output.norm, taiyi_fx.output.spectrum], ids=["prompt", "aside"]
)
def test_a_warning_is_an_event_of_the_step_that_lacks_the_value(tmp_path, reading):
    calls = []

    @taiyi_fx.quantity(x=reading)
    def fails_at_two(x):
        calls.append(x)
        if len(calls) == 3:
            raise ZeroDivisionError("at two")
        return torch.ones(())

    model = taiyi_fx.instrument(nn.Linear(4, 2), {"": [fails_at_two]}, run=tmp_path)
    with pytest.warns(MonitorWarning, match="ZeroDivisionError: at two"):
        trained(model, range(5)).monitor.close()
    with taiyi_fx.open_run(tmp_path) as run:
        assert [(event.step, event.kind) for event in run.events] == [(2, "warning")]


def test_records_in_memory_are_bounded_and_those_in_the_run_are_not(tmp_path, monkeypatch):
    monkeypatch.setattr(queue, "_KEPT_NUMBERS", 10)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = trained(watched(run=tmp_path), range(40))
    assert 9 <= len(model.monitor.records) <= 10
    assert model.monitor.records[-1].step == 39
    assert len(model.monitor.records) + model.monitor.records.dropped == 40
    model.monitor.close()
    with taiyi_fx.open_run(tmp_path) as run:
        assert len(run.series("", "InputMean").steps) == 40


def test_dropping_records_that_are_nowhere_else_is_told_once(monkeypatch):
    monkeypatch.setattr(queue, "_KEPT_NUMBERS", 10)
    with pytest.warns(MonitorWarning, match=r"run='runs/name'.* keeps all") as caught:
        trained(watched(), range(40))
    assert len(caught) == 1


class Interrupted(Diary):
    """Is interrupted as it closes for the first time."""

    def close(self):
        super().close()
        if self.notes.count("close") == 1:
            raise KeyboardInterrupt


@pytest.mark.parametrize("strict", [False, True])
def test_a_writer_that_fails_keeps_no_other_from_its_data(tmp_path, strict):
    model = watched(Diary(raises=("write", "close")), Store(tmp_path), strict=strict)
    for step in range(2):
        model(torch.randn(3, 4)).sum().backward()
        with pytest.raises(ZeroDivisionError) if strict else warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.monitor.track(step)
    with pytest.raises(ZeroDivisionError) if strict else warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.monitor.close()
    with taiyi_fx.open_run(tmp_path) as run:
        assert run.series("", "InputMean").steps.tolist() == [0, 1]


def test_an_interrupt_while_one_writer_closes_lets_the_others_close(tmp_path):
    model = trained(watched(Interrupted(), Store(tmp_path)), range(2))
    with pytest.raises(KeyboardInterrupt):
        model.monitor.close()
    with taiyi_fx.open_run(tmp_path) as run:
        assert run.series("", "InputMean").steps.tolist() == [0, 1]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_fork_has_no_part_in_the_run(tmp_path):
    notes = tmp_path / "notes"
    diary = Diary()
    diary.flush = lambda: notes.write_text("flush")
    model = trained(watched(diary), range(1))
    if not os.fork():
        model.monitor.close()
        os._exit(0)
    os.wait()
    assert not notes.exists()
    model.monitor.close()
    assert notes.read_text() == "flush"


@pytest.mark.parametrize("writers", ["tensorboard", Diary()])
def test_writers_come_as_a_list(writers):
    with pytest.raises(TypeError, match=r"writers is a list, as in \[CSV\(path\)\], not"):
        taiyi_fx.instrument(nn.Linear(4, 2), {"": ["InputMean"]}, writers=writers)


def test_events_are_kept_for_writers_alone():
    diary = Diary()
    model = taiyi_fx.instrument(nn.Linear(2, 2), {"": ["NonFinite"]})
    for step in range(2):
        model(torch.full((1, 2), torch.nan))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.monitor.track(step)
    model.monitor.add_writer(diary)
    model.monitor.close()
    assert not any(batch.events for batch in diary.batches)
