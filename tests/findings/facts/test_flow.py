"""The ways between modules."""

from taiyi_fx.findings import Flow
from tests.findings.given import evidence


def test_without_an_outline_no_way_is_known_and_rules_may_ask_all_the_same():
    flow = Flow()
    assert not flow.before_module("fc")
    assert not flow.inputs_before("fc")
    assert not flow.constants_before("fc")
    assert not flow.cuts_behind("fc", ["head"])
    assert not flow.modules_before("fc", ["head"])
    assert flow.shape_before("fc") == ""


def test_modules_are_in_the_order_of_execution_as_far_as_it_is_known():
    known = evidence({(name, "OutputRMS"): 1.0 for name in ("head", "b", "a")})
    assert [*known.modules] == ["head", "b", "a"]
    ordered = type(known)(known.series, flow=Flow(order=("a", "b", "head")))
    assert [*ordered.modules] == ["a", "b", "head"]
