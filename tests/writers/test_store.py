"""The run store and its like in Parquet: what is written comes back, and nothing else is there."""

import gc
import json
import math
import os
import sqlite3
import threading

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from hypothesis import given
from torch import nn

import taiyi_fx
from taiyi_fx.records.record import Block, Event, Record
from taiyi_fx.writers import Batch, EpochEnd, Store
from tests.writers.round_trip import HOSTILE, comes_back, half, records, unhurried
from tests.writers.runs import FORMATS, info, numbers, opened, trained, written

both = pytest.mark.parametrize("kind", FORMATS)


@half
@given(records(2**64))
@unhurried
def test_what_is_stored_comes_back(tmp_path, made):
    comes_back(Store, tmp_path, made)


@both
def test_hostile_names_of_modules_and_quantities_are_only_names(kind, tmp_path):
    names = [name for name in HOSTILE if name and "." not in name]
    model = nn.Sequential()
    for name in names:
        model.add_module(name, nn.Linear(4, 4))
    model = taiyi_fx.instrument(model, {nn.Linear: ["InputMean"]}, writers=[kind(tmp_path / "r")])
    trained(model, range(2), **{name or "loss": 1.0 for name in HOSTILE}).monitor.close()
    with taiyi_fx.open_run(tmp_path / "r") as run:
        for name in names:
            assert len(run.series(name, "InputMean").steps) == 2
        for name in HOSTILE:
            assert run.series("", name or "loss").values.tolist() == [1, 1]
        assert run.grid("InputMean").modules == tuple(names)
        assert run.grid("InputMean").values.tolist() == (
            model.monitor.records.grid("InputMean").values.tolist()
        )
        assert len(run.to_pandas()) == len(run.to_polars()) == len(model.monitor.records)
        assert len(str(run).splitlines()) >= len(names) + len(HOSTILE)
    assert [p.name for p in tmp_path.iterdir()] == ["r"]


def test_a_second_call_is_told_from_a_module_named_like_one(tmp_path):
    writer = Store(tmp_path)
    writer.open(info(modules=["fc", "fc@1"]))
    writer.write(Batch(0, [Block(0, "train", (("fc@1", "q"), ("fc@2", "q")), [1.0, 2.0])]))
    writer.close()
    db = sqlite3.connect(tmp_path / "run.sqlite")
    assert db.execute("SELECT module, call FROM series ORDER BY id").fetchall() == [
        ("fc@1", 0),
        ("fc", 2),
    ]
    db.close()
    with taiyi_fx.open_run(tmp_path) as run:
        assert run.series("fc", "q", call=2) == run.series("fc@2", "q") == ([0], [2])
        assert run.modules == ["fc@1", "fc@2"]


def test_the_view_is_one_line_for_pandas_and_polars(tmp_path):
    values = [1.5, math.nan, math.inf, -math.inf]
    written(Store, tmp_path, [numbers(3, values, epoch=2)])
    db = sqlite3.connect(tmp_path / "run.sqlite")
    one = pd.read_sql("SELECT * FROM points", db)
    two = pl.read_database("SELECT * FROM points", db).to_pandas()
    db.close()
    for table in (one, two):
        np.testing.assert_array_equal(table["value"].to_numpy(), values)
        assert table["flag"].fillna("").tolist() == ["", "NaN", "+Inf", "-Inf"]
        assert table["module"].tolist() == ["a", "b", "c", "d"]
        assert set(table["step"]) == {3}
        assert set(table["epoch"]) == {2}


@both
def test_frames_have_the_columns_of_the_view(kind, tmp_path):
    written(kind, tmp_path, [numbers(0, [1.0, math.inf]), numbers(1, [2.0], mode="eval")])
    with taiyi_fx.open_run(tmp_path) as run:
        columns = run.to_numpy()
        assert (
            run.to_pandas()["flag"].tolist()
            == run.to_polars()["flag"].to_list()
            == ["", "+Inf", ""]
        )
        assert list(run.to_pandas()) == run.to_polars().columns == list(columns)
        assert columns["mode"].tolist() == ["train", "train", "eval"]
    store = tmp_path / "store"
    written(Store, store, [numbers(0, [1.0])])
    db = sqlite3.connect(store / "run.sqlite")
    assert list(pd.read_sql("SELECT * FROM points", db)) == list(columns)
    db.close()


@both
def test_what_is_known_of_a_run_is_there_and_of_no_host(kind, tmp_path):
    torch.manual_seed(2**64 - 1)
    cfg = {"0": [["InputMean", "linear(2, 1)"]]}
    model = taiyi_fx.instrument(nn.Sequential(nn.Linear(4, 2)), cfg, writers=[kind(tmp_path)])
    trained(model, range(2)).monitor.close()
    with taiyi_fx.open_run(tmp_path) as run:
        assert run.seed == 2**64 - 1
        assert run.model == "torch.nn.modules.container.Sequential"
        assert [(c["module"], c["quantity"]) for c in run.config] == [("0", "InputMean")]
        assert run.versions["torch"] == torch.__version__
        assert repr(run) == f"<Run '{tmp_path}': {run.model}, 1 series>"
        text = str([session._asdict() for session in run.sessions])
        assert repr(run.sessions) == (
            f"[Session(start_step=0, model={run.model!r}, config=<1 quantities>, "
            f"versions={run.versions!r}, seed={2**64 - 1})]"
        )
    assert "InputMean" in text
    assert os.uname().nodename not in text
    assert os.getcwd() not in text


@both
def test_a_resumed_run_drops_what_lies_at_its_first_step_and_beyond(kind, tmp_path):
    tensor = [Record(step, "a", "t", torch.ones(2)) for step in range(6)]
    first = [
        numbers(s, [float(s)], records=[tensor[s]], events=[Event(s, "warning", "a", f"{s}")])
        for s in range(6)
    ]
    written(kind, tmp_path, first)
    written(kind, tmp_path, [numbers(4, [40.0]), numbers(5, [50.0, 1.0])], start_step=4)
    with taiyi_fx.open_run(tmp_path) as run:
        assert run.series("a", "q").values.tolist() == [0, 1, 2, 3, 40, 50]
        assert run.series("b", "q").values.tolist() == [1]
        assert list(run.tensors("a", "t")) == [0, 1, 2, 3]
        assert [e.step for e in run.events] == [0, 1, 2, 3]
        assert [session.start_step for session in run.sessions] == [0, 4]
        assert run.modules == ["a", "b"]


@both
def test_a_run_resumed_twice_at_a_step_has_it_once(kind, tmp_path):
    for start in (0, 2, 2, 1):
        written(kind, tmp_path, [numbers(s, [10.0 * start + s]) for s in range(start, 4)], start)
    with taiyi_fx.open_run(tmp_path) as run:
        assert run.series("a", "q").values.tolist() == [0, 11, 12, 13]
        assert [session.start_step for session in run.sessions] == [0, 1]


def as_schema_1(kind, path):
    """Makes of a run what it was before series had a rule of health."""
    if kind is FORMATS[1]:
        head = json.loads((path / "run.json").read_text())
        rows = [row[:-1] for row in head["series"]]
        (path / "run.json").write_text(json.dumps({**head, "version": 1, "series": rows}))
        return
    db = sqlite3.connect(path / "run.sqlite")
    db.execute("ALTER TABLE series DROP COLUMN health")
    db.execute("PRAGMA user_version = 1")
    db.close()


@both
def test_a_run_of_the_schema_before_is_read_and_resumed(kind, tmp_path):
    written(kind, tmp_path, [numbers(0, [1.0])])
    as_schema_1(kind, tmp_path)
    with taiyi_fx.open_run(tmp_path) as run:
        assert run.series("a", "q").values.tolist() == [1]
        assert [one.health for one in run.source.series()] == [""]
    written(kind, tmp_path, [numbers(1, [2.0, 3.0])], 1)
    with taiyi_fx.open_run(tmp_path) as run:
        assert run.series("a", "q").values.tolist() == [1, 2]
        assert [one.health for one in run.source.series()] == ["", ""]


@both
def test_a_run_is_not_overwritten_unless_asked(kind, tmp_path):
    written(kind, tmp_path, [numbers(3, [1.0]), numbers(7, [1.0])])
    with pytest.raises(FileExistsError) as error:
        opened(kind, tmp_path)
    text = str(error.value)
    assert str(tmp_path) in text
    assert "a run of torch.nn.modules.container.Sequential already, steps 3 to 7" in text
    assert "start_step=8" in text
    assert 'resume="auto"' in text
    assert (
        f"by overwrite=True, which a writer of your own takes itself: {kind.__name__}(path, "
        in text
    )
    written(kind, tmp_path, [numbers(0, [2.0])], overwrite=True)
    with taiyi_fx.open_run(tmp_path) as run:
        assert run.series("a", "q") == ([0], [2])
        assert len(run.sessions) == 1


@both
def test_a_run_that_ended_before_its_first_record_is_begun_again(kind, tmp_path):
    written(kind, tmp_path, [])
    written(kind, tmp_path, [numbers(0, [1.0])])
    with taiyi_fx.open_run(tmp_path) as run:
        assert len(run.sessions) == 1
        assert run.series("a", "q") == ([0], [1])


@both
def test_an_epoch_gets_the_number_that_it_ended_with(kind, tmp_path):
    tensor = Record(1, "a", "t", torch.ones(1))
    batches = [
        numbers(0, [0.0], records=[tensor]),
        numbers(1, [0.0]),
        Batch(0, ended=EpochEnd(0, 7, ())),
        numbers(2, [0.0], epoch=8),
        Batch(8, ended=EpochEnd(8, 0, ())),
        numbers(3, [0.0], epoch=1),
        Batch(1, ended=EpochEnd(1, 1, ())),
        numbers(4, [0.0], epoch=0),
        Batch(0, ended=EpochEnd(0, 9, ())),
    ]
    written(kind, tmp_path / "flushed", batches)
    at_once = opened(kind, tmp_path / "at once")
    for batch in batches:
        at_once.write(batch)
    at_once.close()
    for folder in ("flushed", "at once"):
        with taiyi_fx.open_run(tmp_path / folder) as run:
            assert run.to_numpy()["epoch"].tolist() == [7, 7, 0, 1, 9]
            assert run.epochs == [(7, 0, 1), (0, 2, 2), (1, 3, 3), (9, 4, 4)]


@both
def test_a_resumed_epoch_ends_as_one(kind, tmp_path):
    ends = {e: Batch(e, ended=EpochEnd(e, e, ())) for e in range(2)}
    first = [
        numbers(0, [0.0]),
        ends[0],
        numbers(1, [0.0], epoch=1),
        numbers(2, [0.0], epoch=1),
        ends[1],
    ]
    written(kind, tmp_path, first)
    second = [numbers(2, [0.0]), numbers(3, [0.0]), Batch(0, ended=EpochEnd(0, 1, ()))]
    written(kind, tmp_path, second, start_step=2)
    with taiyi_fx.open_run(tmp_path) as run:
        assert run.epochs == [(0, 0, 0), (1, 1, 3)]
        assert run.to_numpy()["epoch"].tolist() == [0, 1, 1, 1]


@both
def test_an_epoch_without_numbers_has_no_steps(kind, tmp_path):
    written(kind, tmp_path, [Batch(0, ended=EpochEnd(0, 0, ()))])
    with taiyi_fx.open_run(tmp_path) as run:
        assert run.epochs == [(0, None, None)]


@both
def test_an_epoch_after_a_resume_has_all_its_steps(kind, tmp_path):
    ends = [Batch(e, ended=EpochEnd(e, e, ())) for e in range(2)]
    tensors = [[Record(s, "a", "t", torch.ones(1))] for s in range(10)]
    written(kind, tmp_path, [*(numbers(s, [0.0], records=tensors[s]) for s in range(10)), *ends])
    again = [numbers(s, [0.0], records=tensors[s]) for s in range(5, 10)]
    written(kind, tmp_path, [*again, Batch(0, ended=EpochEnd(0, 7, ()))], start_step=5)
    with taiyi_fx.open_run(tmp_path) as run:
        assert run.epochs == [(1, None, None), (7, 5, 9)]
        assert run.to_numpy()["epoch"].tolist() == [0] * 5 + [7] * 5


def test_a_closed_store_is_one_file_with_columns(tmp_path):
    writer = opened(Store, tmp_path)
    writer.write(numbers(0, [1.0]))
    writer.flush()
    assert (tmp_path / "run.sqlite-wal").exists()
    writer.close()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run.lock", "run.sqlite"]
    db = sqlite3.connect(tmp_path / "run.sqlite")
    assert db.execute("SELECT numbers FROM packed").fetchall() == [(1,)]
    db.close()


@both
def test_a_fork_of_the_process_writes_nothing(kind, tmp_path):
    writer = opened(kind, tmp_path)
    writer.write(numbers(0, [1.0]))
    child = os.fork()
    if not child:
        writer.write(numbers(1, [1.0]))
        writer.flush()
        writer.close()
        del writer
        gc.collect()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    with pytest.raises(BlockingIOError):
        opened(kind, tmp_path)
    writer.write(numbers(2, [1.0]))
    writer.close()
    with taiyi_fx.open_run(tmp_path) as run:
        assert run.series("a", "q").steps.tolist() == [0, 2]


@both
def test_another_thread_may_end_a_run(kind, tmp_path):
    writer = opened(kind, tmp_path)
    writer.write(numbers(0, [1.0]))
    thread = threading.Thread(target=writer.close)
    thread.start()
    thread.join()
    with taiyi_fx.open_run(tmp_path) as run:
        assert len(run.series("a", "q").steps) == 1
