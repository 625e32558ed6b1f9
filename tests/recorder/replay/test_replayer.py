"""From a step to its operation."""

import pytest
import torch

from taiyi_fx.recorder.replay.replayer import CannotReplay, replay_step
from tests.recorder.replay.given import Kept, Net, line_of


def logs(h):
    return torch.log(h - 100)


def roots(h):
    return h + (h - h).sqrt()


@pytest.mark.parametrize("every", [1, 2, 4])
@pytest.mark.parametrize(
    ("between", "operation", "phase", "text"),
    [(logs, "log", "forward", "torch.log"), (roots, "SqrtBackward0: div", "backward", "sqrt")],
)
def test_the_operation_is_found(between, operation, phase, text, every):
    found = Kept(Net(between), every=every).replay()
    assert (found.step, found.operation, found.phase) == (3, operation, phase)
    assert (found.file, found.line) == (__file__, line_of(between, text))
    assert (found.module, found.is_exact) == ("", True)


@pytest.mark.parametrize("every", [1, 2, 4])
def test_an_optimizers_step_is_found_from_the_step_after_it(every):
    def spoil(step, kept):
        if step == 3:
            kept.optimizer.param_groups[0]["weight_decay"] = float("inf")

    kept = Kept(Net(), every=every, before=spoil)
    assert kept.last == 4
    found = kept.replay()
    assert (found.step, found.phase, found.operation) == (3, "optimizer", "add")
    assert (found.module, found.file[-7:]) == ("first", "adam.py")
    assert found.is_exact


def test_a_batch_and_a_loss_are_named_as_what_came_from_outside():
    def spoil(step, kept):
        kept.model.first.weight.requires_grad_()

    kept = Kept(Net(), steps=3, before=spoil)
    kept.keeper.steps[-1].calls[0].args[0][0] = torch.nan
    found = kept.replay()
    assert (found.operation, found.phase) == ("argument 0 of the model", "forward")
    assert not found.is_exact
    kept = Kept(Net(), steps=3)
    kept.keeper.steps[-1].calls[0].gradients[0].fill_(torch.nan)
    found = kept.replay()
    assert found.operation == "the gradient that reached output 0 of the model"
    assert found.phase == "backward"


def test_a_step_that_goes_well_again_is_told_with_its_differences():
    kept = Kept(Net(), steps=3)
    kept.step(3)
    kept.model.last.weight.grad[0, 0] += 1
    found = kept.replay()
    assert (found.operation, found.is_exact) == ("", False)
    assert found.note == "the gradient of last.weight has other bits than it had then"


def test_a_step_that_no_state_leads_to_is_refused():
    kept = Kept(Net(), every=4)
    with pytest.raises(CannotReplay, match=r"is of step 0, and the optimizer, .* is not known"):
        replay_step(2, [*kept.keeper.steps][:3], kept.model, kept.ways, [])


def test_what_is_not_kept_is_refused():
    kept = Kept(Net())
    with pytest.raises(
        CannotReplay, match="it is kept no longer: the first step that is kept is 4"
    ):
        kept.replay(2)
    with pytest.raises(CannotReplay, match="no step is kept"):
        replay_step(1, [], kept.model, kept.ways, [])
    for one in kept.keeper.steps:
        one.checkpoint.tensors["model.first.weight"][0] = torch.nan
    with pytest.raises(CannotReplay, match=r"first\.weight was not finite as step 4 began"):
        kept.replay(5)
    with pytest.raises(CannotReplay, match="it has not run: the last step that is kept is 5"):
        kept.replay(6)
