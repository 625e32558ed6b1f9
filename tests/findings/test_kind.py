"""A kind of finding makes findings of itself."""

import re

from taiyi_fx.findings.kind import Kind
from tests.docs.pages import ROOT
from tests.findings.given import evidence, kinds

KIND = Kind("odd", "warning", "Look there")


def test_a_finding_has_what_the_kind_and_the_series_say():
    (one,) = evidence({("fc", "WeightNorm"): [1, 2, 3]}, [0, 10, 20]).series
    found = KIND.at(one, 1, "it is odd", "3")
    assert (found.kind, found.severity, found.advice) == ("odd", "warning", "Look there")
    assert (found.module, found.quantity, found.step, found.value) == ("fc", "WeightNorm", 10, 2.0)
    assert (found.text, found.expected) == ("it is odd", "3")


def test_other_fields_are_given_by_name():
    (one,) = evidence({("fc", "WeightNorm"): [1, 2, 3]}).series
    found = KIND.at(one, 0, "it is odd", module="", value=9.0)
    assert (found.module, found.value) == ("", 9.0)


PAGE = (ROOT / "docs" / "reference" / "findings.md").read_text("utf-8")
SECTION = re.compile(r"^### `(\w+)`\n\n\*\*(.*)\*\* \((.*)\)\.$", re.MULTILINE)


def test_each_kind_has_an_advice_and_a_section_in_the_docs_with_its_severity():
    severities = {name: severity for name, _, severity in SECTION.findall(PAGE)}
    for kind in kinds():
        assert kind.severity in severities[kind.name] or kind.name == "own_rule", kind
        assert kind.advice or kind.name == "own_rule", kind
    assert severities.keys() == {kind.name for kind in kinds()}


def test_each_section_begins_with_what_the_table_of_its_subject_says():
    said = re.findall(r"^\| \[`(\w+)`\]\(#\1\) \| (.*) \|$", PAGE, re.MULTILINE)
    assert said == [(name, meaning) for name, meaning, _ in SECTION.findall(PAGE)]


def test_the_link_of_a_finding_is_to_a_section_of_that_page():
    (one,) = evidence({("fc", "WeightNorm"): 1.0}).series
    for kind in kinds():
        file, _, anchor = kind.at(one, 0, "it is odd").link.partition("#")
        assert f"\n### `{anchor}`\n" in (ROOT / file).read_text("utf-8")
