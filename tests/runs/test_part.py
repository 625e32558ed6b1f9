"""The parts of a run: which of them belong together, and in which order."""

import json

import pytest

import taiyi_fx
from taiyi_fx.runs.part import check_name, part_in, parts_of
from taiyi_fx.writers import Store
from tests.writers.runs import FORMATS, info, numbers, part_written

both = pytest.mark.parametrize("kind", FORMATS)


def part(path, launch, rank=0, name="", start_step=0, kind=Store, **options):
    about = info(start_step, rank, part=name, launch=launch)
    part_written(kind, path, [numbers(start_step, [1.0])], about, **options)


def labels(path):
    return [found.label for found in parts_of(path)]


def test_a_run_of_one_writer_has_no_parts(tmp_path):
    part(tmp_path, "")
    assert parts_of(tmp_path) == []
    assert not (tmp_path / "part.json").exists()


@both
def test_parts_of_one_launch_are_one_run_in_the_order_of_ranks_and_names(tmp_path, kind):
    for rank in (10, 2, 0):
        part(tmp_path, "a", rank, kind=kind)
    for name in ("stage10", "stage9"):
        part(tmp_path, "a", 3, name, kind=kind)
    assert labels(tmp_path) == ["rank0", "rank2", "rank10", "stage9", "stage10"]


def test_what_an_overwritten_run_left_behind_is_no_part(tmp_path):
    for rank in (0, 1):
        part(tmp_path, "old", rank)
    part(tmp_path, "new", overwrite=True)
    assert labels(tmp_path) == ["rank0"]


def test_a_run_that_was_resumed_keeps_the_parts_of_earlier_launches(tmp_path):
    for rank in (0, 1):
        part(tmp_path, "first", rank)
    part(tmp_path, "second", start_step=1)
    part(tmp_path, "second", 2, start_step=1)
    assert labels(tmp_path) == ["rank0", "rank1", "rank2"]


def test_a_run_that_was_replaced_by_a_whole_one_has_no_parts(tmp_path):
    for rank in (0, 1):
        part(tmp_path, "old", rank)
    part(tmp_path, "", overwrite=True)
    assert parts_of(tmp_path) == []


def test_parts_with_names_need_no_run_in_the_folder_itself(tmp_path):
    for name, launch in (("gone", "1"), ("critic", "2"), ("generator", "2")):
        part(tmp_path, launch, name=name)
    assert labels(tmp_path) == ["critic", "generator"]


def test_a_folder_of_runs_is_no_run(tmp_path):
    for name in ("one", "two"):
        part(tmp_path / name, name)
    assert parts_of(tmp_path) == []
    with pytest.raises(FileNotFoundError, match="it holds the runs 'one', 'two'"):
        taiyi_fx.open_run(tmp_path)


def test_a_part_can_be_read_alone(tmp_path):
    for rank in (0, 1):
        part(tmp_path, "a", rank)
    with taiyi_fx.open_run(tmp_path / "rank1") as run:
        assert run.modules == ["a"]


@pytest.mark.parametrize("text", ["[", "[]", "{}", '{"name": "", "rank": 0, "launches": [1]}'])
def test_a_damaged_note_is_named(tmp_path, text):
    part(tmp_path, "a")
    (tmp_path / "part.json").write_text(text)
    with pytest.raises(ValueError, match=r"part.json' is damaged"):
        taiyi_fx.open_run(tmp_path)


def test_a_note_holds_the_launches(tmp_path):
    part(tmp_path, "a", 2, "stage2")
    found = part_in(tmp_path / "stage2")
    assert (found.name, found.rank, found.launches) == ("stage2", 2, ("a",))
    assert json.loads((tmp_path / "stage2" / "part.json").read_text())["launches"] == ["a"]


@pytest.mark.parametrize("name", ["a/b", "..", ".", "a b", "rank3", "-x", "x" * 101])
def test_a_name_that_is_no_folders_is_refused(name):
    with pytest.raises(ValueError, match="part is a name of letters"):
        check_name(name)
    with pytest.raises(TypeError, match="part is a name"):
        check_name(3)
    check_name("rank3b")
