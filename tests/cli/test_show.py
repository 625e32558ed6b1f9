"""`taiyi-fx show`."""

import json

import pytest
import torch

import taiyi_fx
from taiyi_fx.records.record import Event
from taiyi_fx.writers import Batch
from tests.cli.conftest import recorded
from tests.cli.given_runs import INF, NAN, cells
from tests.writers.runs import FORMATS, numbers, opened, written


def test_show_tells_what_a_run_has(cli, run):
    code, out, err = cli("show", run, "--events")
    assert (code, err) == (0, "")
    head, finding, series, events = out.split("\n\n")
    told = dict(line for line in cells(head))
    assert told["run"] == str(run)
    assert told["model"] == "torch.nn.modules.container.Sequential"
    assert f"torch {torch.__version__}" in told["versions"]
    assert told["steps"] == "0 ... 4"
    assert told["series"] == "3 (11 values)"
    assert told["events"] == "1 x warning"
    assert told["findings"] == "1 alert"
    assert finding.startswith("alert non_finite: step ")
    assert "the first NaN or Inf is in the logged numbers of 'a', and no module was" in finding
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


def test_an_event_of_several_lines_is_one_row(cli, tmp_path):
    writer = opened(FORMATS[0], tmp_path / "run")
    writer.write(Batch(0, events=[Event(1, "warning", "a", "two lines\n  of text")]))
    writer.close()
    out = cli("show", tmp_path / "run", "--events")[1]
    assert cells(out.split("\n\n")[-1])[2:] == [["1", "warning", "a", "two lines of text"]]


@pytest.mark.parametrize(
    ("chosen", "counts"),
    [
        (["--module", "a"], "1 alert"),
        (["--quantity", "q", "--mode", "train"], "1 alert"),
        (["--module", "b"], "1 alert; 0 of what is shown"),
        (["--mode", "eval"], "1 alert; 0 of what is shown"),
    ],
)
def test_findings_are_those_of_the_series_that_are_chosen(cli, run, chosen, counts):
    head, *parts = cli("show", run, *chosen)[1].split("\n\n")
    assert dict(cells(head))["findings"] == counts
    assert [part.startswith("alert ") for part in parts[:-1]] == [True] * (counts == "1 alert")


def test_show_as_json_is_strict_json(cli, run):
    code, out, _ = cli("show", run, "--json", "--mode", "train")
    found = json.loads(out, parse_constant=pytest.fail)
    assert code == 0
    assert found["start_steps"] == [0]
    assert found["epochs"][0]["number"] == 0
    assert [one["kind"] for one in found["findings"]] == ["non_finite"]
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


def test_an_empty_run_is_shown_drawn_and_equal_to_itself(cli, tmp_path):
    written(FORMATS[0], tmp_path, [])
    assert "steps     none\n" in cli("show", tmp_path)[1]
    assert cli("plot", tmp_path) == (0, "no numbers to draw\n", "")
    assert cli("compare", tmp_path, tmp_path)[0] == 0


def test_counts_of_nothing_are_one_line_unless_they_are_asked_for(cli, tmp_path):
    model = taiyi_fx.instrument(
        torch.nn.Linear(2, 2), {"": ["NonFinite", "OutputRMS"]}, run=tmp_path / "run"
    )
    for step in range(2):
        model(torch.ones(1, 2)).sum().backward()
        model.monitor.track(step)
    model.monitor.close()
    path = tmp_path / "run"
    *_, rows, line = cli("show", path)[1].split("\n\n")
    assert "OutputRMS" in rows
    assert "NonFinite" not in rows
    names = "NonFinite, NonFinite.Inf, NonFinite.NaN"
    assert (
        line.strip() == f"3 more series counted no NaN or Inf, and --quantity shows them: {names}"
    )
    asked = cli("show", path, "--quantity", "NonFinite*")[1]
    assert "more series" not in asked
    assert "NonFinite.NaN" in asked


def grown(path, modules):
    """A run of norms that grow, each by a factor ten times that of the one before."""
    layers = [torch.nn.Linear(2, 2) for _ in range(modules)]
    model = taiyi_fx.instrument(torch.nn.Sequential(*layers), {"Linear": ["WeightNorm"]}, run=path)
    for step in range(4):
        model(torch.ones(1, 2)).sum().backward()
        model.monitor.track(step)
        with torch.no_grad():
            for i, layer in enumerate(layers):
                layer.weight.mul_(1 + i)
    model.monitor.close()
    return path


def test_of_many_series_those_are_shown_that_changed_most(cli, tmp_path):
    path = grown(tmp_path / "run", 12)
    *_, title, rows, rest = cli("show", path)[1].rstrip("\n").split("\n\n")
    assert title == "Most changed, or differ most from their siblings:"
    shown = [row[0] for row in cells(rows)[2:]]
    assert shown[:8] == [str(i) for i in range(11, 3, -1)]
    assert set(shown[8:]) == {"3", "0"}  # which alone did not grow
    assert cells(rows)[2][1:3] == ["WeightNorm", "norm of the weight"]
    assert (
        rest == "2 more series: --all shows them; --module and --quantity choose some, by * ? [ ]"
    )
    for asked in (["--all"], ["--quantity", "WeightNorm"], ["--module", "*"], ["--mode", "train"]):
        assert len(cells(cli("show", path, *asked)[1].rstrip("\n").split("\n\n")[-1])) == 2 + 12


def test_a_run_without_findings_says_where_to_begin(cli, tmp_path):
    written(FORMATS[0], tmp_path, [numbers(step, [1.0, 2.0**step]) for step in range(5)])
    head, changed, rows = cli("show", tmp_path)[1].split("\n\n")
    told = dict(cells(head))["findings"]
    assert told == "none of the known ones was recognised; another fault may be there"
    title, row = changed.splitlines()
    assert title.startswith("What changed most, from the median of its first numbers")
    assert row == "q of b  from 1.5 to 12"
    assert cells(rows)[2:][0][0] == "a"


def test_a_ratio_of_zero_by_zero_is_no_value_and_is_counted(cli, tmp_path):
    plain = torch.nn.Linear(2, 2)
    model = taiyi_fx.instrument(plain, {"": ["WeightGradAgreement"]}, run=tmp_path / "run")
    for step in range(3):
        (model(torch.ones(1, 2)) * 0).sum().backward()
        model.monitor.track(step)
    model.monitor.close()
    *_, rows, line = cli("show", tmp_path / "run")[1].rstrip("\n").split("\n\n")
    assert cells(rows)[-1][-6:] == ["-", "-", "-", "-", "3", "0"]
    assert line.startswith("- is no value: it is a ratio of zero by zero")
