"""Reading runs in Parquet."""

import errno
import json
import os
import shutil
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest

import taiyi_fx
from taiyi_fx.runs.source import Changed
from taiyi_fx.writers import Batch, EpochEnd, Parquet
from tests.writers.runs import as_version_2, numbers, opened, written


@pytest.mark.parametrize(
    ("head", "text"),
    [
        ({"version": 1}, "is damaged: it has no lives"),
        ({"version": 1, "lives": [], "series": 3}, "is damaged: it has no series"),
        ({"version": "x"}, "is no run of taiyi_fx"),
    ],
)
def test_a_damaged_head_is_told(head, text, tmp_path):
    (tmp_path / "run.json").write_text(json.dumps(head))
    with pytest.raises(ValueError, match=f"run.json' {text}"):
        taiyi_fx.open_run(tmp_path)


def test_sessions_stand_under_the_word_of_the_first_schema(tmp_path):
    written(Parquet, tmp_path, [numbers(0, [1.0])])
    head = json.loads((tmp_path / "run.json").read_text())
    assert head["version"] == 3
    assert [session["start_step"] for session in head["lives"]] == [0]


def steps_of(folder):
    with taiyi_fx.open_run(folder) as run:
        return run.to_numpy()["step"].tolist()


def test_runs_from_before_parts_were_listed_are_read_and_resumed(tmp_path):
    written(Parquet, tmp_path, [numbers(step, [1.0]) for step in range(4)])
    as_version_2(tmp_path)
    assert steps_of(tmp_path) == [0, 1, 2, 3]
    written(
        Parquet, tmp_path, [numbers(2, [1.0]), Batch(0, ended=EpochEnd(0, 3, ()))], start_step=2
    )
    assert steps_of(tmp_path) == [0, 1, 2]
    with taiyi_fx.open_run(tmp_path) as run:
        assert run.epochs == [(3, 0, 2)]
    assert json.loads((tmp_path / "run.json").read_text())["version"] == 3


def test_a_cut_from_before_parts_were_listed_is_read_and_done(tmp_path):
    written(Parquet, tmp_path, [numbers(step, [1.0]) for step in range(4)])
    file = as_version_2(tmp_path) / "run.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "cut": [4, 2]}))
    assert steps_of(tmp_path) == [0, 1]
    written(Parquet, tmp_path, [numbers(3, [1.0])], start_step=3)
    assert steps_of(tmp_path) == [0, 1, 3]


def test_what_the_head_does_not_list_is_passed_over_and_cleared_away(tmp_path):
    written(Parquet, tmp_path, [numbers(step, [1.0]) for step in range(2)])
    unlisted = tmp_path / "points-00000007.parquet"
    shutil.copy(tmp_path / "points-00000001.parquet", unlisted)
    own = tmp_path / "points-of-mine.parquet"
    shutil.copy(unlisted, own)
    assert steps_of(tmp_path) == [0, 1]
    written(Parquet, tmp_path, [numbers(2, [1.0])], start_step=2)
    assert steps_of(tmp_path) == [0, 1, 2]
    assert not unlisted.exists()
    assert own.exists()


def test_a_part_that_has_not_taken_its_name_is_read_and_takes_it(tmp_path):
    written(Parquet, tmp_path, [numbers(step, [1.0]) for step in range(2)])
    last = tmp_path / "points-00000001.parquet"
    last.rename(tmp_path / f"{last.name}.tmp")
    assert steps_of(tmp_path) == [0, 1]
    with taiyi_fx.open_run(tmp_path) as run:
        assert [part.step.tolist() for part in run.source.slices()] == [[0], [1]]
    assert pl.read_parquet(tmp_path / "points-*.parquet")["step"].to_list() == [0]
    opened(Parquet, tmp_path, start_step=2).close()
    assert pl.read_parquet(tmp_path / "points-*.parquet")["step"].to_list() == [0, 1]


def test_a_reader_beside_sessions_that_drop_steps_sees_whole_ones(tmp_path):
    def session(start):
        batches = [numbers(step, [float(step)]) for step in range(start, 20)]
        written(Parquet, tmp_path, [*batches, Batch(0, ended=EpochEnd(0, 7, ()))], start)

    session(0)
    child = os.fork()
    if not child:
        for start in (15, 3, 10, 1, 12, 5):
            session(start)
        os._exit(0)
    reads = 0
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        with taiyi_fx.open_run(tmp_path) as run:
            table = run.to_numpy()
            sliced = sliced_steps(run)
        for steps in (table["step"].tolist(), sliced):
            assert steps == list(range(len(steps)))
        reads += 1
    assert reads > 2
    assert steps_of(tmp_path) == list(range(20))


def sliced_steps(run):
    """All steps by slices, read again where a session dropped some meanwhile."""
    while True:
        try:
            return [step for part in run.source.slices() for step in part.step.tolist()]
        except Changed:
            pass


def test_a_head_that_is_replaced_on_a_network_while_it_is_read_is_read_again(tmp_path, monkeypatch):
    written(Parquet, tmp_path, [numbers(0, [1.0])])
    fails = iter([errno.ESTALE, errno.ESTALE])
    read = Path.read_text

    def read_text(self, **options):
        for number in fails:
            raise OSError(number, "Stale file handle")
        return read(self, **options)

    monkeypatch.setattr(Path, "read_text", read_text)
    assert steps_of(tmp_path) == [0]


def test_a_changed_byte_of_a_column_is_told_or_changes_no_number(tmp_path):
    whole = tmp_path / "whole"
    written(Parquet, whole, [numbers(step, [step / 7]) for step in range(40)])
    part = max(whole.glob("points-*.parquet"), key=lambda file: file.stat().st_size)
    data, expected = part.read_bytes(), curve_of(whole)
    shutil.copytree(whole, tmp_path / "changed")
    columns = pq.read_metadata(part).row_group(0)
    told = 0
    for column in map(columns.column, range(columns.num_columns)):
        first = column.dictionary_page_offset or column.data_page_offset
        for place in range(first, first + column.total_compressed_size, 23):
            changed = bytearray(data)
            changed[place] ^= 0x10
            (tmp_path / "changed" / part.name).write_bytes(changed)
            try:
                assert curve_of(tmp_path / "changed") == expected
            except (ValueError, OSError, LookupError):
                told += 1
    assert told > 5


def curve_of(folder):
    with taiyi_fx.open_run(folder) as run:
        return [x.tolist() for x in run.series("a", "q")]


def test_a_scan_is_unread_and_the_long_table(tmp_path):
    written(Parquet, tmp_path, [numbers(0, [1.0, float("nan")]), numbers(1, [float("inf"), 2])])
    with taiyi_fx.open_run(tmp_path) as run:
        scan = run.scan()
        assert "PARQUET" in scan.explain().upper()
        found, expected = scan.collect(), run.to_numpy()
        assert found.columns == list(expected)
        assert found["flag"].to_list() == expected["flag"].tolist() == ["", "NaN", "+Inf", ""]
        assert found["module"].to_list() == expected["module"].tolist()
        assert scan.filter(pl.col("step") == 1).select("value").collect()["value"].to_list() == [
            float("inf"), 2.0,
        ]  # fmt: skip


def test_a_scan_of_a_run_without_numbers_is_empty(tmp_path):
    written(Parquet, tmp_path, [])
    with taiyi_fx.open_run(tmp_path) as run:
        assert run.scan().collect().shape == (0, 10)


def test_a_scan_leaves_out_rows_that_a_session_is_dropping(tmp_path):
    written(Parquet, tmp_path, [numbers(step, [float(step)]) for step in range(3)])
    file = tmp_path / "run.json"
    head = json.loads(file.read_text())
    file.write_text(json.dumps({**head, "cut": [head["next"], 2]}))
    with taiyi_fx.open_run(tmp_path) as run:
        assert run.scan().collect()["step"].to_list() == [0, 1]
