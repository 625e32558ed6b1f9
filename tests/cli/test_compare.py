"""`taiyi-fx compare`: what it shows."""

import json

import numpy as np
import pytest

from taiyi_fx.records.record import Block
from taiyi_fx.writers import Batch
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
        "aligned": 0,
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


def renamed(folder, values, prefix):
    """A run whose modules have names with a prefix, as those of a wrapped model have."""
    batches = []
    for step, row in enumerate(values):
        (block,) = numbers(step, row).blocks
        names = tuple((f"{prefix}{module}", quantity) for module, quantity in block.series)
        batches.append(Batch(0, [Block(step, "train", names, block.values)]))
    return written(FORMATS[0], folder, batches)


def test_modules_of_another_name_are_compared_with_their_like(cli, tmp_path):
    values = [[1.0, 2.0], [1.0, 3.0]]
    one = renamed(tmp_path / "one", values, "")
    wrapped = renamed(tmp_path / "two", values, "_orig_mod.")
    code, out, _ = cli("compare", one, wrapped)
    assert (code, out) == (
        0,
        "no difference in the 2 series of both (2 modules aligned by structure)\n",
    )
    changed = renamed(tmp_path / "three", [[1.0, 2.0], [1.0, 9.0]], "_orig_mod.")
    code, out, _ = cli("compare", one, changed)
    assert code == 1
    assert cells(out)[-1][:6] == ["1", "b", "q", "train", "3", "9"]


def seeds(tmp_path, name, of):
    """Runs of one training with several seeds; the second series is what changes."""
    return [
        parted(FORMATS[0], tmp_path / f"{name}-{seed}", [[1.0 + seed, 2.0 * of]] * 6)
        for seed in range(3)
    ]


def test_what_differs_more_than_seeds_do_comes_first(cli, tmp_path):
    old, new = seeds(tmp_path, "old", 1), seeds(tmp_path, "new", 3)
    code, out, _ = cli("compare", tmp_path / "old-*", tmp_path / "new-*")
    head, table = out.split("\n\n")
    assert (code, head) == (0, "1 of 2 series differ more than runs of one group do")
    assert cells(table)[2][:5] == ["b", "q", "train", "x 3", "up to x 1"]
    assert cells(table)[2][5] == f"{new[0]} and 2 more"
    by_commas = cli("compare", ",".join(map(str, old)), ",".join(map(str, new)))[1]
    assert by_commas == out
    found = json.loads(cli("compare", tmp_path / "old-*", tmp_path / "new-*", "--json")[1])
    assert found["groups"] == [[*map(str, old)], [*map(str, new)]]
    assert [(one["module"], one["runs"]) for one in found["differ"]] == [("b", [*map(str, new)])]


def test_groups_that_differ_no_more_than_their_seeds_are_alike(cli, tmp_path):
    seeds(tmp_path, "old", 1)
    seeds(tmp_path, "new", 1)
    code, out, _ = cli("compare", tmp_path / "old-*", tmp_path / "new-*")
    assert (code, out) == (0, "0 of 2 series differ more than runs of one group do\n")


def test_more_than_two_runs_are_each_compared_with_the_first_by_size(cli, tmp_path):
    runs = [parted(FORMATS[0], tmp_path / str(x), [[1.0, x]] * 4) for x in (1.0, 2.0, 5.0)]
    _, out, _ = cli("compare", *runs)
    assert out.startswith("2 of 2 series differ in size\n")
    rows = cells(out)[4:]
    assert [(row[0], row[3], row[-1]) for row in rows] == [
        ("b", "x 5", str(runs[2])),
        ("b", "x 2", str(runs[1])),
    ]
    assert cli("compare", *runs[:2], "--by", "size")[1].splitlines()[-1].endswith(str(runs[1]))


def test_series_that_some_runs_lack_are_counted_and_filters_hold(cli, tmp_path):
    one = parted(FORMATS[0], tmp_path / "one", [[1.0, 2.0]] * 4)
    other = parted(FORMATS[0], tmp_path / "two", [[2.0]] * 4)
    _, out, _ = cli("compare", one, other, "--by", "size")
    assert out.startswith("1 of 1 series differ in size, 1 are not in all runs\n")
    code, _, err = cli("compare", one, other, "--by", "size", "--module", "z")
    assert code == 2
    assert "no module matches 'z'" in err


def test_what_does_not_go_together_is_refused(cli, tmp_path):
    runs = [parted(FORMATS[0], tmp_path / str(x), [[1.0]]) for x in range(3)]
    code, _, err = cli("compare", *runs, "--by", "step")
    assert (code, "--by step is of two runs" in err) == (2, True)
    code, _, err = cli("compare", *runs, "--rtol", 0.1)
    assert (code, "are of --by step" in err) == (2, True)
    code, _, err = cli("compare", tmp_path / "none-*", runs[0])
    assert (code, "no folder matches" in err) == (2, True)
