"""Costs of steps as ratios, without a clock."""

import itertools

from taiyi_fx.verification import cost
from taiyi_fx.verification.cost import ratios, timed


def test_ratios_are_medians_over_rounds(monkeypatch):
    monkeypatch.setattr(cost, "_ROUNDS", (5, 5))
    plain = itertools.cycle([1.0])
    slow = iter([2.0, 2.0, 100.0, 2.0, 2.0])
    fast = iter([0.5, 0.5, 0.5, 9.0, 0.5])
    assert ratios([lambda: next(plain), lambda: next(slow), lambda: next(fast)]) == [2.0, 0.5]


def test_steps_take_turns(monkeypatch):
    monkeypatch.setattr(cost, "_ROUNDS", (3, 3))
    order = []

    def step(name):
        order.append(name)
        return 1.0

    ratios([lambda: step("a"), lambda: step("b")])
    assert order == ["a", "b"] * 3


def test_a_timed_step_runs_once():
    ran = []
    assert timed(lambda: ran.append(1)) >= 0
    assert ran == [1]
