"""Damaged runs: whatever a file holds, reading it gives values or an error that names the file."""

import json
import random
import shutil
import sqlite3
from contextlib import closing, suppress
from functools import partial

import pytest
import torch

import taiyi_fx
from taiyi_fx.records.record import Event, Record
from taiyi_fx.runs import sqlite
from taiyi_fx.writers import Batch, EpochEnd, Parquet, Store
from tests.examples import some_or_all
from tests.writers.runs import as_version_2, numbers, opened

CELLS = [
    None, -1, 2**62, 1.5, "", "x", "[[", "[" * 2000, "{}", '[{"a": 1}]', '"text"', "null", b"\xff\xfe", b"",
    "O", "M8[s]", "[-1]", "[1e3]", "9" * 5000, "\ud7ff",
]  # fmt: skip
FIRST = "rowid = (SELECT min(rowid) FROM {})"
LEAVES = [None, -1, 2**70, 1.5, "x", [], {}, [[]], [None], {"a": 1}, True]


def made(kind, folder):
    """A small run with everything: numbers, integers, a tensor, an event, an epoch, an outline."""
    tensor = Record(1, "b", "t", torch.arange(6).reshape(2, 3))
    event = Event(1, "warning", "a", "no value")
    batches = [
        numbers(0, [1.0, float("nan")]),
        numbers(1, [2, 3], quantity="n", records=[tensor], events=[event]),
        Batch(0, ended=EpochEnd(0, 0, ())),
    ]
    writer = opened(kind, folder)
    for batch in batches:
        writer.write(batch)
    writer.flush()  # with the outline
    writer.close()
    return folder


def read(_, folder):
    """Everything that a run can be asked for."""
    with taiyi_fx.open_run(folder) as run:
        asked = [
            lambda: [*run.sessions, *run.config, *run.versions.items(), run.model, run.seed],
            lambda: [run.modules, run.quantities, run.events, run.epochs, run.outline],
            lambda: [repr(run), str(run), run._repr_mimebundle_()],
            lambda: run.curves(run.spans()),
            lambda: [run.series("a", "q"), run.series("b", "n"), run.tensors("b", "t")],
            lambda: [run.grid("q"), run.to_numpy()],
            lambda: [list(run.source.slices()), run.source.shapes()],
        ]
        for ask in asked:
            asked_or_named(ask, folder)


def resume(kind, folder):
    """Writes on in a run, at its second step."""
    writer = opened(kind, folder, start_step=1)
    try:
        writer.write(numbers(1, [1.0, 2.0, 3.0]))
        writer.write(Batch(0, ended=EpochEnd(0, 1, ())))
        writer.flush()
    except Exception:
        with suppress(BufferError, ValueError):  # what was not written is lost
            writer.close()
        raise
    writer.close()


def asked_or_named(ask, folder):
    """Asks a damaged run; an error has to name the run, or to say what is not in it."""
    try:
        ask()
    except (OSError, ValueError, LookupError) as error:
        is_absent = type(error) is LookupError and str(error).startswith("no ")
        if not is_absent and str(folder) not in str(error):
            raise AssertionError(f"an error that does not name {folder}") from error


amounts = some_or_all("many", 40, 200)
both_ways = pytest.mark.parametrize("use", [read, resume], ids=["read", "resume"])


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A whole run in each format, to be copied and damaged."""
    place = tmp_path_factory.mktemp("whole")
    return {kind: made(kind, place / kind.__name__) for kind in (Store, Parquet)}


def damaged(whole, tmp_path, cases):
    """Fresh copies of a whole run, each with a generator of its own."""
    for case in range(cases):
        folder = tmp_path / str(case)
        shutil.copytree(whole, folder)
        yield folder, random.Random(case)
        shutil.rmtree(folder)


def test_a_whole_run_is_read(whole):
    for folder in whole.values():
        with taiyi_fx.open_run(folder) as run:
            assert len(run.to_numpy()["value"]) == 4
            assert run.tensors("b", "t")[1].tolist() == [[0, 1, 2], [3, 4, 5]]


@amounts
@both_ways
def test_cells_of_any_value_are_used_or_named(use, many, whole, tmp_path):
    with closing(sqlite3.connect(whole[Store] / "run.sqlite")) as db:
        tables = [
            name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type='table'")
        ]
        cells = [(t, row[1]) for t in tables for row in db.execute(f"PRAGMA table_info({t})")]
    for folder, rng in damaged(whole[Store], tmp_path, many):
        (table, column), value = rng.choice(cells), rng.choice(CELLS)
        with (
            closing(sqlite3.connect(folder / "run.sqlite")) as db,
            suppress(sqlite3.IntegrityError, UnicodeEncodeError),
            db,
        ):
            db.execute(f"UPDATE {table} SET {column} = ? WHERE {FIRST.format(table)}", (value,))
        asked_or_named(partial(use, Store, folder), folder)


def test_every_column_of_every_table_is_checked(whole, tmp_path):
    wrong = {
        "run": ["start_step", "model", "config", "versions", "seed"],
        "series": ["module", "call", "quantity", "mode", "direction", "unit"],
        "event": ["step", "kind", "module", "text"],
        "epoch": ["number", "first", "last"],
        "tensor": ["step", "dtype", "shape", "data"],
        "point": ["step", "series"],
    }
    asked = {
        "run": lambda run: run.sessions,
        "series": lambda run: run.modules,
        "event": lambda run: run.events,
        "epoch": lambda run: run.epochs,
        "tensor": lambda run: run.tensors("b", "t"),
        "point": lambda run: run.to_numpy(),
    }
    for table, columns in wrong.items():
        for column in columns:
            folder = tmp_path / table / column
            shutil.copytree(whole[Store], folder)
            with closing(sqlite3.connect(folder / "run.sqlite")) as db, db:
                db.execute(f"UPDATE {table} SET {column} = x'fffe' WHERE {FIRST.format(table)}")
            with (
                taiyi_fx.open_run(folder) as run,
                pytest.raises(ValueError, match=r"run.sqlite' is damaged"),
            ):
                asked[table](run)


@amounts
@pytest.mark.parametrize("kind", [Store, Parquet])
@both_ways
def test_bytes_of_any_value_are_used_or_named(use, kind, many, whole, tmp_path):
    for folder, rng in damaged(whole[kind], tmp_path, many if kind is Store else many // 3):
        file = rng.choice([f for f in sorted(folder.iterdir()) if f.suffix != ".lock"])
        data = bytearray(file.read_bytes())
        for _ in range(rng.choice([1, 4, 64])):
            data[rng.randrange(len(data))] = rng.randrange(256)
        file.write_bytes(bytes(data[: rng.choice([len(data), rng.randrange(len(data))])]))
        asked_or_named(partial(use, kind, folder), folder)


def leaves(value, path=()):
    """The paths of all values within values of JSON."""
    inner = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, part in inner:
        yield (*path, key)
        yield from leaves(part, (*path, key))


def read_outline(folder):
    with taiyi_fx.open_run(folder) as run:
        return run.outline


@amounts
@both_ways
@pytest.mark.parametrize("name", ["run.json", "outline.json"])
def test_any_json_is_used_or_named(name, use, many, whole, tmp_path):
    for folder, rng in damaged(whole[Parquet], tmp_path, many // 2):
        data = json.loads((folder / name).read_text())
        *path, last = rng.choice(list(leaves(data)))
        place = data
        for key in path:
            place = place[key]
        place[last] = rng.choice(LEAVES)
        (folder / name).write_text(json.dumps(data))
        asked_or_named(partial(use, Parquet, folder), folder)


@pytest.mark.parametrize("name", ["run.json", "outline.json"])
def test_json_of_any_depth_is_named(name, whole, tmp_path):
    folder = shutil.copytree(whole[Parquet], tmp_path / "run")
    (folder / name).write_text("[" * 100_000)
    with (
        pytest.raises(ValueError, match=f"{name}' is damaged"),
        taiyi_fx.open_run(folder) as run,
    ):
        run.outline  # noqa: B018 - it raises


def test_a_view_in_the_place_of_a_table_is_never_run(whole, tmp_path):
    folder = shutil.copytree(whole[Store], tmp_path / "run")
    endless = "WITH RECURSIVE t(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM t) SELECT i FROM t"
    with closing(sqlite3.connect(folder / "run.sqlite")) as db, db:
        db.execute("DROP VIEW points")
        db.execute("DROP TABLE event")
        db.execute(f"CREATE VIEW event (step) AS {endless}")
    with pytest.raises(ValueError, match=r"run.sqlite' is damaged.*'event' is not a table"):
        taiyi_fx.open_run(folder)


def test_a_query_that_takes_too_long_is_stopped(whole, tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite, "_LIMIT_SECONDS", -1.0)
    monkeypatch.setattr(sqlite, "_STEPS_BETWEEN_CHECKS", 1)
    with (
        taiyi_fx.open_run(whole[Store]) as run,
        pytest.raises(TimeoutError, match=r"run.sqlite': a query took too long"),
    ):
        run.to_numpy()


def test_functions_of_the_file_are_not_trusted(whole):
    with taiyi_fx.open_run(whole[Store]) as run:
        assert run.source._db.execute(  # pyright: ignore
            "PRAGMA trusted_schema"
        ).fetchone() == (0,)


@pytest.mark.parametrize("number", ["x", "²", ""])
def test_a_part_without_a_number_is_named(number, whole, tmp_path):
    folder = as_version_2(shutil.copytree(whole[Parquet], tmp_path / "run"))
    (part,) = folder.glob("points-*")
    part.rename(folder / f"points-{number}.parquet")
    with pytest.raises(ValueError, match=r"points-.*parquet' is no part of a run"):
        opened(Parquet, folder, start_step=1)
    asked_or_named(partial(resume, Parquet, folder), folder)


def test_a_part_that_is_missing_is_named(whole, tmp_path):
    folder = shutil.copytree(whole[Parquet], tmp_path / "run")
    (folder / "tensors-00000000.parquet").unlink()
    with pytest.raises(FileNotFoundError, match=r"tensors-00000000.parquet"):
        taiyi_fx.open_run(folder).tensors("b", "t")
    with pytest.raises(FileNotFoundError, match=r"tensors-00000000.parquet' is missing"):
        opened(Parquet, folder, start_step=2)


def test_a_trigger_is_never_run(whole, tmp_path):
    folder = shutil.copytree(whole[Store], tmp_path / "run")
    with closing(sqlite3.connect(folder / "run.sqlite")) as db, db:
        db.execute("CREATE TRIGGER t DELETE ON point BEGIN DELETE FROM event; END")
    with pytest.raises(ValueError, match=r"run.sqlite' is damaged: it has the trigger 't'"):
        opened(Store, folder, start_step=1)
    with taiyi_fx.open_run(folder) as run:
        assert len(run.events) == 1


WRONG_OUTLINES = [
    {"items": [{"kind": "module", "count": 0}]},
    {"items": [{"kind": "module", "marks": [1]}]},
    {"items": [{"kind": "modul"}]},
    {"items": [{"kind": "module", "label": 3}]},
    {"items": [{"kind": "module", "parent": 0}]},
    {"items": [{"kind": "module", "parent": -2}]},
    {"items": [{"kind": "module", "parent": 2**70}]},
    {"items": [{"kind": "module", "parent": 0.0}]},
    {"items": [{"kind": "module", "count": "x"}]},
    {"items": [{"kind": "module", "notes": [3]}]},
    {"items": [{"kind": "module", "marks": {"forward": [["q", 1]]}}]},
    {"items": [{"kind": "module", "marks": {"edits": [None]}}]},
    {"items": [{"kind": "module", "marks": {"sideways": []}}]},
    {"items": [{"kind": "module"}, {"kind": "module"}]},
    {"edges": [[0, 9]]},
    {"edges": [[0, -1]]},
    {"edges": [[0, 0, 3]]},
    {"edges": [[0]]},
    {"items": []},
]


@pytest.mark.parametrize("kind", [Store, Parquet])
@pytest.mark.parametrize("wrong", WRONG_OUTLINES, ids=str)
def test_an_outline_is_checked_as_it_is_read(kind, wrong, whole, tmp_path):
    folder = shutil.copytree(whole[kind], tmp_path / "run")
    right = {"items": [{"kind": "module", "parent": -1}], "edges": []}
    text = json.dumps({**right, **wrong})
    if kind is Parquet:
        (folder / "outline.json").write_text(text)
    else:
        with closing(sqlite3.connect(folder / "run.sqlite")) as db, db:
            db.execute("UPDATE outline SET data = ?", (text,))
    with pytest.raises(ValueError, match=r"(run.sqlite|outline.json)' is damaged"):
        read_outline(folder)
