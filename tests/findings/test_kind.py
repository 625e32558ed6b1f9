"""A kind of finding makes findings of itself."""

from taiyi_fx.findings.kind import Kind
from tests.findings.given import evidence

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
