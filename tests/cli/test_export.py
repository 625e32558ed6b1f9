"""`taiyi-fx export`."""

import csv
import importlib
import json

import numpy as np
import pytest

import taiyi_fx
from taiyi_fx.records.record import Block
from taiyi_fx.writers import Batch
from tests.writers.runs import FORMATS, written


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_an_exported_file_has_the_numbers_of_the_run(cli, run, tmp_path, suffix):
    file = tmp_path / f"numbers.{suffix}"
    code, out, err = cli("export", run, "-o", file)
    assert (code, out, err) == (0, f"{file}: 6 numbers; 5 tensors left out\n", "")
    assert [f.name for f in tmp_path.iterdir() if f.is_file()] == [file.name]
    with taiyi_fx.open_run(run) as opened_run:
        expected = {name: column.tolist() for name, column in opened_run.to_numpy().items()}
    found = READ[suffix](file)
    assert list(found) == list(expected)
    for name, column in expected.items():
        np.testing.assert_array_equal(found[name], column)


def _of_csv(file):
    with file.open(encoding="utf-8", newline="") as stream:
        head, *rows = csv.reader(stream, quoting=csv.QUOTE_NONNUMERIC)
    return dict(zip(head, zip(*rows, strict=True), strict=True))


def _of_jsonl(file):
    lines = file.read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line, parse_constant=pytest.fail) for line in lines]
    return {
        name: [float(r[name]) if name == "value" else r[name] for r in rows] for name in rows[0]
    }


def _of_parquet(file):
    return importlib.import_module("pyarrow.parquet").read_table(file).to_pydict()


READ = {"csv": _of_csv, "jsonl": _of_jsonl, "parquet": _of_parquet}


def test_names_with_ends_of_lines_are_exported_whole(cli, tmp_path):
    name = 'two\nlines, "quoted"'
    written(FORMATS[0], tmp_path / "run", [Batch(0, [Block(0, "train", ((name, "q"),), [1.0])])])
    for suffix in READ:
        file = tmp_path / f"x.{suffix}"
        assert cli("export", tmp_path / "run", "-o", file)[:2] == (0, f"{file}: 1 number\n")
        assert list(READ[suffix](file)["module"]) == [name]


def test_export_replaces_a_file_only_when_told(cli, run, tmp_path):
    file = tmp_path / "x.csv"
    file.write_text("mine")
    code, _, err = cli("export", run, "-o", file)
    assert (code, file.read_text()) == (2, "mine")
    assert "is there already: --force replaces it" in err
    assert cli("export", run, "-o", file, "--force")[0] == 0
    assert file.read_text() != "mine"


def test_export_replaces_what_a_link_leads_to(cli, run, tmp_path):
    file, link = tmp_path / "x.csv", tmp_path / "link.csv"
    link.symlink_to(file)
    code, _, err = cli("export", run, "-o", link)
    assert (code, file.exists()) == (2, False)
    assert "is there already: --force replaces it" in err
    for _ in range(2):
        assert cli("export", run, "-o", link, "--force")[0] == 0
        assert link.is_symlink()
        assert file.read_text().startswith('"step",')
        file.write_text("old")


def test_an_export_that_fails_leaves_no_file(cli, run, tmp_path, monkeypatch):
    assert "FILE ends in .csv" in cli("export", run, "-o", tmp_path / "x.xls")[2]
    assert cli("export", run, "-o", tmp_path / "none" / "x.csv")[0] == 2
    file = tmp_path / "x.csv"
    file.write_text("mine")

    def full(*_):
        yield 1, 2
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("taiyi_fx.cli.export._rows", full)
    code, _, err = cli("export", run, "-o", file, "--force")
    assert (code, file.read_text()) == (2, "mine")
    assert "No space left" in err
    assert [f.name for f in tmp_path.iterdir() if f.is_file()] == ["x.csv"]
