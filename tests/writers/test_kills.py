"""Runs whose process is killed at any of its calls, or whose calls fail: read, and resumed."""

import errno
import shutil
import sqlite3
from contextlib import closing, suppress

import pyarrow.parquet
import pytest
import torch

import taiyi_fx
from taiyi_fx.records.record import Event, Record
from taiyi_fx.writers import Batch, EpochEnd, Parquet
from tests.examples import some_or_all
from tests.writers.calls import calls_of, failed_at, killed_at, needs_tracing
from tests.writers.runs import FORMATS, numbers, opened

pytestmark = needs_tracing
both = pytest.mark.parametrize("kind", FORMATS)

SERIES = 10
OLD = {step: float(step) for step in range(50)}
FIRST = {step: value for step, value in OLD.items() if step < 8}
START = 24
NEW = {step: float(1000 + step) for step in range(START, START + 6)}
EPOCH = 7
"""The epoch's number, which the rows before its end don't have."""

FEW = 4
"""The calls at which a process is killed in the quick tests, evenly chosen."""


def distance(values):
    """The count of steps in a flush."""
    return 10 if len(values) > 20 else 2


def session(kind, folder, values, start=0):
    """A whole session: opened, flushed after some steps each, and closed at an epoch's end."""
    writer = opened(kind, folder, start_step=start)
    for step, value in values.items():
        tensor = Record(step, "a", "t", torch.full((2,), value))
        event = Event(step, "warning", "a", str(value))
        writer.write(numbers(step, [value] * SERIES, records=[tensor], events=[event]))
        if step % distance(values) == distance(values) - 1:
            writer.flush()
    writer.write(Batch(0, ended=EpochEnd(0, EPOCH, ())))
    writer.close()


def read(folder):
    """The number of each step, once all of its series agree, with the tensors and the events."""
    with taiyi_fx.open_run(folder) as run:
        table = run.to_numpy()
        found = dict(zip(table["step"].tolist(), table["value"].tolist(), strict=True))
        assert table["step"].tolist() == [step for step in found for _ in range(SERIES)]
        assert all(found[s] == v for s, v in zip(table["step"], table["value"], strict=True))
        has_tensors = ("a", "t") in {(x.module, x.quantity) for x in run.spans()}
        tensors = run.tensors("a", "t") if has_tensors else {}
        events = {event.step: float(event.text) for event in run.events}
        starts = [x.start_step for x in run.sessions]
        is_new = table["step"] >= starts[-1]
        assert set(table["epoch"][is_new]) <= ({EPOCH} if run.epochs else {0})
    return found, {step: x.tolist()[0] for step, x in tensors.items()}, events, starts


def check_is_prefix(found, whole, flushed):
    """Numbers, tensors and events are the beginning of what was written, in whole flushes."""
    points, tensors, events = found
    assert list(points.items()) == list(whole.items())[: len(points)]
    assert points == tensors == events
    assert len(points) in flushed


def steps_of_parts(folder):
    """The steps that others find by the names of files."""
    parts = [pyarrow.parquet.read_table(part) for part in sorted(folder.glob("points-*.parquet"))]
    return list(dict.fromkeys(step for part in parts for step in part["step"].to_pylist()))


def check_resumed(folder):
    """A run after a kill during its second session: as it was, or resumed and then a prefix.

    Gives what was found.
    """
    *found, starts = read(folder)
    if starts == [0]:
        assert all(x == OLD for x in found)
    else:
        assert starts == [0, START]
        kept = {step: value for step, value in OLD.items() if step < START}
        check_is_prefix(found, {**kept, **NEW}, range(START, START + len(NEW) + 1, 2))
    return found


def check_begun(kind, folder):
    """A run after a kill during its first session: none, or a prefix; gives what was found."""
    try:
        *found, starts = read(folder)
    except FileNotFoundError as error:
        assert "no run in" in str(error)  # noqa: PT017 - it may also be there
    except ValueError as error:
        assert "its run ended before it wrote" in str(error)  # noqa: PT017
    else:
        assert starts == [0]
        check_is_prefix(found, OLD, range(0, len(FIRST) + 1, 2))
        if kind is Parquet:
            globbed = steps_of_parts(folder)
            assert globbed == list(OLD)[: len(globbed)]
            assert len(globbed) <= len(found[0])
        return found
    return {}, {}, {}


def goes_on(kind, folder, start, before):
    """A further session after a kill is what it would have been without."""
    again = dict.fromkeys(range(start, start + 3), -1.0)
    session(kind, folder, again, start)
    *after, _ = read(folder)
    for old, found in zip(before, after, strict=True):
        assert found == {**{step: value for step, value in old.items() if step < start}, **again}
    if kind is Parquet:
        assert steps_of_parts(folder) == list(after[0])
        assert not list(folder.glob("*.tmp"))
    else:
        with closing(sqlite3.connect(folder / "run.sqlite")) as db:
            assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def chosen(calls, few):
    return (
        range(calls) if few is None else sorted({i * (calls - 1) // (few - 1) for i in range(few)})
    )


amounts = some_or_all("few", FEW, None)


@both
@amounts
def test_a_kill_during_a_resume_leaves_a_prefix_that_can_be_resumed(kind, few, tmp_path):
    session(kind, tmp_path / "whole", OLD)

    def resumed(folder):
        return lambda: session(kind, folder, NEW, START)

    counted = shutil.copytree(tmp_path / "whole", tmp_path / "counted")
    for call in chosen(calls_of(resumed(counted)), few):
        folder = shutil.copytree(tmp_path / "whole", tmp_path / str(call))
        killed_at(resumed(folder), call)
        goes_on(kind, folder, 15, check_resumed(folder))
        shutil.rmtree(folder)


@both
@amounts
def test_a_kill_during_a_first_session_leaves_a_prefix_that_can_be_resumed(kind, few, tmp_path):
    calls = calls_of(lambda: session(kind, tmp_path / "counted", FIRST))
    for call in chosen(calls, few):
        folder = tmp_path / str(call)
        folder.mkdir()
        killed_at(lambda folder=folder: session(kind, folder, FIRST), call)
        found = check_begun(kind, folder)
        goes_on(kind, folder, len(found[0]), found)
        shutil.rmtree(folder)


def flushed(folder, start=0):
    """A writer with a flush behind it, and another one that waits."""
    writer = opened(Parquet, folder, start)
    for step in range(start, start + 4):
        writer.write(numbers(step, [float(step)], **beside(step)))
        if step == start + 1:
            writer.flush()
    writer.write(Batch(0, ended=EpochEnd(0, EPOCH, ())))
    return writer


def beside(step):
    tensor = Record(step, "a", "t", torch.full((2,), float(step)))
    return {"records": [tensor], "events": [Event(step, "warning", "a", str(step))]}


def found_in(folder):
    """The steps of numbers, tensors and events, the epochs of numbers, and the epochs that ended."""
    with taiyi_fx.open_run(folder) as run:
        table = run.to_numpy()
        tensors = run.tensors("a", "t") if run.spans() else {}
        events = [event.step for event in run.events]
        epochs = [epoch.number for epoch in run.epochs]
        return table["step"].tolist(), list(tensors), events, set(table["epoch"].tolist()), epochs


BEFORE = ([0, 1], [0, 1], [0, 1], {0}, [])
AFTER = ([0, 1, 2, 3], [0, 1, 2, 3], [0, 1, 2, 3], {EPOCH}, [EPOCH])


@amounts
@pytest.mark.parametrize("way", ["flush", "close"])
def test_a_flush_of_parquet_counts_at_once_or_not_at_all(way, few, tmp_path):
    def ended(folder):
        return lambda: getattr(flushed(folder), way)()

    seen = []
    for call in calls_after_the_first(ended, few, tmp_path):
        folder = tmp_path / str(call)
        killed_at(ended(folder), call)
        seen.append(found_in(folder))
        start = len(seen[-1][0])
        flushed(folder, start).close()
        steps, tensors, events, epochs, ends = found_in(folder)
        assert steps == tensors == events == list(range(start + 4))
        assert (epochs, ends[-1]) == ({EPOCH}, EPOCH)
    happened = seen.index(AFTER)
    assert seen == [BEFORE] * happened + [AFTER] * (len(seen) - happened)
    assert 0 < happened < len(seen) - 1


@amounts
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_a_call_that_fails_in_parquet_loses_and_doubles_nothing(error, few, tmp_path):
    def ended(folder):
        def action():
            writer = flushed(folder)
            for _ in range(3):
                with suppress(OSError):
                    writer.flush()
                assert found_in(folder) in (BEFORE, AFTER)
            writer.write(numbers(4, [4.0], epoch=EPOCH + 1, **beside(4)))
            writer.close()

        return action

    for call in calls_after_the_first(
        lambda folder: lambda: flushed(folder).flush(), few, tmp_path
    ):
        folder = tmp_path / str(call)
        failed_at(ended(folder), call, error)
        steps, tensors, events, epochs, ends = found_in(folder)
        assert steps == tensors == events == [0, 1, 2, 3, 4]
        assert (epochs, ends) == ({EPOCH, EPOCH + 1}, [EPOCH])
        assert not list(folder.glob("*.tmp"))


def calls_after_the_first(action, few, tmp_path):
    """Calls of an action that is given a folder, from the first flush in it on."""
    begins = calls_of(lambda: flushed(tmp_path / "begun"))
    ends = calls_of(action(tmp_path / "counted"))
    return [begins + call for call in chosen(ends - begins, few)]
