"""Runs that a command line names, and which of their series."""

import json

import pytest

from taiyi_fx.cli.opening import opened as open_a_run
from taiyi_fx.cli.refused import Refused
from tests.cli.given_runs import parted
from tests.writers.runs import FORMATS, numbers, written


@pytest.mark.parametrize("command", ["show", "plot"])
@pytest.mark.parametrize(
    ("chosen", "told"),
    [
        (["--module", "c"], "no module matches 'c'."),
        (["--module", "a", "--quantity", "Q"], "no quantity matches 'Q'. Did you mean 'q'?"),
        (
            ["--quantity", "t", "--mode", "eval"],
            "no series matches all of --module, --quantity, --",
        ),
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
    assert len(cli("show", run, *chosen)[1].split("\n\n")[-1].splitlines()) == 2 + rows


@pytest.mark.parametrize("command", ["show", "plot", "export", "compare", "report", "watch"])
def test_what_is_no_run_is_told(cli, tmp_path, command):
    more = {"export": ["-o", tmp_path / "x.csv"], "compare": [tmp_path]}.get(command, [])
    code, out, err = cli(command, tmp_path, *more)
    assert (code, out) == (2, "")
    assert "it has neither run.sqlite nor run.json" in err
    (tmp_path / "run.sqlite").write_text("hello, this is no database at all" * 100)
    assert "is damaged, or is not a run" in cli(command, tmp_path, *more)[2]


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


def test_a_reader_that_goes_away_while_a_run_is_open_is_no_refusal(run):
    with pytest.raises(BrokenPipeError), open_a_run(str(run)):
        raise BrokenPipeError(32, "Broken pipe")
    with pytest.raises(Refused, match="no space"), open_a_run(str(run)):
        raise OSError("no space")
