"""What a command line shows, draws, compares and writes of runs."""

import csv
import importlib
import json
import re

import numpy as np
import pytest
import torch

import taiyi_fx
from taiyi_fx.cli.sparkline import BLOCKS, sparkline
from taiyi_fx.records.record import Block, Event, Record
from taiyi_fx.runs import Curve
from taiyi_fx.writers import Batch, EpochEnd
from tests.cli.conftest import recorded
from tests.writers.runs import FORMATS, numbers, opened, written

both = pytest.mark.parametrize("kind", FORMATS)
NAN, INF = float("nan"), float("inf")
VALUES = [3.0, NAN, -INF, 1.0, 2.0]


def cells(text):
    return [re.split("  +", line) for line in text.splitlines()]


@pytest.fixture(params=FORMATS)
def run(request, tmp_path):
    """Module a with q at five steps, in training and once in evaluation; b with tensors."""
    writer = opened(request.param, tmp_path / "run")
    for step, value in enumerate(VALUES):
        told = [Event(step, "warning", "a", "too hot")] if step == 1 else []
        writer.write(numbers(step, [value], epoch=step // 3, events=told))
        writer.write(Batch(step // 3, records=[Record(step, "b", "t", torch.full((2, 3), step))]))
    writer.write(numbers(4, [0.5], mode="eval", ended=EpochEnd(0, 0, ())))
    writer.close()
    return tmp_path / "run"


def test_show_tells_what_a_run_has(cli, run):
    code, out, err = cli("show", run, "--events")
    assert (code, err) == (0, "")
    head, series, events = out.split("\n\n")
    told = dict(line for line in cells(head))
    assert told["run"] == str(run)
    assert told["model"] == "torch.nn.modules.container.Sequential"
    assert f"torch {torch.__version__}" in told["versions"]
    assert told["steps"] == "0 ... 4"
    assert told["series"] == "3 (11 values)"
    assert told["events"] == "1 x warning"
    assert cells(series)[2:] == [
        ["a", "q", "train", "0 ... 4 (5)", "3", "2", "1", "3", "1", "1"],
        ["b", "t", "train", "0 ... 4 (5)", "tensors"],
        ["a", "q", "eval", "4", "0.5", "0.5", "0.5", "0.5", "0", "0"],
    ]
    assert cells(events)[2:] == [["1", "warning", "a", "too hot"]]


def test_show_tells_overflows_from_first_sites(cli, tmp_path):
    writer = opened(FORMATS[0], tmp_path / "run")
    kinds = ("overflow", "overflow", "non_finite")
    events = [Event(step, kind, "a", "Inf") for step, kind in enumerate(kinds)]
    writer.write(Batch(0, events=events))
    writer.close()
    head = dict(line for line in cells(cli("show", tmp_path / "run")[1].split("\n\n")[0]))
    assert head["events"] == "2 x overflow under the scaler, 1 x first NaN or Inf"


def test_show_as_json_is_strict_json(cli, run):
    code, out, _ = cli("show", run, "--json", "--mode", "train")
    found = json.loads(out, parse_constant=pytest.fail)
    assert code == 0
    assert found["start_steps"] == [0]
    assert found["epochs"][0]["number"] == 0
    assert found["events"] == [{"step": 1, "kind": "warning", "module": "a", "text": "too hot"}]
    name = {"mode": "train", "first_step": 0, "last_step": 4, "values": 5}
    numbers = {"first": 3.0, "last": 2.0, "min": 1.0, "max": 3.0, "nan": 1, "inf": 1}
    assert found["series"] == [
        {"module": "a", "quantity": "q", **name, **numbers},
        {"module": "b", "quantity": "t", **name, "tensors": True},
    ]


def test_numbers_that_are_never_finite_have_no_smallest(cli, tmp_path):
    written(FORMATS[0], tmp_path, [numbers(0, [NAN]), numbers(1, [INF])])
    assert cells(cli("show", tmp_path)[1])[-1][-6:] == ["nan", "inf", "nan", "nan", "1", "1"]
    (series,) = json.loads(cli("show", tmp_path, "--json")[1])["series"]
    assert (series["first"], series["last"], series["min"]) == ("NaN", "Infinity", "NaN")


def test_a_run_that_was_resumed_says_so(cli, tmp_path):
    recorded(tmp_path, range(4))
    model = torch.nn.Sequential(torch.nn.Linear(4, 3))
    taiyi_fx.instrument(model, {"0": ["WeightNorm"]}, run=tmp_path, start_step=2).monitor.close()
    assert ["resumed", "at step 2"] in cells(cli("show", tmp_path)[1])


@pytest.mark.parametrize("command", ["show", "plot"])
@pytest.mark.parametrize(
    ("chosen", "told"),
    [
        (["--module", "c"], "no module fits 'c'."),
        (["--module", "a", "--quantity", "Q"], "no quantity fits 'Q'. Did you mean 'q'?"),
        (["--quantity", "t", "--mode", "eval"], "no series fits all of --module, --quantity, --"),
    ],
)
def test_a_choice_that_leaves_nothing_is_told(cli, run, command, chosen, told):
    code, out, err = cli(command, run, *chosen)
    assert (code, out) == (2, "")
    assert told in err


@pytest.mark.parametrize(
    ("chosen", "rows"),
    [
        (["--module", "a"], 2),
        (["--module", "[b]"], 1),
        (["--quantity", "q", "--quantity", "t"], 3),
        (["--quantity", "*", "--mode", "train"], 2),
    ],
)
def test_series_are_chosen_by_patterns(cli, run, chosen, rows):
    assert len(cli("show", run, *chosen)[1].partition("\n\n")[2].splitlines()) == 2 + rows


def test_an_empty_run_is_shown_drawn_and_equal_to_itself(cli, tmp_path):
    written(FORMATS[0], tmp_path, [])
    assert "steps     none\n" in cli("show", tmp_path)[1]
    assert cli("plot", tmp_path) == (0, "no numbers to draw\n", "")
    assert cli("compare", tmp_path, tmp_path)[0] == 0


@pytest.mark.parametrize("command", ["show", "plot", "export", "compare"])
def test_what_is_no_run_is_told(cli, tmp_path, command):
    more = {"export": ["-o", tmp_path / "x.csv"], "compare": [tmp_path]}.get(command, [])
    code, out, err = cli(command, tmp_path, *more)
    assert (code, out) == (2, "")
    assert "it has neither run.sqlite nor run.json" in err
    (tmp_path / "run.sqlite").write_text("hello, this is no database at all" * 100)
    assert "is damaged, or no run" in cli(command, tmp_path, *more)[2]


@pytest.mark.parametrize("command", ["show", "plot", "export", "compare"])
def test_a_run_whose_middle_is_damaged_is_no_difference(cli, tmp_path, command):
    run = parted(FORMATS[0], tmp_path / "run", [[float(i)] * 20 for i in range(50)])
    file = run / "run.sqlite"
    whole = file.read_bytes()
    file.write_bytes(whole[:8192] + b"\xff" * (len(whole) - 8192))
    more = {"export": ["-o", tmp_path / "x.csv"], "compare": [run]}.get(command, [])
    code, out, err = cli(command, run, *more)
    assert (code, out) == (2, "")
    assert "run.sqlite' is damaged" in err


def test_plot_draws_in_the_terminal(cli, run):
    code, out, _ = cli("plot", run)
    assert code == 0
    head, _, train, evaluation = out.splitlines()
    assert head == "module  quantity  mode   steps 0 ... 4  first  last"
    assert train == "a       q         train  █!!▁▄          3      2"
    assert evaluation == "a       q         eval       ▁          0.5    0.5"


@pytest.mark.parametrize(
    ("steps", "values", "width", "line"),
    [
        ([0, 1, 2, 3], [0, 1, 2, 7], 9, "▁▂▃█"),
        ([0, 1, 2, 3], [0, 2, 6, 8], 2, "▁█"),
        ([0, 9], [5, 5], 5, "▁   ▁"),
        ([0, 1], [1.7e308, -1.7e308], 5, "█▁"),
        ([0, 0, 1], [1, NAN, 3], 5, "!▁"),
        ([2], [NAN], 5, "!"),
        ([0, 1], [-INF, INF], 5, "!!"),
        ([0, 1], [0, 5e-324], 5, "▁█"),
        ([0, 10**18], [0, 1], 48, "▁" + 46 * " " + "█"),
        ([0, 2**61, 2**62], [0, 7, 0], 3, "▁█▁"),
        ([-(2**62), 0, 2**62], [0, 7, 0], 3, "▁█▁"),
    ],
)
def test_a_sparkline_is_from_the_smallest_to_the_largest(steps, values, width, line):
    curve = Curve(np.array(steps), np.array(values, np.float64))
    assert sparkline(curve, BLOCKS, steps[0], steps[-1], width) == line


def test_a_picture_needs_one_quantity_and_a_file(cli, tmp_path):
    run = recorded(tmp_path / "run", loss=1.0)
    code, _, err = cli("plot", run, "-o", tmp_path / "x.png")
    assert code == 2
    assert "a picture is of one quantity: choose by --quantity from 'WeightNorm'" in err
    assert "give -o FILE" in cli("plot", run, "--kind", "heatmap")[2]


@pytest.mark.parametrize("kind", ["curves", "heatmap", "bands", "spectra"])
def test_pictures_of_all_kinds_are_drawn(cli, run, tmp_path, kind):
    pytest.importorskip("taiyi_fx.writers.figures")
    chosen = ["--quantity", "t" if kind == "spectra" else "q", "--mode", "train"]
    picture = tmp_path / "picture.png"
    code, out, err = cli("plot", run, *chosen, "--kind", kind, "-o", picture)
    assert (code, out, err) == (0, f"{picture}\n", "")
    assert picture.read_bytes().startswith(b"\x89PNG")
    code, _, err = cli("plot", run, *chosen, "--kind", kind, "-o", tmp_path / "picture.what")
    assert code == 2
    assert "'what' is not supported" in err


def test_a_picture_of_what_is_not_there_is_told(cli, run, tmp_path):
    pytest.importorskip("taiyi_fx.writers.figures")
    code, _, err = cli("plot", run, "--quantity", "t", "-o", tmp_path / "x.png")
    assert code == 2
    assert "no number of 't'" in err


def parted(kind, folder, values, **rest):
    return written(kind, folder, [numbers(step, row, **rest) for step, row in enumerate(values)])


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


@pytest.mark.parametrize(
    ("chosen", "told"),
    [
        (["--quantity", "Ratio"], ["Ratio", "Ratio.bias", "Ratio.weight"]),
        (["--quantity", "Ratio.bias"], ["Ratio.bias"]),
        (["--quantity", "Ratio*"], ["Ratio", "Ratio.bias", "Ratio.weight", "RatioOfMine"]),
        (["--exclude", "Ratio"], ["RatioOfMine", "loss"]),
        (["--exclude", "*.bias", "--exclude", "loss"], ["Ratio", "Ratio.weight", "RatioOfMine"]),
        (["--quantity", "Ratio", "--exclude", "Ratio.bias"], ["Ratio", "Ratio.weight"]),
    ],
)
@pytest.mark.parametrize("command", ["show", "compare"])
def test_a_quantity_is_chosen_or_left_out_with_its_parts(cli, tmp_path, command, chosen, told):
    names = ["Ratio", "Ratio.bias", "Ratio.weight", "RatioOfMine", "loss"]
    one, other = (
        written(FORMATS[0], tmp_path / str(x), [numbers(0, [x], quantity=n) for n in names])
        for x in (1.0, 2.0)
    )
    runs = [one, other] if command == "compare" else [one]
    found = json.loads(cli(command, *runs, "--json", *chosen)[1])
    series = found["differ"] if command == "compare" else found["series"]
    assert [one["quantity"] for one in series] == told


def test_several_values_of_a_step_are_compared_in_their_order(cli, tmp_path):
    def made(name, *values):
        return written(FORMATS[0], tmp_path / name, [numbers(3, [v]) for v in values])

    one = made("one", 1.0, 2.0)
    assert cli("compare", one, made("same", 1.0, 2.0))[0] == 0
    assert cells(cli("compare", one, made("turned", 2.0, 1.0))[1])[-1][-1] == "2 of 2"
    assert cells(cli("compare", one, made("less", 1.0))[1])[-1][4:] == ["2", "nothing", "1 of 2"]


@both
def test_tensors_are_compared_by_their_elements(cli, kind, tmp_path):
    def made(name, *tensors):
        records = [Record(step, "m", "t", x) for step, x in enumerate(tensors)]
        return written(kind, tmp_path / name, [Batch(0, records=records)])

    zeros, changed = torch.zeros(2, 3), torch.zeros(2, 3)
    changed[1, 0] = 0.5
    one = made("one", zeros, zeros)
    assert cli("compare", one, made("same", zeros, zeros))[0] == 0
    told = {
        "other": ([zeros, changed], ["1", "m", "t", "train", "[1, 0] 0.0", "[1, 0] 0.5", "1 of 2"]),
        "shape": ([zeros[0]], ["0", "m", "t", "train", "tensor 2 x 3", "tensor 3", "2 of 2"]),
        "fewer": ([zeros], ["1", "m", "t", "train", "tensor 2 x 3", "nothing", "1 of 2"]),
        "truth": ([zeros, zeros == 0], ["1", "m", "t", "train", "[0, 0] 0.0", "[0, 0] True", "1 of 2"]),
    }  # fmt: skip
    for name, (tensors, row) in told.items():
        code, out, _ = cli("compare", one, made(name, *tensors))
        assert (code, cells(out)[-1]) == (1, row)
    assert cli("compare", one, tmp_path / "other", "--atol", "0.5")[0] == 0
    block = Block(0, "train", (("m", "t"),), [0.0])
    number = written(kind, tmp_path / "number", [Batch(0, [block])])
    assert cells(cli("compare", one, number)[1])[-1][4:6] == ["tensor 2 x 3", "tensor"]


@both
def test_a_series_of_numbers_and_tensors_is_compared_by_both(cli, kind, tmp_path):
    def made(name, *values):
        records = [Record(step, "m", "q", x) for step, x in enumerate(values)]
        return written(kind, tmp_path / name, [Batch(0, records=records)])

    ones = torch.ones(2)
    one = made("one", 1.0, ones, 3.0)
    assert cli("compare", one, made("same", 1.0, ones, 3.0))[0] == 0
    told = {
        "tensor": ((1.0, ones * 2, 3.0), ["1", "[0] 1.0", "[0] 2.0", "1 of 1"]),
        "number": ((2.0, ones * 2, 3.0), ["0", "1", "2", "1 of 2"]),
        "last": ((1.0, ones, 4.0), ["2", "3", "4", "1 of 2"]),
        "numbers": ((1.0,), ["1", "tensor 2", "nothing", "1 of 1"]),
        "tensors": ((ones, ones, ones), ["0", "tensor", "tensor 2", "2 of 3"]),
    }
    for name, (values, row) in told.items():
        code, out, _ = cli("compare", one, made(name, *values))
        step, _, _, _, *rest = cells(out)[-1]
        assert (code, [step, *rest]) == (1, row)


@both
@pytest.mark.parametrize("value", [2**60, torch.tensor([2**60])])
def test_integers_are_compared_exactly_unless_a_tolerance_is_given(cli, kind, tmp_path, value):
    one, other = (
        written(kind, tmp_path / name, [Batch(0, records=[Record(0, "m", "q", x)])])
        for name, x in (("one", value), ("two", value + 1))
    )
    code, out, _ = cli("compare", one, other)
    assert (code, [text.split()[-1] for text in cells(out)[-1][4:6]]) == (
        1,
        ["1152921504606846976", "1152921504606846977"],
    )
    assert cli("compare", one, one)[0] == 0
    assert cli("compare", one, other, "--rtol", "1e-9")[0] == 0


@both
def test_steps_of_any_size_are_told_apart(cli, kind, tmp_path):
    def made(name, *values):
        steps = (-(2**62), 2**62, 2**62, 2**62 + 1)
        batches = [numbers(step, [x]) for step, x in zip(steps, values, strict=True)]
        return written(kind, tmp_path / name, batches)

    one = made("one", 1.0, 2.0, 3.0, 4.0)
    assert cli("compare", one, one)[0] == 0
    row = cells(cli("compare", one, made("two", 1.0, 2.0, 3.5, 4.0))[1])[-1]
    assert row == [str(2**62), "a", "q", "train", "3", "3.5", "1 of 4"]


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
