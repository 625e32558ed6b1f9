"""One writer at a time."""

import subprocess
import sys

import pytest

import taiyi_fx
from taiyi_fx.writers import Store
from tests.writers.runs import FORMATS, numbers, opened, written

both = pytest.mark.parametrize("kind", FORMATS)


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


@both
def test_a_second_writer_past_a_deleted_lock_doubles_nothing(kind, tmp_path):
    first = opened(kind, tmp_path)
    for step in range(4):
        first.write(numbers(step, [float(step)]))
        first.flush()
    (lock,) = tmp_path.glob("*.lock")
    lock.unlink()
    second = opened(kind, tmp_path, start_step=2)
    for step in range(2, 6):
        second.write(numbers(step, [10.0 + step]))
        first.write(numbers(step + 2, [float(step + 2)]))
        second.flush()
        with pytest.raises(BlockingIOError, match="another writer has taken over"):
            first.flush()
    with pytest.raises(BufferError, match="another writer has taken over"):
        first.close()
    second.close()
    with taiyi_fx.open_run(tmp_path) as run:
        assert run.series("a", "q").steps.tolist() == list(range(6))
        assert run.series("a", "q").values.tolist() == [0, 1, 12, 13, 14, 15]


@both
def test_a_second_writer_from_the_start_past_a_deleted_lock_doubles_nothing(kind, tmp_path):
    first = opened(kind, tmp_path)
    (lock,) = tmp_path.glob("*.lock")
    lock.unlink()
    second = opened(kind, tmp_path)
    for writer in (first, second):
        writer.write(numbers(0, [1.0]))
    with pytest.raises(BlockingIOError, match="another writer has taken over"):
        first.flush()
    second.close()
    with pytest.raises(BufferError):
        first.close()
    with taiyi_fx.open_run(tmp_path) as run:
        assert run.series("a", "q").steps.tolist() == [0]


@both
def test_a_writer_whose_run_was_replaced_writes_nothing_more(kind, tmp_path):
    first = opened(kind, tmp_path)
    first.write(numbers(0, [1.0]))
    first.flush()
    (lock,) = tmp_path.glob("*.lock")
    lock.unlink()
    written(kind, tmp_path, [numbers(7, [2.0])], overwrite=True)
    first.write(numbers(1, [1.0]))
    with pytest.raises(BlockingIOError, match="another writer has taken over"):
        first.flush()
    with pytest.raises(BufferError):
        first.close()
    with taiyi_fx.open_run(tmp_path) as run:
        assert run.series("a", "q").steps.tolist() == [7]


@both
def test_a_deleted_lock_alone_stops_no_writer(kind, tmp_path):
    writer = opened(kind, tmp_path)
    (lock,) = tmp_path.glob("*.lock")
    lock.unlink()
    writer.write(numbers(0, [1.0]))
    writer.close()
    with taiyi_fx.open_run(tmp_path) as run:
        assert run.series("a", "q").steps.tolist() == [0]
