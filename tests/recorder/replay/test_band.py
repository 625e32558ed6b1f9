"""Operations that leave their usual size."""

import pytest
import torch

from taiyi_fx.recorder.replay.band import Size, first_growth
from taiyi_fx.recorder.replay.facts import facts_of
from taiyi_fx.recorder.replay.places import Place
from taiyi_fx.recorder.replay.replayer import replay_step
from tests.recorder.replay.given import Kept, Net, line_of

PLACE = Place("net.py", 3, "forward", "", "forward")


def size(operation, given, made):
    facts = [(facts_of(torch.tensor([float(x)])),) for x in (given, made)]
    return Size(operation, PLACE, *facts)


def test_the_first_that_grew_by_itself_is_found():
    usual = [size("mm", 1, 2), size("exp", 2, 3), size("mul", 3, 1)]
    now = [size("mm", 1.5, -9), size("exp", 3, 4000), size("mul", 4000, 4000)]
    found = first_growth(usual, now)
    assert found.at is now[1]
    assert found.factor == 4000 / 3


def test_what_grew_with_its_inputs_or_from_nothing_is_not():
    assert first_growth([size("mul", 1, 1)], [size("mul", 500, 500)]) is None
    assert first_growth([size("mul", 1, 0)], [size("mul", 1, 500)]) is None
    assert first_growth([size("mul", 1, 1)], [size("mul", 1, 90)]) is None


def test_steps_of_other_operations_are_not_compared():
    usual, now = [size("sin", 1, 1), size("mul", 1, 1)], [size("cos", 1, 1), size("mul", 1, 900)]
    assert first_growth(usual, now) is None


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


@pytest.mark.parametrize("every", [2, 4])
def test_what_was_looked_at_steps_later_is_found_in_its_own_step(every):
    def spoil(step, kept):
        kept.model.scale = 5000.0 if step >= 3 else 1.0

    kept = Kept(Scaled(), every=every, before=spoil)
    found = replay_of_size(kept, 5)
    assert (found.step, found.operation) == (3, "mul")
    assert found.is_exact


def replay_of_size(kept, step):
    steps = [*kept.keeper.steps]
    found, _ = replay_step(step, steps, kept.model, kept.ways, [kept.optimizer], is_of_size=True)
    return found
