"""Findings as a list, a text and a table."""

import dataclasses

from taiyi_fx.findings.listed import Findings
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


def test_its_table_shows_names_as_they_are():
    one = dataclasses.replace(finding(module="<b>"), consequences=(finding(),), text="a & b")
    shown = Findings([one])._repr_html_()
    assert "<td>&lt;b&gt;</td>" in shown
    assert "a &amp; b (and 1 more)" in shown
    assert Findings()._repr_html_() == "<p>no findings</p>"


def test_a_notebook_shows_the_first_200_of_many():
    shown = Findings([finding()] * 300)._repr_html_()
    assert shown.count("<tr>") == 201
    assert "... and 100 more" in shown
