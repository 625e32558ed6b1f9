"""Sites to keep in a wider format, the worst first."""

import numpy as np

from taiyi_fx.findings.rules.values.narrow_formats import keep_wider
from tests.findings.given import evidence

SQNR = "InputSQNR.typical"


def found(numbers):
    return [*keep_wider(evidence({(name, SQNR): value for name, value in numbers.items()}))]


def test_they_are_ranked_and_the_worst_is_named():
    (one,) = found({"a": 31, "b": 30, "c": 22, "d": 31, "e": 12, "f": 30})
    assert (one.kind, one.severity, one.module, one.value) == ("keep_wider", "note", "e", 12)
    assert one.text.endswith("less have 'e' (12 dB), 'c' (22 dB)")
    assert "half of all sites have 30 dB or more" in one.text
    assert "bfloat16" in one.advice


def test_ten_of_them_are_counted():
    (one,) = found({**{f"low{i}": 10 for i in range(10)}, **{f"high{i}": 30 for i in range(12)}})
    assert one.text.endswith("and 2 more")


def test_usual_differences_few_sites_and_few_numbers_say_nothing():
    assert found({"a": 31, "b": 30, "c": 26, "d": 31}) == []
    assert found({"a": 31, "b": 30, "c": 12}) == []
    assert found({name: np.array([30.0] * 4) for name in "abc"} | {"d": [2.0] * 4}) == []


def test_where_nothing_is_lost_there_is_no_noise_to_compare():
    assert found({"a": np.inf, "b": np.inf, "c": np.inf, "d": np.inf}) == []
    (one,) = found({"a": np.inf, "b": np.inf, "c": np.inf, "d": 30})
    assert one.module == "d"
