"""Numbers read from columns are those of the rows, whatever was recorded."""

import sqlite3
import zlib
from contextlib import closing

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import taiyi_fx
from taiyi_fx.runs import packed
from taiyi_fx.writers import Batch, EpochEnd, Store
from tests.writers.runs import numbers, opened, written

VALUES = {
    "real": st.floats(),
    "whole": st.integers(-(2**53), 2**53),
    "wide": st.integers(-(2**70), 2**70),
    "mixed": st.floats() | st.integers(-(2**70), 2**70),
}


@st.composite
def batches(draw):
    """Steps with numbers of some of four quantities, of one to three modules; some end an epoch."""
    found = []
    for epoch in range(draw(st.integers(1, 3))):
        for step in draw(st.lists(st.integers(0, 2**40), max_size=5)):
            quantity = draw(st.sampled_from([*VALUES]))
            values = draw(st.lists(VALUES[quantity], min_size=1, max_size=3))
            found.append(numbers(step, values, epoch, quantity=quantity))
        found.append(Batch(epoch, ended=EpochEnd(epoch, draw(st.integers(0, 9)), ())))
    return found


def everything(folder):
    """All that a run's numbers can be asked for."""
    with taiyi_fx.open_run(folder) as run:
        source = run.source
        ids = [s.id for s in source.series()]
        slices = [*source.slices()]
        return {
            "numpy": run.to_numpy(),
            "some": source.points(ids[::2]),
            "spans": source.spans(),
            "curves": [source.curve(i) for i in ids],
            "slices": [np.concatenate(x) for x in [*zip(*slices, strict=True)][:3]],
            "mark": [s.mark for s in slices][-1:],
        }


def assert_same(one, other):
    np.testing.assert_equal(one, other)
    for a, b in zip(one["curves"], other["curves"], strict=True):
        assert a.values.dtype == b.values.dtype


@settings(max_examples=50)
@given(rows=st.sampled_from([1, 3, 1000]), batches=batches())
def test_columns_hold_what_rows_hold(rows, batches, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packed, "ROWS", rows)
        written(Store, folder, batches)
        closed = everything(folder)
        with closing(sqlite3.connect(folder / "run.sqlite", isolation_level=None)) as db:
            (count,) = db.execute("SELECT count(*) FROM point").fetchone()
            assert db.execute("SELECT coalesce(sum(numbers), 0) FROM packed").fetchone() == (count,)
            packed.drop_columns(db)
        assert_same(closed, everything(folder))


def test_a_run_that_is_resumed_is_read_as_rows_until_it_ends(tmp_path):
    written(Store, tmp_path, [numbers(step, [1.0, step]) for step in range(8)])
    writer = opened(Store, tmp_path, start_step=5)
    writer.write(numbers(5, [7.0, 8.0]))
    writer.flush()
    expected = [*range(5), 8.0]
    with taiyi_fx.open_run(tmp_path) as run:
        assert run.series("b", "q").values.tolist() == expected
    writer.close()
    with taiyi_fx.open_run(tmp_path) as run:
        assert run.series("b", "q").values.tolist() == expected


@pytest.mark.parametrize(
    "change", ["UPDATE point SET value = 9.0 WHERE step = 3", "DELETE FROM point WHERE step = 3"]
)
def test_rows_that_somebody_changes_count(tmp_path, change):
    written(Store, tmp_path, [numbers(step, [1.0]) for step in range(8)])
    with closing(sqlite3.connect(tmp_path / "run.sqlite", isolation_level=None)) as db:
        db.execute(change)
    with taiyi_fx.open_run(tmp_path) as run:
        values = run.series("a", "q").values.tolist()
    assert values == ([1.0] * 7 if "DELETE" in change else [1.0, 1.0, 1.0, 9.0, 1.0, 1.0, 1.0, 1.0])


def test_rows_that_somebody_adds_count(tmp_path):
    written(Store, tmp_path, [numbers(step, [1.0]) for step in range(8)])
    with closing(sqlite3.connect(tmp_path / "run.sqlite", isolation_level=None)) as db:
        db.execute("INSERT INTO point VALUES (3, 0, 1, 5.0)")
    with taiyi_fx.open_run(tmp_path) as run:
        steps, values = run.series("a", "q")
        assert run.to_numpy()["value"].tolist() == [1.0] * 8 + [5.0]
        assert len(run.grid("q").steps) == 8
    assert steps.tolist() == [0, 1, 2, 3, 3, 4, 5, 6, 7]
    assert values.tolist() == [1.0] * 4 + [5.0] + [1.0] * 4


def test_reading_goes_on_after_a_mark_within_columns(tmp_path, monkeypatch):
    monkeypatch.setattr(packed, "ROWS", 4)
    writer = opened(Store, tmp_path)
    for step in range(6):
        writer.write(numbers(step, [1.0]))
    writer.flush()
    with taiyi_fx.open_run(tmp_path) as run:
        (first,) = run.source.slices()
    for step in range(6, 10):
        writer.write(numbers(step, [2.0]))
    writer.close()
    with taiyi_fx.open_run(tmp_path) as run:
        rest = [s.step.tolist() for s in run.source.slices(first.mark)]
    assert rest == [[6, 7], [8, 9]]


PLACES = [("numbers", 0), ("numbers", 2**40), ("first", 5), ("last", 2), ("kind", "x")]
BLOBS = [
    ("places", b""),
    ("places", zlib.compress(bytes(8))),
    ("places", zlib.compress(bytes(10**7))),
    ("places", zlib.compress(bytes(8 * 3 * 8))),
    ("value", b""),
    ("value", bytes(8)),
]


@pytest.mark.parametrize(("column", "cell"), [*PLACES, *BLOBS])
def test_damaged_columns_are_told_with_the_file(tmp_path, column, cell):
    written(Store, tmp_path, [numbers(step, [1.0]) for step in range(8)])
    with closing(sqlite3.connect(tmp_path / "run.sqlite", isolation_level=None)) as db:
        db.execute(f"UPDATE packed SET {column} = ?", (cell,))
    with (
        taiyi_fx.open_run(tmp_path) as run,
        pytest.raises(ValueError, match="is damaged") as raised,
    ):
        run.series("a", "q")
    assert str(tmp_path) in str(raised.value)


@pytest.fixture(scope="module")
def closed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    written(Store, folder, [numbers(step, [step / 3, 1.0]) for step in range(20)])
    return folder


def changed(closed, folder, change):
    """A copy of a closed run of which one row of columns was changed."""
    (folder / "run.sqlite").write_bytes((closed / "run.sqlite").read_bytes())
    with closing(sqlite3.connect(folder / "run.sqlite")) as db, db:
        columns = ("numbers", "first_step", "last_step", "kind", "places", "value")
        row = db.execute(f"SELECT {', '.join(columns)} FROM packed WHERE series = 1").fetchone()
        for name, value in change(dict(zip(columns, row, strict=True))).items():
            db.execute(f"UPDATE packed SET {name} = ? WHERE series = 1", (value,))
    return folder


@pytest.mark.parametrize("bit", range(0, 8 * 164, 61))
def test_a_changed_bit_is_told(bit, closed, tmp_path):
    def change(cells):
        value = bytearray(cells["value"])
        assert len(value) == 8 * 20 + 4
        value[bit // 8] ^= 1 << bit % 8
        return {"value": bytes(value)}

    with (
        taiyi_fx.open_run(changed(closed, tmp_path, change)) as run,
        pytest.raises(ValueError, match=r"run\.sqlite.*the checksum of series 1 in the rows 1 to"),
    ):
        run.to_numpy()


@pytest.mark.parametrize("name", ["first_step", "last_step"])
def test_a_changed_cell_is_told(name, closed, tmp_path):
    with (
        taiyi_fx.open_run(changed(closed, tmp_path, lambda cells: {name: cells[name] + 1})) as run,
        pytest.raises(ValueError, match="checksum"),
    ):
        run.series("a", "q")


def test_columns_of_earlier_versions_without_a_checksum_are_read(closed, tmp_path):
    def change(cells):
        return {"kind": "real", "value": cells["value"][:-4]}

    with taiyi_fx.open_run(changed(closed, tmp_path, change)) as run:
        assert run.series("a", "q").values.tolist() == [step / 3 for step in range(20)]
