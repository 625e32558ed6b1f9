"""What happens to a run when its process, its disk or its neighbours fail."""

import os
import random
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import taiyi_fx
from taiyi_fx import MonitorWarning
from taiyi_fx.records.record import Event, Record
from taiyi_fx.writers import Batch, EpochEnd, Parquet, Store, buffer
from tests.examples import some_or_all
from tests.writers.runs import FORMATS, numbers, opened, trained, written

ROOT = Path(__file__).parents[2]


@some_or_all("kills", 10, 50)
def test_nothing_flushed_is_lost_wherever_a_process_is_killed(tmp_path, kills):
    rng = random.Random(0)
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.writers.killed"],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert server.stdin
    assert server.stdout
    assert server.stdout.readline() == "ready\n"
    read = []
    for kill in range(kills):
        folder = tmp_path / str(kill // 5)
        folder.mkdir(exist_ok=True)
        print(folder, file=server.stdin, flush=True)
        child = int(server.stdout.readline())
        time.sleep(rng.uniform(0.02, 0.5))
        os.kill(child, signal.SIGKILL)
        assert server.stdout.readline() == "dead\n"
        read.append(steps_after_a_kill(folder))
    server.stdin.close()
    assert server.wait() == 0
    server.stdout.close()
    assert sum(steps > 0 for steps in read) > kills / 3


def steps_after_a_kill(folder):
    """How many steps a folder has after a kill; all that were flushed, and whole ones alone."""
    told = (folder / "told").read_text().split("\n")[:-1] if (folder / "told").exists() else []
    last = [line for line in told if line.startswith("flushed")][-1:]
    flushed = int(last[0].split()[1]) if last else -1
    tracked = [int(line.split()[1]) for line in told if line.startswith("tracked")]
    if flushed == -1 and not has_begun(folder):
        return 0
    with taiyi_fx.open_run(folder) as run:
        steps = run.to_numpy()["step"]
        names = [(m, q) for m in run.modules for q in run.quantities]
        curves = [run.series(*name).steps for name in names]
    found = len(steps) // 6
    assert steps.tolist() == np.repeat(np.arange(found), 6).tolist()
    assert all(curve.tolist() == list(range(found)) for curve in curves)
    assert flushed < found <= max(tracked, default=-1) + 1
    db = sqlite3.connect(folder / "run.sqlite")
    assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    db.close()
    return found


def has_begun(folder):
    try:
        taiyi_fx.open_run(folder).close()
    except FileNotFoundError:
        return False
    except ValueError as error:
        assert "is empty: its run ended before it wrote" in str(error)  # noqa: PT017
        return False
    return True


def test_a_full_disk_is_told_and_what_waits_is_written_when_there_is_room(tmp_path):
    model = taiyi_fx.instrument(nn.Linear(4, 2), {"": ["InputMean"]}, run=tmp_path)
    (writer,) = model.monitor._writers._open
    pages = writer._db.execute("PRAGMA page_count").fetchone()[0]
    trained(model, range(5)).monitor.flush()
    writer._db.execute(f"PRAGMA max_page_count = {pages + 1}")
    for step in range(5, 3000):
        model.monitor.log("loss", float(step), step=step)
    with pytest.warns(MonitorWarning, match="the writer Store failed: OperationalError: .* full"):
        model.monitor.flush()
    trained(model, range(5, 8)).monitor.flush()  # told once
    with taiyi_fx.open_run(tmp_path) as run:
        assert run.series("", "InputMean").steps.tolist() == list(range(5))
    writer._db.execute("PRAGMA max_page_count = 1000000")
    model.monitor.flush()
    model.monitor.close()
    with taiyi_fx.open_run(tmp_path) as run:
        assert run.series("", "loss").steps.tolist() == list(range(5, 3000))
        assert run.series("", "InputMean").steps.tolist() == list(range(8))


def limited(kind, folder):
    """In a process whose files may have so many bytes, and later more."""
    writer = opened(kind, folder)
    writer.write(numbers(0, [1.0]))
    writer.flush()
    size = sum(f.stat().st_size for f in Path(folder).iterdir())
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 5_000, resource.RLIM_INFINITY))
    rng = random.Random(0)
    for step in range(1, 3001):
        writer.write(numbers(step, [rng.random() for _ in range(10)]))
    for _ in range(2):
        try:
            writer.flush()
        except (OSError, sqlite3.OperationalError) as error:
            print(type(error).__name__, error)
        else:
            sys.exit("it was not full")
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
    writer.flush()
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("kind", FORMATS)
def test_files_that_cannot_grow_lose_nothing_once_they_can(kind, tmp_path):
    child = os.fork()
    if not child:
        limited(kind, tmp_path)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    with taiyi_fx.open_run(tmp_path) as run:
        assert run.series("a", "q").steps.tolist() == list(range(3001))
        assert run.series("j", "q").steps.tolist() == list(range(1, 3001))


def test_a_full_file_system_is_as_good(tmp_path):
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", tmp_path],
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    if made.returncode:
        pytest.skip(f"no file system can be mounted here: {made.stderr}")
    try:
        writer = opened(Store, tmp_path / "run")
        fill = tmp_path / "fill"
        writer.write(numbers(0, [1.0]))
        writer.flush()
        fill.write_bytes(bytes(shutil.disk_usage(tmp_path).free))
        for step in range(1, 3001):
            writer.write(numbers(step, [1.0]))
        with pytest.raises(sqlite3.OperationalError, match=r"full|disk I/O"):
            writer.flush()
        fill.unlink()
        writer.close()
        with taiyi_fx.open_run(tmp_path / "run") as run:
            assert run.series("a", "q").steps.tolist() == list(range(3001))
    finally:
        subprocess.run(["umount", tmp_path], check=True)


def test_what_is_lost_is_counted_told_and_stands_in_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr(buffer, "KEPT", 3_000)
    writer = opened(Store, tmp_path)
    writer._db.execute("PRAGMA max_page_count = 1")
    rng = random.Random(0)
    for step in range(10):
        writer.write(numbers(step, [rng.random() for _ in range(1_000)]))
    text = "7,000 numbers of steps 0 to 6 could not be written and are lost"
    with pytest.raises(BufferError, match=f"{text}: .* full"):
        writer.flush()
    with pytest.raises(sqlite3.OperationalError, match="full"):
        writer.flush()
    writer._db.execute("PRAGMA max_page_count = 1000000")
    writer.close()
    with taiyi_fx.open_run(tmp_path) as run:
        assert run.series("a", "q").steps.tolist() == [7, 8, 9]
        (event,) = run.events
        assert (event.kind, event.text) == ("warning", text)


def test_what_is_lost_at_the_end_is_told(tmp_path):
    model = taiyi_fx.instrument(nn.Linear(4, 2), {"": ["InputMean"]}, run=tmp_path)
    (writer,) = model.monitor._writers._open
    trained(model, range(5)).monitor.flush()
    writer._db.execute("PRAGMA max_page_count = 1")
    for step in range(5, 3000):
        model.monitor.log("loss", float(step), step=step)
    with pytest.warns(MonitorWarning) as caught:
        model.monitor.close()
    text = "\n".join(str(w.message) for w in caught)
    assert "Store failed: OperationalError: database or disk is full" in text
    assert "Store failed: BufferError: 2,995 numbers of steps 5 to 2999 could not be writ" in text
    with taiyi_fx.open_run(tmp_path) as run:
        assert run.series("", "InputMean").steps.tolist() == list(range(5))
    opened(Store, tmp_path, start_step=5).close()


def as_nobody(action):
    """What an action prints in a process that may write only where all may."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.setuid(65534)
        try:
            text = repr(action())
        except Exception as error:  # noqa: BLE001 - told to the parent
            text = f"{type(error).__name__}: {error}"
        os.write(write, text.encode())
        os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    with os.fdopen(read) as pipe:
        return pipe.read()


@pytest.fixture
def open_folder():
    """A folder that all may enter."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become nobody")


@needs_root
@pytest.mark.parametrize("kind", FORMATS)
def test_a_folder_that_cannot_be_written_to_is_told_at_once(kind, open_folder):
    told = as_nobody(lambda: opened(kind, open_folder / "run"))
    assert told == f"PermissionError: [Errno 13] Permission denied: '{open_folder}/run'"
    written(kind, open_folder / "run", [numbers(0, [1.0])])
    told = as_nobody(lambda: opened(kind, open_folder / "run", start_step=1))
    assert told.startswith(f"PermissionError: [Errno 13] Permission denied: '{open_folder}/run/")


@needs_root
def test_a_file_that_cannot_be_written_to_is_told_at_once(open_folder):
    written(Store, open_folder / "run", [numbers(0, [1.0])])
    (open_folder / "run").chmod(0o777)
    (open_folder / "run" / "run.lock").chmod(0o666)
    told = as_nobody(lambda: opened(Store, open_folder / "run", start_step=1))
    assert told.startswith(f"OSError: cannot write to '{open_folder}/run/run.sqlite': ")


@needs_root
@pytest.mark.parametrize("left", ["nothing", "log", "log and shared memory"])
def test_a_run_is_read_where_nothing_can_be_written(left, open_folder):
    writer = opened(Store, open_folder / "run")
    writer.write(numbers(0, [1.0, 2.0]))
    writer.flush()
    shutil.copytree(open_folder / "run", open_folder / "copy")
    writer.close()
    if left == "nothing":
        shutil.copy(open_folder / "run" / "run.sqlite", open_folder / "copy" / "run.sqlite")
        (open_folder / "copy" / "run.sqlite-wal").unlink()
    if left != "log and shared memory":
        (open_folder / "copy" / "run.sqlite-shm").unlink()

    def read():
        with taiyi_fx.open_run(open_folder / "copy") as run:
            return run.series("b", "q").values.tolist()

    assert as_nobody(read) == "[2.0]"


@needs_root
def test_a_closed_run_in_wal_mode_is_read_where_nothing_can_be_written(open_folder):
    writer = opened(Store, open_folder)
    writer.write(numbers(0, [1.0, 2.0]))
    writer.flush()
    with taiyi_fx.open_run(open_folder):
        writer.close()  # a reader is there: the mode stays

    def read():
        with taiyi_fx.open_run(open_folder) as run:
            return run.series("b", "q").values.tolist()

    for file in open_folder.glob("*-*"):
        file.unlink()
    assert as_nobody(read) == "[2.0]"


def reader(folder, last):
    """A process that reads a run from its beginning to a last step."""
    # Made before the run: SQLite must not meet a connection of the parent's.
    child = os.fork()
    if child:
        return child
    seen = -1
    while seen < last:
        try:
            with taiyi_fx.open_run(folder) as run:
                while seen < last:
                    steps = run.series("j", "q").steps.tolist() if run.modules else []
                    if len(steps) <= seen or steps != list(range(len(steps))):
                        os._exit(1)
                    seen = len(steps) - 1
        except (FileNotFoundError, ValueError):  # it is still being made
            time.sleep(0.001)
    os._exit(0)


@pytest.mark.parametrize(("kind", "steps"), [(Store, 300), (Parquet, 40)])
def test_two_readers_see_whole_steps_during_writing(kind, steps, tmp_path):
    readers = [reader(tmp_path, steps - 1) for _ in range(2)]
    writer = opened(kind, tmp_path)
    for step in range(steps):
        writer.write(numbers(step, [float(step)] * 10))
        writer.flush()
    assert [os.waitpid(child, 0)[1] for child in readers] == [0, 0]
    writer.close()


def test_a_run_is_read_after_its_writer_vanished_and_then_resumed(tmp_path):
    child = os.fork()
    if not child:
        writer = opened(Store, tmp_path)
        for step in range(4):
            writer.write(numbers(step, [float(step)]))
            writer.flush()
        writer.write(numbers(4, [4.0]))
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    with taiyi_fx.open_run(tmp_path) as run:
        assert run.series("a", "q").steps.tolist() == [0, 1, 2, 3]
    written(Store, tmp_path, [numbers(4, [4.0])], start_step=4)
    with taiyi_fx.open_run(tmp_path) as run:
        assert run.series("a", "q").steps.tolist() == [0, 1, 2, 3, 4]


def test_what_a_kill_left_half_written_is_cleared_away(tmp_path):
    written(Parquet, tmp_path, [numbers(0, [1.0])])
    half = tmp_path / "points-00000001.parquet.tmp"
    half.write_bytes(b"PAR1")
    with taiyi_fx.open_run(tmp_path) as run:
        assert run.series("a", "q").steps.tolist() == [0]
    written(Parquet, tmp_path, [numbers(1, [1.0])], start_step=1)
    assert not half.exists()


def test_a_forked_worker_that_exits_leaves_the_run_whole(tmp_path):
    torch.manual_seed(0)
    model = taiyi_fx.instrument(nn.Linear(4, 2), {"": ["InputMean"]}, run=tmp_path)
    trained(model, range(3)).monitor.flush()
    child = os.fork()
    if not child:
        model.monitor.log("loss", 1.0)
        model.monitor.flush()
        model.monitor.close()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    trained(model, range(3, 6)).monitor.close()
    with taiyi_fx.open_run(tmp_path) as run:
        assert run.series("", "InputMean").steps.tolist() == list(range(6))
        assert run.quantities == ["InputMean"]


def test_damaged_files_are_told_by_name(tmp_path):
    for kind, name in ((Store, "run.sqlite"), (Parquet, "run.json")):
        folder = tmp_path / kind.__name__
        written(kind, folder, [numbers(0, [1.0])])
        (folder / name).write_bytes(b"no such thing" * 400)
        with pytest.raises(ValueError, match=f"{name}' is damaged, or is not a run"):
            taiyi_fx.open_run(folder)
        with pytest.raises(ValueError, match=f"{name}' is damaged, or is not a run"):
            opened(kind, folder, start_step=1)
        opened(kind, folder, overwrite=True).close()


def test_a_file_that_lacks_its_end_is_told(tmp_path):
    batches = [numbers(step, [0.5] * 26) for step in range(400)]
    written(Store, tmp_path, batches)
    file = tmp_path / "run.sqlite"
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    with (
        pytest.raises(ValueError, match=r"run.sqlite' is damaged"),
        taiyi_fx.open_run(tmp_path) as run,
    ):
        run.to_numpy()


def test_a_part_that_lacks_its_end_is_told(tmp_path):
    written(Parquet, tmp_path, [numbers(0, [1.0])])
    (part,) = tmp_path.glob("points-*")
    part.write_bytes(part.read_bytes()[:100])
    with pytest.raises(ValueError, match=r"points-00000000.parquet' is damaged"):
        taiyi_fx.open_run(tmp_path).series("a", "q")
    with pytest.raises(ValueError, match=r"points-00000000.parquet' is damaged"):
        opened(Parquet, tmp_path, start_step=1)


class Interrupting:
    """A connection in which an interrupt comes after a commit."""

    def __init__(self, db):
        self._db = db

    def __getattr__(self, name):
        return getattr(self._db, name)

    def execute(self, text, *values):
        found = self._db.execute(text, *values)
        if text == "COMMIT":
            raise KeyboardInterrupt
        return found


def interrupted_in_sqlite(writer, monkeypatch):
    monkeypatch.setattr(writer, "_db", Interrupting(writer._db))


def interrupted_in_parquet(writer, monkeypatch):
    put = writer._put_head

    def put_and_stop(head):
        put(head)
        raise KeyboardInterrupt

    monkeypatch.setattr(writer, "_put_head", put_and_stop)


def interrupted_after_all(writer, monkeypatch):
    def stop(part):
        raise KeyboardInterrupt

    monkeypatch.setattr(writer._buffer, "_forget", stop)


@pytest.mark.parametrize(
    ("kind", "interrupt"),
    [
        (Store, interrupted_in_sqlite),
        (Store, interrupted_after_all),
        (Parquet, interrupted_in_parquet),
        (Parquet, interrupted_after_all),
    ],
)
def test_an_interrupt_after_a_commit_loses_and_doubles_nothing(
    kind, interrupt, tmp_path, monkeypatch
):
    tensor = Record(0, "a", "t", torch.ones(1))
    writer = opened(kind, tmp_path)
    ended = Batch(0, ended=EpochEnd(0, 5, ()))
    told = [Event(0, "warning", "", "once")]
    for batch in (numbers(0, [0.0], records=[tensor], events=told), ended):
        writer.write(batch)
        with monkeypatch.context() as patched:
            interrupt(writer, patched)
            with pytest.raises(KeyboardInterrupt):
                writer.flush()
    writer.write(numbers(1, [1.0, 2.0], epoch=1))
    writer.close()
    with taiyi_fx.open_run(tmp_path) as run:
        assert run.series("a", "q").steps.tolist() == [0, 1]
        assert run.series("b", "q").steps.tolist() == [1]
        assert run.spans()["a", "t", "train"] == (1, 0, 0)
        assert run.to_numpy()["epoch"].tolist() == [5, 1, 1]
        assert run.epochs == [(5, 0, 0)]
        assert run.events == told


@pytest.mark.parametrize("kind", FORMATS)
def test_a_run_that_is_deleted_is_told(kind, tmp_path):
    writer = opened(kind, tmp_path / "run")
    writer.write(numbers(0, [0.0]))
    writer.flush()
    shutil.rmtree(tmp_path / "run")
    writer.write(numbers(1, [0.0]))
    with pytest.raises(FileNotFoundError, match="run"):
        writer.flush()
    with pytest.raises(BufferError, match="1 numbers of steps 1 to 1 could not be written"):
        writer.close()
