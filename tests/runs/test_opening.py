"""Opening a run: by its folder or its file, and errors where there is none."""

import json
import sqlite3

import pytest

import taiyi_fx
from taiyi_fx.writers import Store
from tests.writers.runs import FORMATS, numbers, opened, written


def test_the_file_itself_may_be_named(tmp_path, monkeypatch):
    written(Store, tmp_path / "é?%#", [numbers(0, [1.0])])
    monkeypatch.chdir(tmp_path)
    with taiyi_fx.open_run("é?%#/run.sqlite") as run:
        assert run.path == tmp_path / "é?%#"


@pytest.mark.parametrize("name", ["run.sqlite", "run.json"])
def test_a_folder_may_have_the_name_of_a_runs_file(tmp_path, name):
    written(Store, tmp_path / name, [numbers(0, [1.0])])
    with taiyi_fx.open_run(tmp_path / name) as run:
        assert run.path == tmp_path / name
    with taiyi_fx.open_run(tmp_path / name / "run.sqlite") as run:
        assert run.path == tmp_path / name


def test_an_empty_path_is_not_the_working_directory(tmp_path, monkeypatch):
    written(Store, tmp_path, [numbers(0, [1.0])])
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError, match="no run in '': give its folder"):
        taiyi_fx.open_run("")


def test_where_no_run_is_it_is_told_what_is(tmp_path):
    with pytest.raises(FileNotFoundError, match="no run in .*none': there is no such folder"):
        taiyi_fx.open_run(tmp_path / "none")
    with pytest.raises(FileNotFoundError, match="it has neither run.sqlite nor run.json"):
        taiyi_fx.open_run(tmp_path)
    for name in ("one", "two"):
        written(Store, tmp_path / name, [])
    with pytest.raises(FileNotFoundError, match="it holds the runs 'one', 'two'"):
        taiyi_fx.open_run(tmp_path)


def test_a_newer_schema_is_told(tmp_path):
    written(Store, tmp_path / "s", [])
    db = sqlite3.connect(tmp_path / "s" / "run.sqlite")
    db.execute("PRAGMA user_version = 7")
    db.close()
    written(FORMATS[1], tmp_path / "p", [])
    head = tmp_path / "p" / "run.json"
    head.write_text(json.dumps({**json.loads(head.read_text()), "version": 7}))
    for kind, folder, known in zip(FORMATS, ("s", "p"), (2, 3), strict=True):
        text = rf"newer taiyi_fx \(schema 7, this one reads up to {known}\): pip install --upgrade"
        with pytest.raises(ValueError, match=text):
            taiyi_fx.open_run(tmp_path / folder)
        with pytest.raises(ValueError, match=text):
            opened(kind, tmp_path / folder, start_step=1)


def test_files_of_others_are_told_and_left_alone(tmp_path):
    db = sqlite3.connect(tmp_path / "run.sqlite")
    db.execute("CREATE TABLE bank (money)")
    db.close()
    before = (tmp_path / "run.sqlite").read_bytes()
    with pytest.raises(ValueError, match="is a SQLite file, but not a run of taiyi_fx"):
        taiyi_fx.open_run(tmp_path)
    with pytest.raises(ValueError, match="is a SQLite file, but not a run of taiyi_fx"):
        opened(Store, tmp_path, start_step=1)
    assert (tmp_path / "run.sqlite").read_bytes() == before
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "run.json").write_text("[1]")
    with pytest.raises(ValueError, match="run.json' is no run of taiyi_fx"):
        taiyi_fx.open_run(tmp_path / "p")


def test_opening_a_run_takes_no_path_of_another_kind():
    with pytest.raises(TypeError):
        taiyi_fx.open_run(3)
