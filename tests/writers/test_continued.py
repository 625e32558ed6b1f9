"""Text files of lines, by CSV and JSONL: resumed, cut off, linked, forked, deleted."""

import gc
import os

import pytest

from taiyi_fx.records.record import Record
from taiyi_fx.writers import Batch
from tests.writers.given import numbers, run
from tests.writers.text_files import LINES, writer_of, written


@pytest.fixture(params=LINES)
def path(request, tmp_path):
    return tmp_path / "folder" / f"run.{request.param}"


def test_a_run_that_goes_on_drops_the_steps_that_it_makes_again(path):
    first = [numbers(step, InputMean=float(step)) for step in range(6)]
    with written(path, *first) as before:
        pass
    with written(path, numbers(3, InputMean=-3.0), start_step=3) as after:
        lines = before.splitlines(keepends=True)
        kept = b"".join(lines[: 4 if path.suffix == ".csv" else 3])
        assert after.startswith(kept)
        assert after.count(b"\n") == kept.count(b"\n") + 1
        assert b"-3.0" in after


def test_a_run_from_the_start_replaces_what_was_there_only_if_told_to(path):
    with written(path, numbers(0, InputMean=1.0), numbers(5, InputMean=1.0)) as before:
        pass
    with (
        pytest.raises(FileExistsError, match=r"holds records already.*\(path, overwrite=True\)"),
        written(path),
    ):
        pass
    assert path.read_bytes() == before
    with written(path, numbers(0, InputMean=2.0), overwrite=True) as found:
        assert b"1.0" not in found
        assert b"2.0" in found


@pytest.mark.parametrize("name", ["fc", "two\nlines", 'say "a"\r\n, b'])
def test_a_line_that_was_cut_off_is_dropped_wherever_it_was_cut(path, name):
    whole = Batch(0, records=[Record(0, name, "InputMean", 1.5)])
    last = Batch(0, records=[Record(1, name, "InputMean", 2.5)])
    with written(path, whole) as one:
        pass
    with written(path, whole, last, overwrite=True) as both:
        pass
    for cut in range(len(one), len(both)):
        path.write_bytes(both[:cut])
        with written(path, start_step=9) as found:
            assert found == one
    path.write_bytes(both)
    with written(path, start_step=9) as found:
        assert found == both


def test_a_file_of_something_else_is_left_alone(path):
    path.parent.mkdir()
    path.write_text("dear,diary\n")
    with pytest.raises(ValueError, match="dear,diary.*ove .* away, or give another path"):
        writer_of(path).open(run())
    assert path.read_text() == "dear,diary\n"
    assert list(path.parent.iterdir()) == [path]


def test_a_file_of_the_users_beside_it_is_left_alone(path):
    with written(path, numbers(0, InputMean=1.0)):
        pass
    beside = path.with_name(f"{path.name}.part")
    beside.write_text("mine")
    with written(path, numbers(1, InputMean=1.0), start_step=1):
        assert beside.read_text() == "mine"


def test_a_link_stays_one(path, tmp_path):
    with written(path, numbers(0, InputMean=1.0)):
        pass
    link = tmp_path / f"link{path.suffix}"
    link.symlink_to(path)
    with written(link, numbers(1, InputMean=2.0), start_step=1):
        assert link.is_symlink()
        assert b"2.0" in path.read_bytes()


def test_a_fork_writes_nothing(path):
    writer = writer_of(path)
    writer.open(run())
    fork_and_exit(writer)
    writer.write(numbers(0, InputMean=1.0))
    fork_and_exit(writer)
    writer.close()
    with written(path.with_stem("alone"), numbers(0, InputMean=1.0)) as alone:
        assert path.read_bytes() == alone


def fork_and_exit(writer):
    """A fork that drops the writer, whose file then writes all that it still holds."""
    child = os.fork()
    if not child:
        vars(writer).clear()
        gc.collect()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


def test_a_file_that_is_deleted_is_told(path):
    writer = writer_of(path)
    writer.open(run())
    writer.write(numbers(0, InputMean=1.0))
    os.remove(path)
    with pytest.raises(FileNotFoundError, match=f"{path.name}' was deleted"):
        writer.flush()
    writer.close()
