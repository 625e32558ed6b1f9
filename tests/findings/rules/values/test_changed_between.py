"""Values that are handed on as they are until some step."""

import numpy as np
import pytest

from taiyi_fx.findings.rules.values.changed_between import changed_between
from tests.findings.given import evidence, knowing

N = np.arange(40)


def of(given, returned=2.0):
    return evidence({("a", "OutputRMS"): returned, ("b", "InputRMS"): given, ("b", "OutputRMS"): 1})


def test_a_module_that_is_given_something_else_from_a_step_on_is_named():
    known = knowing(of(np.where(N < 30, 2.0, 2000.0)), before_module=lambda _: ["mul"])
    (found,) = changed_between(known)
    assert (found.kind, found.module, found.step) == ("changed_between", "b", 30)
    assert "is given 1e+03 times what 'a' returns" in found.text
    assert found.text.endswith("the operation `mul` between them makes it")


def test_nothing_in_the_place_of_it_is_named_too():
    (found,) = changed_between(of(np.where(N < 39, 2.0, 0.0)))
    assert found.step == 39


@pytest.mark.parametrize(
    "known",
    [
        of(2.0),
        of(np.where(N < 30, 2.0, 2000.0), np.where(N < 30, 2.0, 2000.0)),
        of(3.0 + N / 40),
        of(np.where(N < 30, 2.0, 3.0)),
        of(np.where(N == 30, 2000.0, 2.0)),
        of(np.where(N < 7, 2.0, 2000.0)),
        of(np.where(N < 30, 2.0, 2000.0), 0.0),
    ],
    ids=["same", "with it", "a sum", "a little", "once", "at first", "of nothing"],
)
def test_others_are_none(known):
    assert [*changed_between(known)] == []
