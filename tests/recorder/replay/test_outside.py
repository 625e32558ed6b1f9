"""Numbers that a step was given from outside."""

import pytest
import torch
from torch import nn

from taiyi_fx.recorder.replay.bad_step import load_bad_step, save_bad_step
from taiyi_fx.recorder.replay.band import OF_SUSPECTS
from taiyi_fx.recorder.replay.calls import Call
from taiyi_fx.recorder.replay.kept_step import KeptStep
from taiyi_fx.recorder.replay.outside import grown_from_outside
from taiyi_fx.recorder.replay.replayer import replay_step
from taiyi_fx.recorder.replay.step_function import StepCall, StepFunction
from tests.recorder.replay.given import Kept, Net


def step_of(*args, gradient=1.0, function=None, **kwargs):
    kept = KeptStep(0, None)
    kept.calls.append(Call(args, kwargs, is_compiled=False))
    kept.calls[0].gradients[0] = torch.tensor([gradient])
    if function is not None:
        kept.functions.append(function)
    return kept


def numbers(x):
    return torch.tensor([x, 0.0])


def grown(*steps, are_outputs_usual=True):
    return grown_from_outside(steps, 10.0, are_outputs_usual=are_outputs_usual)


def test_an_argument_is_named_that_is_larger_than_in_all_steps_before():
    usual = [step_of(numbers(1.0), scale=numbers(-3.0)), step_of(numbers(2.0), scale=numbers(1.0))]
    found = grown(*usual, step_of(numbers(2.0), scale=numbers(-60.0)))
    assert (found.name, found.factor, found.phase) == ("scale of the model", 20.0, "forward")
    assert found.facts.smallest == -60
    assert grown(*usual, step_of(numbers(19.0), scale=numbers(29.0))) is None
    assert grown(*usual, step_of(numbers(21.0), scale=numbers(1.0))).name == (
        "argument 0 of the model"
    )


def test_of_several_calls_it_is_the_largest():
    usual, now = step_of(numbers(1.0)), step_of(numbers(90.0))
    now.calls.append(step_of(numbers(1.0)).calls[0])
    assert grown(usual, now).factor == 90
    assert grown(now, step_of(numbers(95.0))) is None


def test_words_and_what_was_nothing_before_have_no_size():
    assert grown(step_of(torch.tensor([1])), step_of(torch.tensor([500]))) is None
    assert grown(step_of(numbers(0.0)), step_of(numbers(500.0))) is None
    assert grown(step_of(), step_of(numbers(500.0))) is None
    assert grown(step_of(numbers(500.0))) is None


def test_a_gradient_is_named_where_no_argument_is_and_outputs_are_as_usual():
    usual, now = step_of(numbers(1.0)), step_of(numbers(1.0), gradient=-30.0)
    found = grown(usual, now)
    assert (found.name, found.phase) == (
        "the gradient that reached output 0 of the model",
        "backward",
    )
    assert grown(usual, now, are_outputs_usual=False) is None
    assert grown(usual, step_of(numbers(50.0), gradient=-30.0)).phase == "forward"


def test_arguments_of_a_function_come_first_and_have_the_loss_with_them():
    def called(x, y, **options):
        return StepCall(StepFunction(train, **options), (None, numbers(x), numbers(y)), {})

    usual = step_of(numbers(1.0), function=called(1.0, 1.0))
    now = step_of(numbers(70.0), gradient=30.0, function=called(70.0, 1.0))
    assert grown(usual, now).name == "argument 1 of train"
    now = step_of(numbers(1.0), gradient=30.0, function=called(1.0, 40.0))
    assert grown(usual, now).name == "argument 2 of train"
    now = step_of(numbers(1.0), gradient=30.0, function=called(1.0, 1.0))
    assert grown(usual, now) is None


def train(model, x, y):
    """Stands for a step."""


def test_a_reference_to_a_batch_is_no_batch():
    def called(x):
        options = {"reference": train, "batch": train}
        return StepCall(StepFunction(train, **options), (numbers(x),), {})

    usual = step_of(numbers(1.0), function=called(1.0))
    assert grown(usual, step_of(numbers(1.0), function=called(70.0))) is None


@pytest.mark.parametrize("every", [1, 4])
def test_in_a_training_it_is_the_batch_here_and_elsewhere(tmp_path, every):
    def spoil(step, kept):
        kept.batch_scale = 500.0 if step == 5 else 1.0

    kept = Kept(Net(), every=every, before=spoil)
    found, steps = replay(kept)
    assert (found.step, found.operation) == (5, "argument 0 of the model")
    assert (found.file, found.inputs, found.is_exact) == ("", (), True)
    assert found.note.startswith("it is ")
    first, *_ = str(found).splitlines()
    assert first == (
        "step 5, forward: argument 0 of the model was far larger than in the steps before"
    )
    save_bad_step(tmp_path / "a", found, steps, kept.model, [kept.optimizer], band=OF_SUSPECTS)
    again = load_bad_step(tmp_path / "a").run_on(Net())
    assert again == found


class Normed(nn.Module):
    """Hides the size of its batch."""

    def __init__(self):
        super().__init__()
        self.fc, self.norm, self.last = nn.Linear(4, 8), nn.LayerNorm(8), nn.Linear(8, 1)
        self.by = 1.0

    def forward(self, x):
        return self.last(self.norm(self.fc(x))) * self.by


@pytest.mark.parametrize(
    ("scale", "by", "operation"),
    [(1e3, 1.0, "argument 0 of the model"), (1e3, 50.0, "argument 0 of the model"),
     (30.0, 1e4, "mul"), (1.0, 50.0, "mul")],
)  # fmt: skip
def test_what_grew_more_is_named_an_operation_or_the_batch(scale, by, operation):
    def spoil(step, kept):
        kept.batch_scale, kept.model.by = (scale, by) if step == 5 else (1.0, 1.0)

    found, _ = replay(Kept(Normed(), before=spoil))
    assert found.operation == operation


def test_where_nothing_is_far_from_before_it_says_what_to_look_at():
    found, _ = replay(Kept(Net()))
    assert found.note == (
        "no number is far from those of the steps before: look at the batch itself, such as its "
        "targets, which recorder.step keeps, too"
    )


def test_where_the_outputs_are_larger_too_the_loss_is_not_named():
    def spoil(step, kept):
        kept.loss_scale = 300.0 if step == 5 else 1.0

    found, _ = replay(Kept(Net(), before=spoil))
    assert found.operation == "the gradient that reached output 0 of the model"
    assert "recorder.step has that run again" in str(found)

    def grow(step, kept):
        with torch.no_grad():
            kept.model.last.weight.mul_(20.0 if step == 5 else 1.0)

    found, _ = replay(Kept(Net(), before=grow))
    assert found.operation == ""


def replay(kept):
    return replay_step(
        5, [*kept.keeper.steps], kept.model, kept.ways, [kept.optimizer], band=OF_SUSPECTS
    )
