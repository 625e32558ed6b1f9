"""What forwards call."""

from taiyi_fx.findings import Forward


def test_calls_that_differ_are_told_with_the_numbers_of_both():
    own, other = (
        Forward(frozenset(calls.items()), frozenset())
        for calls in ({"fc": 1, "norm": 2, "mul()": 1}, {"fc": 1, "norm": 1, "add()": 1})
    )
    assert own.calls_beside(other) == {"add()": (0, 1), "mul()": (1, 0), "norm": (2, 1)}
    assert own.calls_beside(own) == {}
