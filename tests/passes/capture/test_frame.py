"""One function as it is interpreted."""

from taiyi_fx.passes.capture.frame import Frame


def test_a_comprehension_sees_the_functions_variables_and_keeps_its_own():
    outer = Frame(None, None, {"x": 1})
    inner = outer.nested()
    assert inner.local["x"] == 1
    inner.local["x"] = inner.local["i"] = 2
    assert outer.local == {"x": 1}
