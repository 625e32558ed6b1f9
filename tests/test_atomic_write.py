import os
from contextlib import suppress

import pytest

from taiyi_fx.atomic_write import atomic_write


def test_a_file_is_replaced_when_it_is_complete(tmp_path):
    file = tmp_path / "file"
    file.write_text("old")
    with suppress(KeyboardInterrupt), atomic_write(file) as part:
        part.write_text("half")
        raise KeyboardInterrupt
    assert file.read_text() == "old"
    with atomic_write(file) as part:
        part.write_text("new")
        assert file.read_text() == "old"
    assert file.read_text() == "new"
    assert os.listdir(tmp_path) == ["file"]


def test_one_that_begins_while_another_writes_does_it_no_harm(tmp_path):
    file = tmp_path / "file"
    with atomic_write(file) as part, part.open("w") as outer:
        outer.write("ou")
        outer.flush()
        with atomic_write(file) as other:
            other.write_text("inner")
        assert file.read_text() == "inner"
        outer.write("ter")
    assert file.read_text() == "outer"
    assert os.listdir(tmp_path) == ["file"]


def test_a_link_stays(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "file")
    with atomic_write(tmp_path / "link") as part:
        part.write_text("new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_text() == "new"


def test_what_is_no_regular_file_is_never_replaced(tmp_path):
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    for path in (pipe, link, tmp_path):
        with pytest.raises(OSError, match="exists and is not a regular file"), atomic_write(path):
            raise AssertionError
    assert pipe.is_fifo()
