"""A run's file is replaced at once, and other files are left alone."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import taiyi_fx
from taiyi_fx.writers import Store
from taiyi_fx.writers.replace import replace
from tests.writers.runs import numbers, opened, written


def steps(folder):
    with taiyi_fx.open_run(folder) as run:
        return run.series("a", "q").steps.tolist()


def test_other_files_stay_and_nothing_else_is_left(tmp_path):
    written(Store, tmp_path, [numbers(3, [1.0])])
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "run.sqlite.new").write_text("of a process that was killed")
    written(Store, tmp_path, [numbers(5, [1.0])], overwrite=True)
    assert steps(tmp_path) == [5]
    assert {file.name for file in tmp_path.iterdir()} == {"notes.txt", "run.lock", "run.sqlite"}


def test_a_run_that_cannot_be_replaced_is_still_there(tmp_path, monkeypatch):
    first = opened(Store, tmp_path)
    first.write(numbers(3, [1.0]))
    first.flush()  # into the log, which is not in the file yet

    def fails(*_):
        raise OSError("no room")

    monkeypatch.setattr(Path, "replace", fails)
    with pytest.raises(OSError, match="no room"):
        replace(tmp_path / "run.sqlite", lambda db: None)
    monkeypatch.undo()
    assert steps(tmp_path) == [3]
    first.close()


def test_a_database_of_another_program_is_not_replaced(tmp_path):
    file = tmp_path / "run.sqlite"
    with closing(sqlite3.connect(file)) as db:
        db.execute("CREATE TABLE theirs (x)")
    before = file.read_bytes()
    with pytest.raises(ValueError, match=r"not a run of taiyi_fx: it is not replaced"):
        opened(Store, tmp_path, overwrite=True)
    assert file.read_bytes() == before


def test_a_run_that_goes_on_is_not_replaced(tmp_path):
    written(Store, tmp_path, [numbers(3, [1.0])])
    written(Store, tmp_path, [numbers(7, [1.0])], 7, overwrite=True)
    assert steps(tmp_path) == [3, 7]
