"""Journals of others: none of them makes SQLite delete a file."""

import sqlite3
import struct
from contextlib import closing

import pytest

import taiyi_fx
from taiyi_fx.runs.journal import refuse_super_journal
from taiyi_fx.writers import Store
from tests.writers.runs import numbers, opened, written

MAGIC = bytes.fromhex("d9d505f920a163d7")


def forged(file, victim):
    """A journal of a file, by which SQLite would roll nothing back and delete a victim."""
    pages = file.stat().st_size // 4096
    head = MAGIC + struct.pack(">5I", 0, 0, pages, 512, 4096)
    name = str(victim).encode()
    tail = struct.pack(">I", 1 + 2**30 // 4096) + name + struct.pack(">2I", len(name), sum(name))
    journal = file.with_name(f"{file.name}-journal")
    journal.write_bytes(head.ljust(512, b"\0") + tail + MAGIC)
    return journal


@pytest.fixture
def victim(tmp_path):
    file = tmp_path / "precious"
    file.write_text("mine")
    return file


def test_the_forgery_is_one(tmp_path, victim):
    written(Store, tmp_path / "run", [numbers(0, [1.0])])
    file = tmp_path / "run" / "run.sqlite"
    forged(file, victim)
    with closing(sqlite3.connect(file)) as db:
        db.execute("SELECT * FROM point").fetchall()
    assert not victim.exists()


def test_a_forged_journal_of_a_run_is_refused(tmp_path, victim):
    written(Store, tmp_path / "run", [numbers(0, [1.0])])
    forged(tmp_path / "run" / "run.sqlite", victim)
    with pytest.raises(ValueError, match=r"run.sqlite-journal' is not the journal of a run"):
        opened(Store, tmp_path / "run", start_step=1)
    with pytest.raises(ValueError, match=r"run.sqlite-journal' is not the journal of a run"):
        taiyi_fx.open_run(tmp_path / "run")
    assert victim.read_text() == "mine"
    opened(Store, tmp_path / "run", overwrite=True).close()
    assert victim.read_text() == "mine"


def test_a_forged_journal_behind_a_link_is_refused(tmp_path, victim):
    written(Store, tmp_path / "run", [numbers(0, [1.0])])
    real = tmp_path / "run" / "real"
    file = (tmp_path / "run" / "run.sqlite").rename(real)
    (tmp_path / "run" / "run.sqlite").symlink_to(file)
    forged(real, victim)
    with pytest.raises(ValueError, match="real-journal' is not the journal of a run"):
        opened(Store, tmp_path / "run", start_step=1)
    assert victim.read_text() == "mine"


def test_a_forged_journal_of_the_lock_is_refused(tmp_path, victim):
    written(Store, tmp_path / "run", [numbers(0, [1.0])])
    lock = tmp_path / "run" / "run.lock"
    with closing(sqlite3.connect(lock)) as db:
        db.execute("CREATE TABLE t (x)")
    forged(lock, victim)
    with pytest.raises(ValueError, match=r"run.lock' is not the lock of a run"):
        opened(Store, tmp_path / "run", start_step=1)
    lock.write_bytes(b"")
    opened(Store, tmp_path / "run", start_step=1).close()
    assert victim.read_text() == "mine"


@pytest.mark.parametrize("name", ["run.lock", "run.sqlite", "run.sqlite-journal"])
def test_a_link_makes_no_file_elsewhere(name, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / name).symlink_to(tmp_path / "made")
    with pytest.raises(
        ValueError, match=f"{name}' is (not the lock|a link to a missing file|not a file)"
    ):
        opened(Store, tmp_path / "run")
    assert not (tmp_path / "made").exists()


def interrupted_in_rollback_mode(folder):
    """A run in the middle of a transaction of an older version, which keeps a rollback journal."""
    file = folder / "run.sqlite"
    db = sqlite3.connect(file, isolation_level=None)
    db.execute("PRAGMA cache_size = 1")  # pages are written before the end
    db.execute("BEGIN IMMEDIATE")
    db.execute("DELETE FROM point WHERE step >= 30")
    return db


def test_an_honest_journal_rolls_a_run_back(tmp_path):
    whole = [float(step) for step in range(60)]
    written(Store, tmp_path / "run", [numbers(s, [v] * 26) for s, v in enumerate(whole)])
    with closing(interrupted_in_rollback_mode(tmp_path / "run")):
        copy = tmp_path / "copy"
        copy.mkdir()
        for name in ("run.sqlite", "run.sqlite-journal"):
            (copy / name).write_bytes((tmp_path / "run" / name).read_bytes())
    refuse_super_journal(copy / "run.sqlite")
    with taiyi_fx.open_run(copy) as run:
        assert run.series("z", "q").values.tolist() == whole
        assert len(run.to_numpy()["value"]) == 60 * 26
    written(Store, copy, [numbers(30, [0.0])], start_step=30)
    with taiyi_fx.open_run(copy) as run:
        assert run.series("z", "q").values.tolist() == whole[:30]
        assert run.series("a", "q").values.tolist() == [*whole[:30], 0.0]


def test_a_run_has_no_rollback_journal_at_any_time(tmp_path):
    written(Store, tmp_path, [numbers(0, [1.0])])
    seen = []
    writer = opened(Store, tmp_path, start_step=1)
    seen += [p.name for p in tmp_path.iterdir()]
    writer.write(numbers(1, [1.0]))
    writer.flush()
    seen += [p.name for p in tmp_path.iterdir()]
    assert writer._db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    writer.close()
    assert "run.sqlite-journal" not in seen
    with closing(sqlite3.connect(tmp_path / "run.sqlite")) as db:
        assert db.execute("PRAGMA journal_mode").fetchone() == ("delete",)
