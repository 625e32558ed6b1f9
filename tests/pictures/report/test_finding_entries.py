"""Findings on a page: those of the run itself, and nothing that they name is shown as healthy."""

import json

import pytest

import taiyi_fx
from taiyi_fx.findings import Finding
from taiyi_fx.pictures.report.contents import contents
from taiyi_fx.pictures.report.finding_entries import (
    MOST_CONSEQUENCES,
    Seen,
    finding_entry,
    flagged,
)
from taiyi_fx.pictures.report.header import as_json
from taiyi_fx.pictures.report.live import LiveRun
from taiyi_fx.pictures.report.readout import MonitorReadout, RunReadout
from tests.pictures.report.models import wild


def finding(severity="warning", module="a", quantity="OutputRMS", consequences=()):
    told = ("outlier", severity, module, quantity, 3, float("inf"), "", "seen", "do")
    return Finding(*told, consequences=tuple(consequences))


def entry(module, state="ok", quantity="OutputRMS", mode="train", nan=0, unit=""):
    named = {"module": module, "quantity": quantity, "mode": mode, "state": state}
    return {**named, "nan": nan, "inf": 0, "health": "", "unit": unit}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return wild(tmp_path_factory.mktemp("wild") / "run")


def test_a_page_has_the_findings_of_its_run(run):
    path, monitor = run
    with taiyi_fx.open_run(path) as opened:
        named = [(found.kind, found.module, found.text) for found in opened.findings]
        expected = contents("run", RunReadout(opened)).entry["findings"]
    assert [(one["kind"], one["module"], one["text"]) for one in expected] == named
    assert expected[0]["module"] == "4"
    assert contents("run", MonitorReadout(monitor)).entry["findings"] == expected
    assert LiveRun(path).header()["runs"][0]["findings"] == expected


def test_what_a_finding_names_is_flagged_on_the_page(run):
    with taiyi_fx.open_run(run[0]) as opened:
        made = contents("run", RunReadout(opened)).entry
    found = made["findings"][0]
    key = (found["module"], found["quantity"], "train")
    (state,) = {
        s["state"] for s in made["series"] if (s["module"], s["quantity"], s["mode"]) == key
    }
    assert state == "warn"


def test_an_entry_is_strict_json_with_its_first_consequences():
    rest = [finding(module=f"m{i}") for i in range(MOST_CONSEQUENCES + 3)]
    told = finding_entry(finding(consequences=rest), {}, None)
    assert json.loads(as_json(told))["value"] == "Infinity"
    assert len(told["consequences"]) == MOST_CONSEQUENCES
    assert told["follow"] == len(rest)


def test_a_series_is_as_grave_as_what_was_found_of_it():
    found = [finding("note", "b"), finding("alert", "a", consequences=[finding(module="c")])]
    series = [entry(m) for m in "abcd"] + [entry("c", "alert"), entry("a", mode="eval")]
    states = [one["state"] for one in flagged(series, Seen(found))]
    assert states == ["alert", "ok", "warn", "ok", "alert", "ok"]
    assert flagged([entry("c", "alert")], Seen([finding(module="c")]))[0]["state"] == "alert"
    assert all(one["state"] == "ok" for one in series[:4])  # entries stay as they were


def test_a_rise_that_no_finding_names_is_no_mark_where_rules_look():
    series = [
        entry("a", "warn", "OutputGradRMS"),
        entry("a", "warn", "OutputStd"),
        entry("a", "warn", "OutputGradRMS", mode="eval"),
        entry("a", "alert", "OutputGradRMS", nan=1),
        entry("a", "alert", "UpdateRatio.weight"),
        {**entry("a", "alert", "OutputDeathRate"), "health": "share_of_trouble"},
        entry("a", "warn", "WeightGradExcess", nan=1, unit="ratio"),
    ]
    states = [one["state"] for one in flagged(series, Seen([finding(module="b")]))]
    assert states == ["ok", "warn", "warn", "alert", "ok", "ok", "ok"]
