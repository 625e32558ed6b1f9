"""Steps that stood out."""

from dataclasses import replace

from taiyi_fx.findings import Finding
from taiyi_fx.recorder.suspects import suspect_steps


def finding(kind, severity, step, *consequences):
    return Finding(kind, severity, "", "loss", step, 1.0, "", "text", "advice", consequences)


def test_they_are_those_of_findings_that_name_the_very_step():
    found = [
        finding("loss_spike", "warning", 3),
        finding("input_spike", "warning", 5, finding("loss_spike", "warning", 6)),
        finding("odd_rate", "warning", 7, finding("loss_spike", "note", 8)),
    ]
    assert suspect_steps(found) == {3, 5, 6}


def test_notes_and_alerts_and_what_lasts_have_none():
    spike = finding("loss_spike", "note", 3)
    alert = finding("divergence", "alert", 4, finding("loss_spike", "warning", 3))
    assert suspect_steps([spike, alert, finding("growing_values", "warning", 5)]) == set()
    assert suspect_steps([replace(spike, severity="alert")]) == set()
