"""The run store and its like in Parquet: what is written comes back, and nothing else is there."""

import gc
import json
import math
import os
import sqlite3
import subprocess
import sys
import threading

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

import taiyi_fx
from taiyi_fx.records.record import Block, Event, Record
from taiyi_fx.writers import Batch, EpochEnd, Parquet, Store, buffer
from tests.writers.runs import FORMATS, info, numbers, opened, trained, written

both = pytest.mark.parametrize("kind", FORMATS)

HOSTILE = [
    "", "fc", "fc@1", "fc@01", "fc@0", "fc@" + "9" * 5000, "'; DROP TABLE point;--", "../../x",
    "a\x00b", "\\x00", "a\\b", "\\ud800", "\ud800", "x\udfff\\", "🦜", "n" * 10_000, "a\nb", '"', "%s?*",
]  # fmt: skip
# By their places: long names would stand in what hypothesis says of a strategy.
NAMES = st.sampled_from(range(len(HOSTILE))).map(lambda i: HOSTILE[i]) | st.text(
    st.characters(exclude_categories=()), max_size=5
)
STEPS = st.integers(-(2**63), 2**63 - 1) | st.integers(0, 3)
FLOATS = st.floats() | st.sampled_from([math.nan, math.inf, -math.inf, -0.0, 5e-324])
DTYPES = [
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.float8_e4m3fn,
    torch.float8_e5m2, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8,
    torch.uint16, torch.uint32, torch.uint64, torch.bool, torch.complex64, torch.complex128,
    torch.complex32,
]  # fmt: skip


@st.composite
def tensors(draw):
    shape = draw(st.lists(st.integers(0, 3), max_size=3))
    dtype = draw(st.sampled_from(DTYPES))
    drawn = torch.Generator().manual_seed(draw(st.integers(0, 99)))
    wide = torch.complex128 if dtype.is_complex else torch.float64
    values = torch.randn(shape, dtype=wide, generator=drawn)
    values[values.abs() < 0.2] = math.nan if dtype.is_floating_point else 1
    if not dtype.is_floating_point and not dtype.is_complex:
        return (values.abs() * 50).to(torch.int64).to(dtype)
    return values.to(dtype)


def records(largest):
    whole = st.integers(-(2**63), largest) | st.booleans()
    modes = st.sampled_from(["train", "eval"])
    scalars = st.builds(Record, STEPS, NAMES, NAMES.map("n{}".format), FLOATS | whole, modes)
    arrays = st.builds(Record, STEPS, NAMES, NAMES.map("t{}".format), tensors(), modes)
    return st.lists(scalars | arrays, max_size=12)


def comes_back(kind, path, made):
    """Writes records in two batches, once by one and once as blocks, and compares."""
    half = len(made) // 2
    blocks = [
        Block(r.step, r.mode, ((r.module, r.quantity),), [r.value])
        for r in made[half:]
        if not isinstance(r.value, torch.Tensor)
    ]
    rest = [r for r in made[half:] if isinstance(r.value, torch.Tensor)]
    writer = kind(path, overwrite=True)
    writer.open(info(start_step=0))
    writer.write(Batch(0, records=made[:half]))
    writer.write(Batch(0, blocks, rest))
    writer.close()
    with taiyi_fx.open_run(path) as run:
        for key in {(r.module, r.quantity, r.mode) for r in made}:
            found = [r for r in made if (r.module, r.quantity, r.mode) == key]
            if key[1].startswith("t"):
                same_tensors(run.tensors(*key), {r.step: r.value for r in found})
            else:
                same_numbers(run.series(*key), sorted(found, key=lambda r: r.step))
        assert set(run.modules) == {r.module for r in made}
        assert set(run.quantities) == {r.quantity for r in made}
        assert len(run.to_numpy()["value"]) == sum(r.quantity[0] == "n" for r in made)


def same_numbers(curve, records):
    assert curve.steps.tolist() == [r.step for r in records]
    values = [r.value for r in records]
    if any(isinstance(v, float) for v in values):
        values = [float(v) for v in values]
    assert repr(curve.values.tolist()) == repr(
        [int(v) if isinstance(v, bool) else v for v in values]
    )


def same_tensors(found, expected):
    assert found.keys() == expected.keys()
    for step, tensor in expected.items():
        wide = tensor
        if tensor.is_floating_point() or tensor.is_complex():
            wide = tensor.to(torch.complex128 if tensor.is_complex() else torch.float64)
        assert found[step].shape == tuple(tensor.shape)
        assert repr(found[step].astype(wide.numpy().dtype).tolist()) == repr(wide.tolist())


half = pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
unhurried = settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@half
@given(records(2**64))
@unhurried
def test_what_is_stored_comes_back(tmp_path, made):
    comes_back(Store, tmp_path, made)


@half
@given(records(2**63 - 1))
@unhurried
def test_what_is_in_parquet_comes_back(tmp_path, made):
    comes_back(Parquet, tmp_path, made)


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


def test_the_parts_are_one_line_for_pandas_and_polars(tmp_path):
    values = [1.5, math.nan, math.inf, -math.inf]
    written(Parquet, tmp_path, [numbers(3, values, epoch=2), numbers(4, [7, 2**60])])
    parts = pl.read_parquet(tmp_path / "points-*.parquet")
    np.testing.assert_array_equal(parts["value"].to_numpy(), [*values, 7, 2.0**60])
    assert parts["integer"].to_list() == [None] * 4 + [7, 2**60]
    assert parts["flag"].to_list() == [None, "NaN", "+Inf", "-Inf", None, None]
    one = pd.read_parquet(sorted(tmp_path.glob("points-*.parquet"))[0])
    assert one["module"].tolist() == ["a", "b", "c", "d"]


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
        text = str([life._asdict() for life in run.lives])
        assert repr(run.lives) == (
            f"[Life(start_step=0, model={run.model!r}, config=<1 quantities>, "
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
        assert [life.start_step for life in run.lives] == [0, 4]
        assert run.modules == ["a", "b"]


@both
def test_a_run_resumed_twice_at_a_step_has_it_once(kind, tmp_path):
    for start in (0, 2, 2, 1):
        written(kind, tmp_path, [numbers(s, [10.0 * start + s]) for s in range(start, 4)], start)
    with taiyi_fx.open_run(tmp_path) as run:
        assert run.series("a", "q").values.tolist() == [0, 11, 12, 13]
        assert [life.start_step for life in run.lives] == [0, 1]


def as_schema_1(kind, path):
    """Makes of a run what it was before series had a rule of health."""
    if kind is Parquet:
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
    assert f"writers=[{kind.__name__}(path, overwrite=True)]" in text
    written(kind, tmp_path, [numbers(0, [2.0])], overwrite=True)
    with taiyi_fx.open_run(tmp_path) as run:
        assert run.series("a", "q") == ([0], [2])
        assert len(run.lives) == 1


@both
def test_a_run_that_ended_before_its_first_record_is_begun_again(kind, tmp_path):
    written(kind, tmp_path, [])
    written(kind, tmp_path, [numbers(0, [1.0])])
    with taiyi_fx.open_run(tmp_path) as run:
        assert len(run.lives) == 1
        assert run.series("a", "q") == ([0], [1])


@both
def test_a_second_writer_is_refused_while_the_first_lives(kind, tmp_path):
    first = opened(kind, tmp_path)
    with pytest.raises(BlockingIOError, match=r"another writer has .* open.*monitor.close\(\)"):
        opened(kind, tmp_path, start_step=1)
    first.close()
    opened(kind, tmp_path).close()


def test_a_second_writer_in_another_process_is_refused(tmp_path):
    first = opened(Store, tmp_path)
    code = (
        "import sys; from tests.writers.runs import *\n"
        "try: opened(Store, sys.argv[1])\n"
        "except BlockingIOError: sys.exit(7)"
    )
    assert subprocess.run([sys.executable, "-c", code, tmp_path], check=False).returncode == 7
    first.close()


def test_both_formats_share_a_folder(tmp_path):
    model = taiyi_fx.instrument(
        nn.Linear(4, 2), {"": ["InputMean"]}, run=tmp_path, writers=[Parquet(tmp_path)]
    )
    trained(model, range(2)).monitor.close()
    with taiyi_fx.open_run(tmp_path) as run:
        assert len(run.series("", "InputMean").steps) == 2
    assert len(list(tmp_path.glob("points-*.parquet"))) == 1


@both
def test_ranks_above_the_first_have_folders_of_their_own(kind, tmp_path):
    for rank in (0, 2):
        writer = kind(tmp_path)
        writer.open(info(rank=rank))
        writer.write(numbers(0, [float(rank)]))
        writer.close()
    for rank, folder in ((0, tmp_path), (2, tmp_path / "rank2")):
        with taiyi_fx.open_run(folder) as run:
            assert run.series("a", "q") == ([0], [rank])


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


@both
def test_a_step_of_more_than_64_bits_is_told_and_the_rest_stored(kind, tmp_path):
    writer = opened(kind, tmp_path)
    blocks = [Block(s, "train", (("a", "q"),), [1.0]) for s in (2**63, 1)]
    with pytest.raises(ValueError, match="the step 9223372036854775808 has more than 64 bits"):
        writer.write(Batch(0, blocks, events=[Event(-(2**63) - 1, "warning", "", "")]))
    with pytest.raises(ValueError, match=f"the epoch {2**70} has more than 64 bits"):
        writer.write(Batch(0, ended=EpochEnd(0, 2**70, ())))
    with pytest.raises(ValueError, match=f"the epoch {2**71} has more than 64 bits"):
        writer.write(numbers(1, [1.0], epoch=2**71))
    writer.close()
    with taiyi_fx.open_run(tmp_path) as run:
        assert run.series("a", "q") == ([1], [1])


def test_a_tensor_too_large_for_a_file_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(buffer, "_LARGEST", 100)
    writer = opened(Store, tmp_path)
    with pytest.raises(ValueError, match="a tensor at step 3 takes 104 bytes"):
        writer.write(Batch(0, records=[Record(3, "a", "t", torch.ones(26))]))
    writer.close()


@both
def test_many_numbers_do_not_wait_for_the_clock(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(buffer, "FULL", 10)
    monkeypatch.setattr(buffer, "SLICE", 4)
    writer = opened(kind, tmp_path)
    for step in range(4):
        writer.write(numbers(step, [1.0, 2.0, 3.0]))
    with taiyi_fx.open_run(tmp_path) as run:
        assert run.to_numpy()["step"].tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]
    writer.close()


def test_a_closed_store_is_one_file_with_an_index(tmp_path):
    writer = opened(Store, tmp_path)
    writer.write(numbers(0, [1.0]))
    writer.flush()
    assert (tmp_path / "run.sqlite-wal").exists()
    writer.close()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run.lock", "run.sqlite"]
    db = sqlite3.connect(tmp_path / "run.sqlite")
    plan = db.execute("EXPLAIN QUERY PLAN SELECT step, value FROM points WHERE module = 'a'")
    assert "USING COVERING INDEX point_of_series" in str(plan.fetchall())
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


@both
@pytest.mark.parametrize(("path", "error"), [(3, TypeError), (None, TypeError), ("", ValueError)])
def test_what_is_no_folder_is_refused_at_once(kind, path, error):
    with pytest.raises(error, match="a run is kept in a folder"):
        kind(path)


def test_a_missing_pyarrow_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"pip install 'taiyi-fx\[parquet\]'"):
        Parquet(tmp_path).open(info())
