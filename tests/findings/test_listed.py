"""Findings as a list, a text and a table."""

import dataclasses

from taiyi_fx.findings import find
from taiyi_fx.findings.listed import Findings
from tests.docs.pages import ROOT
from tests.findings.given import evidence
from tests.watch.given import finding


def test_it_is_a_list_of_its_findings():
    one = finding()
    assert Findings([one]) == [one]
    assert Findings() == []
    assert not Findings()


def test_its_text_has_a_line_for_each():
    one, two = finding(), finding("growth", severity="warning")
    assert repr(Findings([one, two])) == f"{one}\n{two}"
    assert repr(Findings()) == "no findings"


def test_where_nothing_is_found_it_says_in_what_and_where_to_go_on():
    series = {("a", "OutputRMS"): 1.0, ("b", "OutputRMS"): 1.0, ("", "loss"): 1.0}
    said = repr(find(evidence(series, range(4, 44))))
    assert said.startswith("no findings in 3 series of 2 modules, steps 4 to 43; if something is")
    known = evidence(series, [4, 5, 6])
    said = repr(find(known))
    assert ", steps 4 to 6, fewer than most rules need; if something is" in said
    file, _, anchor = said.rpartition(" ")[2].partition("#")
    heading = anchor.replace("-", " ").capitalize()
    assert f"## {heading}\n" in (ROOT / file).read_text("utf-8")
    assert repr(find(evidence({("", "loss"): 1.0}, [4, 5]))).startswith(
        "no findings in 1 series of the model, steps 4 to 5, fewer than most rules need;"
    )
    assert repr(find(evidence({}))) == "no findings"


def test_its_table_shows_names_as_they_are():
    one = dataclasses.replace(finding(module="<b>"), consequences=(finding(),), text="a & b")
    shown = Findings([one])._repr_html_()
    assert "<td>&lt;b&gt;</td>" in shown
    assert "a &amp; b (1 more follows from it: " in shown
    assert Findings()._repr_html_() == "<p>no findings</p>"


def test_a_notebook_shows_the_first_200_of_many():
    shown = Findings([finding()] * 300)._repr_html_()
    assert shown.count("<tr>") == 201
    assert "... and 100 more" in shown


def test_what_could_not_be_looked_at_is_said_with_and_without_findings():
    assert repr(Findings(remark="nothing was recorded")) == "nothing was recorded"
    assert repr(Findings(looked_at="1 series", remark="call it")) == (
        "no findings in 1 series; call it"
    )
    one = finding()
    assert repr(Findings([one], remark="call it")) == f"{one}\ncall it"
    assert "<p>nothing was recorded</p>" in Findings(remark="nothing was recorded")._repr_html_()
    assert "1 finding; call it" in Findings([one], remark="call it")._repr_html_()
