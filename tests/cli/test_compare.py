"""`taiyi-fx compare`: what it shows."""

import json

import numpy as np
import pytest

from tests.cli.given_runs import INF, NAN, both, cells, parted
from tests.writers.runs import FORMATS, numbers, written


@both
def test_equal_runs_are_equal_nan_and_inf_too(cli, run, kind, tmp_path):
    assert cli("compare", run, run)[:2] == (0, "no difference in the 3 series of both\n")
    rows = [[1.0, NAN], [INF, -0.0]]
    one, other = (parted(kind, tmp_path / name, rows) for name in ("one", "other"))
    assert cli("compare", one, other)[0] == 0
    assert json.loads(cli("compare", one, other, "--json")[1]) == {
        "equal": True,
        "compared": 2,
        "differ": [],
        "only": [],
    }


def test_the_first_divergence_of_each_series_is_found(cli, tmp_path):
    one = parted(FORMATS[0], tmp_path / "one", [[0, 0, 0, 5], [0, 1, NAN, 5], [0, 2, 3, 5]])
    other = parted(FORMATS[0], tmp_path / "two", [[0, 0, 0, 5], [0, 1, 7, 5], [8, 4, 9, 5]])
    code, out, _ = cli("compare", one, other)
    first, table = out.split("\n\n")
    assert code == 1
    assert first == "first divergence at step 1 in 'c' q: 3 of 4 series differ"
    assert cells(table)[2:] == [
        ["1", "c", "q", "train", "nan", "7", "2 of 3"],
        ["2", "a", "q", "train", "0", "8", "1 of 3"],
        ["2", "b", "q", "train", "2", "4", "1 of 3"],
    ]
    assert cli("compare", one, other, "--module", "d")[0] == 0
    _, out, _ = cli("compare", one, other, "--limit", 1)
    assert out.endswith("\n... and 2 more: --limit 3\n")
    found = json.loads(cli("compare", one, other, "--json", "--limit", 1)[1])
    assert [d["module"] for d in found["differ"]] == ["c", "a", "b"]
    assert found["differ"][0] == {
        "module": "c",
        "quantity": "q",
        "mode": "train",
        "step": 1,
        "one": "NaN",
        "other": 7.0,
        "differing": 2,
        "steps": 3,
    }


@pytest.mark.parametrize(
    ("tolerance", "code"),
    [
        ([], 1),
        (["--rtol", "0.09"], 1),
        (["--rtol", "0.1"], 0),
        (["--atol", "9"], 1),
        (["--atol", "10"], 0),
        (["--rtol", "0.05", "--atol", "5"], 0),
    ],
)
def test_what_is_within_the_tolerances_is_equal(cli, tmp_path, tolerance, code):
    one, other = (parted(FORMATS[0], tmp_path / str(v), [[v]]) for v in (110.0, 100.0))
    assert cli("compare", one, other, *tolerance)[0] == code


def test_numbers_that_print_alike_are_shown_in_full(cli, tmp_path):
    one = parted(FORMATS[0], tmp_path / "one", [[1.0]])
    other = parted(FORMATS[0], tmp_path / "two", [[float(np.nextafter(1, 2))]])
    assert cells(cli("compare", one, other)[1])[-1][4:6] == ["1.0", "1.0000000000000002"]


@both
def test_what_one_run_alone_has_is_a_difference(cli, kind, tmp_path):
    one = parted(kind, tmp_path / "one", [[1.0, 1.0], [1.0, 1.0], [1.0, 1.0]])
    other = parted(kind, tmp_path / "two", [[1.0], [1.0]])
    code, out, _ = cli("compare", one, other)
    first, table, only = out.split("\n\n")
    assert code == 1
    assert first == (
        "no difference where both runs have a value: 1 of 1 series lack values in one run, "
        "1 are in one run only"
    )
    assert cells(table)[2:] == [["2", "a", "q", "train", "1", "nothing", "1 of 3"]]
    assert cells(only)[2:] == [["b", "q", "train", str(one)]]
    code, out, _ = cli("compare", other, one, "--module", "b")
    assert code == 1
    assert out.startswith("1 series in one run only; no difference in the 0 series of both\n")
    found = json.loads(cli("compare", other, one, "--json")[1])
    assert found["only"] == [{"module": "b", "quantity": "q", "mode": "train", "run": "other"}]
    assert found["differ"][0]["one"] is None


def gapped(folder, count, value):
    """A number of so many modules at steps 1 and 2, of the first alone at step 3."""
    steps = [numbers(1, [0.0] * count), numbers(2, [0.0] * count), numbers(3, [value])]
    return written(FORMATS[0], folder, steps)


def test_what_one_run_has_no_value_of_comes_after_differences(cli, tmp_path):
    count = 6
    one = gapped(tmp_path / "one", count, 1.0)
    rest = [numbers(2, [0.0] * count), numbers(3, [2.0])]
    other = written(FORMATS[0], tmp_path / "two", rest)
    code, out, _ = cli("compare", one, other)
    head, table = out.rstrip("\n").split("\n\n")
    assert code == 1
    assert head == (
        "first divergence at step 3 in 'a' q: 1 of 6 series differ, "
        "5 of 6 series lack values in one run"
    )
    assert cells(table)[2] == ["3", "a", "q", "train", "1", "2", "2 of 3"]
    assert cells(table)[3] == ["1", "b", "q", "train", "0", "nothing", "1 of 2"]
    assert len(cells(table)) == 2 + count


def test_many_series_that_lack_values_are_one_line(cli, tmp_path):
    one = gapped(tmp_path / "one", 7, 1.0)
    rest = [numbers(2, [0.0] * 7), numbers(3, [2.0])]
    other = written(FORMATS[0], tmp_path / "two", rest)
    _, table, line = cli("compare", one, other)[1].rstrip("\n").split("\n\n")
    assert [row[1] for row in cells(table)[2:]] == ["a"]
    assert line == "6 series lack values in one run, first at step 1 in 'b' q: --json lists them"
    found = json.loads(cli("compare", one, other, "--json")[1])
    assert [d["module"] for d in found["differ"]] == [*"abcdefg"]
    lines = cli("compare", one, other, "--module", "[!a]")[1].rstrip("\n").split("\n\n")
    assert lines == [
        "no difference where both runs have a value: 6 of 6 series lack values in one run",
        line,
    ]
