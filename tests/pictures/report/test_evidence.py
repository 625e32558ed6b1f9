"""The quantity that shows a finding best."""

import pytest

from taiyi_fx.findings import Finding
from taiyi_fx.findings.facts.telling import Telling
from taiyi_fx.pictures.report.evidence import evidence_of, opening_of
from taiyi_fx.pictures.report.finding_entries import Seen, flagged

STILL, MOVED = Telling(0, 0), Telling(1, 10, change=1)


def finding(kind, module="fc", quantity="WeightNorm"):
    return Finding(kind, "warning", module, quantity, 3, 1.0, "", "seen", "do")


@pytest.mark.parametrize(
    ("found", "telling", "evidence"),
    [
        (finding("no_update"), {("fc", "UpdateRatio.weight"): STILL}, "UpdateRatio.weight"),
        (finding("no_update"), {("fc.0", "UpdateRatio.weight"): STILL}, "UpdateRatio.weight"),
        (finding("detached"), {("fc", "UpdateRatio.weight"): MOVED}, "WeightNorm"),  # by a decay
        (finding("detached"), {("fc2", "UpdateRatio.weight"): STILL}, "WeightNorm"),
        (finding("rank_collapse"), {("fc", "OutputVariation"): STILL}, "OutputVariation"),
        (finding("moving_statistics"), {("fc", "VarTID"): MOVED}, "VarTID"),
        (finding("outlier"), {("fc", "UpdateRatio.weight"): STILL}, "WeightNorm"),
        (finding("no_update", ""), {("fc", "UpdateRatio.weight"): STILL}, "WeightNorm"),
    ],
)
def test_a_kind_may_be_seen_better_than_by_the_quantity_of_its_rule(found, telling, evidence):
    assert evidence_of(found, telling) == evidence == opening_of(found, telling)


def test_a_page_opens_on_no_loss():
    telling = {("fc", "OutputRMS"): MOVED, ("fc", "WeightNorm"): STILL, ("out", "OutputStd"): MOVED}
    assert opening_of(finding("torn_view", quantity="loss"), telling) == "OutputRMS"
    assert opening_of(finding("plateau", "", "loss"), telling) == ""
    assert opening_of(finding("torn_view", "other", "loss"), telling) == ""


def test_series_that_show_a_finding_are_flagged_as_it_is():
    named = {"mode": "train", "state": "ok", "nan": 0, "inf": 0, "health": "", "unit": ""}
    series = [{**named, "module": m, "quantity": "UpdateRatio.weight"} for m in ("fc.0", "out")]
    telling = {(one["module"], one["quantity"]): STILL for one in series}
    made = flagged(series, Seen([finding("no_update")], telling))
    assert [one["state"] for one in made] == ["warn", "ok"]
