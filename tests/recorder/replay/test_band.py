"""Operations that leave their usual size."""

import pytest
import torch
from torch import nn

from taiyi_fx.recorder.replay.band import OF_ALERTS, OF_SUSPECTS, Size, latest_growth
from taiyi_fx.recorder.replay.facts import facts_of
from taiyi_fx.recorder.replay.places import Place
from taiyi_fx.recorder.replay.replayer import replay_step
from tests.recorder.replay.given import Kept, Net, line_of


def place(line):
    return Place("net.py", line, "forward", "", "forward")


def size(operation, given, made, maker=None, line=3):
    """The sizes of an operation; only its first input may come from another one."""
    inputs = facts(*given) if isinstance(given, list) else facts(given)
    makers = (maker, *[None] * len(inputs))[: len(inputs)]
    return Size(operation, place(line), inputs, facts(made), makers)


def facts(*numbers):
    return tuple(facts_of(torch.tensor([float(x)])) for x in numbers)


def growth(*steps):
    found = latest_growth(steps)
    return None if found is None else found[1]


def test_the_first_that_grew_by_itself_is_found():
    usual = [size("mm", 1, 2), size("exp", 2, 3, 0), size("mul", 3, 1, 1)]
    now = [size("mm", 1.5, -9), size("exp", 3, 4000, 0), size("mul", 4000, 4000, 1)]
    found = growth(usual, now)
    assert found.at is now[1]
    assert (found.factor, found.is_new) == (4000 / 3, False)
    assert latest_growth([usual, now, now]) == (1, found)


def test_what_grew_with_its_inputs_or_from_nothing_is_not():
    assert growth([size("mul", 1, 1)], [size("mul", 500, 500)]) is None
    assert growth([size("mul", 1, 0)], [size("mul", 1, 500)]) is None
    assert growth([size("mul", 1, 1)], [size("mul", 1, 90)]) is None
    usual, now = ([size("mul", x, x), size("exp", x, x, 0)] for x in (1, 500))
    assert growth(usual, now) is None


def test_growth_in_parts_is_that_of_the_first_beyond_what_is_usual():
    usual = [size("mul", 1, 1), size("exp", 1, 1, 0), size("mm", 1, 1, 1)]
    now = [size("mul", 1, 50), size("exp", 50, 900, 0), size("mm", 900, 9000, 1)]
    assert growth(usual, now).at is now[1]


def test_operations_are_compared_whatever_else_a_step_runs():
    usual, now = (
        [size("sin", 1, 1), size("mul", 1, 1, 0)],
        [size("cos", 1, 1), size("mul", 1, 900, 0)],
    )
    assert growth(usual, now).at is now[1]
    every_other = [size("mul", 1, 1)], [size("sin", 1, 1)], [size("mul", 1, 2)]
    assert growth(*every_other) is None
    found = growth(*every_other, [size("sin", 1, 700)])
    assert (found.at.operation, found.factor) == ("sin", 700)


def test_one_that_runs_more_often_is_compared_with_its_last_run():
    usual = [size("mm", 1, 2), size("mm", 1, 3)]
    now = [*usual, size("mm", 2, 4), size("sum", 4, 40, 2), size("mm", 2, 700)]
    found = growth(usual, now)
    assert (found.at, found.factor, found.is_new) == (now[4], pytest.approx(700 / 3), False)


def test_lists_of_other_lengths_are_not_compared():
    made = [size("mm", 1, 1e-6), size("mv", 1, 1)]
    usual = Size("_foreach_norm", place(3), facts(1e-6, 1), facts(1e-6, 1), (0, 1))
    fewer = Size("_foreach_norm", place(3), facts(1), facts(1), (0,))
    assert growth([*made, usual], [made[1], fewer]) is None
    grown = Size("_foreach_norm", place(3), facts(1e-6, 800), facts(1e-6, 800), (0, 1))
    assert growth([*made, usual], [made[0], size("mv", 1, 800)]).at.operation == "mv"
    assert growth([*made, usual], [*made, grown]).at is grown


def test_an_operation_that_ran_in_no_step_before_is_known_by_what_follows():
    usual = [size("mm", 1, 2), size("sum", 2, 20, 0)]
    new = [size("mul", 2, 8, 0), size("div", [8, 0.001], 8000, 1), size("neg", 8000, -8000, 2)]
    found = growth(usual, [usual[0], *new, size("sum", 8000, 80000, 3)])
    assert (found.at, found.factor, found.is_new) == (new[1], 4000, True)
    made = size("full", [], 8000)
    found = growth(
        usual, [usual[0], made, size("add", [8000, 2], 8002, 1), size("sum", 8002, 80000, 2)]
    )
    assert found.at is made
    assert growth(usual, [usual[0], size("mul", 2, 3, 0), size("sum", 3, 30, 1)]) is None


def test_an_operation_that_a_step_lacks_leaves_the_first_whose_numbers_are_others():
    usual = [size("mm", 1, 5000), size("div", 5000, 1, 0, line=4), size("sum", 1, 3, 1)]
    now = [size("mm", 1, 5000), size("sum", 5000, 15000, 0)]
    assert growth(usual, now).at is now[1]


def test_growth_from_outside_is_followed_through_new_operations():
    usual = [size("mul", 1, 1), size("sum", 1, 1, 0)]
    now = [size("mul", 500, 500), size("neg", 500, -500, 0), size("sum", 500, 500, 1)]
    assert growth(usual, now) is None


class Scaled(Net):
    scale = 1.0

    def forward(self, x):
        return super().forward(spread(x, self.scale))


def spread(x, scale):
    return x * scale


def test_in_a_training_it_is_the_line_that_did_it():
    def spoil(step, kept):
        kept.model.scale = 5000.0 if step == 5 else 1.0

    kept = Kept(Scaled(), before=spoil)
    found = replay_of_size(kept, 5)
    assert (found.step, found.operation, found.phase) == (5, "mul", "forward")
    assert (found.file, found.line) == (__file__, line_of(spread, "x * scale"))
    assert found.note.startswith("its output is ")
    assert found.is_exact
    assert replay_of_size(Kept(Scaled()), 5).operation == ""


def test_a_step_that_stood_out_is_compared_more_closely_with_those_just_before():
    def spoil(step, kept):
        kept.model.scale = 20.0 if step == 7 else 1.0

    kept = Kept(Scaled(), steps=8, before=spoil)
    found = replay_of_size(kept, 7, OF_SUSPECTS)
    assert (found.step, found.operation) == (7, "mul")
    assert (found.file, found.line) == (__file__, line_of(spread, "x * scale"))
    assert replay_of_size(kept, 7).operation == ""
    kept = Kept(Scaled(), steps=8, every=8)
    assert all(replay_of_size(kept, i, OF_SUSPECTS).operation == "" for i in range(5, 8))


@pytest.mark.parametrize("every", [2, 4])
def test_what_was_looked_at_steps_later_is_found_in_its_own_step(every):
    def spoil(step, kept):
        kept.model.scale = 5000.0 if step >= 3 else 1.0

    kept = Kept(Scaled(), every=every, before=spoil)
    found = replay_of_size(kept, 5)
    assert (found.step, found.operation) == (3, "mul")
    assert found.is_exact


class Branching(Net):
    """Takes another way in one of its steps."""

    way = "usual"

    def __init__(self):
        super().__init__()
        self.last = nn.Linear(4, 2, bias=False)

    def forward(self, x):
        h = torch.tanh(self.first(x))
        if self.way == "more":
            h = enlarged(h)
        elif self.way == "other":
            h = h.abs() + 1
            h = h / (h - h.detach() + 1e-4)
            h = -h
        elif self.way == "often":
            for _ in range(5):
                h = h * 10
        elif self.way == "negated":
            h = -h
        if self.way != "less":
            h = h * 1e-3
        return self.last(h)


def enlarged(h):
    return h * 5000.0


@pytest.mark.parametrize("every", [1, 4])
@pytest.mark.parametrize(
    ("way", "operation", "function", "text"),
    [
        ("more", "mul", enlarged, "5000"),
        ("other", "div", Branching.forward, "1e-4"),
        ("often", "mul", Branching.forward, "h * 10"),
        ("less", "mm", Branching.forward, "self.last(h)"),
    ],
)
def test_a_step_that_runs_other_operations_is_compared(way, operation, function, text, every):
    def spoil(step, kept):
        kept.model.way = way if step == 5 else "usual"

    kept = Kept(Branching(), every=every, before=spoil)
    found = replay_of_size(kept, 5)
    assert (found.step, found.operation, found.phase) == (5, operation, "forward")
    assert (found.file, found.line) == (__file__, line_of(function, text))
    assert "times as large as" in found.note
    assert found.is_exact
    kept = Kept(Branching(), every=every, before=lambda step, of: turn(of, step))
    assert replay_of_size(kept, 5).operation == ""


def turn(kept, step):
    """Takes ways in turn that differ, and leave sizes as they are."""
    kept.model.way = "negated" if step % 2 else "usual"


def replay_of_size(kept, step, band=OF_ALERTS):
    steps = [*kept.keeper.steps]
    found, _ = replay_step(step, steps, kept.model, kept.ways, [kept.optimizer], band=band)
    return found
