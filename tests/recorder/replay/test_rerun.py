"""Steps run again."""

import pytest
import torch
from torch import nn

from taiyi_fx.recorder.replay.rerun import Ways, run_again
from tests.recorder.replay.given import Kept, Net, keeper_of


def again(kept, **options):
    steps = [*kept.keeper.steps]
    return run_again(kept.model, kept.ways, [kept.optimizer], steps, **options)


@pytest.mark.parametrize("every", [1, 3])
@pytest.mark.parametrize("is_watched", [True, False])
def test_steps_are_bit_equal_to_what_they_were(every, is_watched):
    kept = Kept(Net(), every=every)
    ran = again(kept, is_watched=is_watched)
    assert [one.step for one in ran] == [one.step for one in kept.keeper.steps]
    assert [one.differences for one in ran] == [[]] * len(ran)
    for name, p in kept.model.named_parameters():
        assert torch.equal(ran[-1].gradients[name], p.grad)


@pytest.mark.parametrize("every", [1, 6])
def test_a_factor_of_gradients_is_taken_over_to_the_bit(every):
    def clip(optimizer, args, kwargs):
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        torch.nn.utils.clip_grad_norm_(parameters, 0.01)

    model = Net()
    optimizer = torch.optim.Adam(model.parameters(), 0.1)
    optimizer.register_step_pre_hook(clip)
    kept = Kept(model, optimizer, every)
    ran = again(kept)
    assert [one.differences for one in ran] == [[]] * len(ran)
    assert all(0 < one.factor < 1 for one in ran)
    for name, p in kept.model.named_parameters():
        assert torch.equal(ran[-1].gradients[name], p.grad)


@pytest.mark.parametrize("every", [1, 6])
@pytest.mark.parametrize("foreach", [True, False])
def test_so_is_one_in_half_precision(every, foreach):
    model = nn.Sequential(nn.Linear(4, 16), nn.LayerNorm(16), nn.Linear(16, 1)).bfloat16()
    optimizer = torch.optim.AdamW(model.parameters(), 0.01)

    def clip(optimizer, args, kwargs):
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.01, foreach=foreach)

    optimizer.register_step_pre_hook(clip)
    kept = Kept(model, optimizer, every, dtype=torch.bfloat16)
    ran = again(kept)
    assert [one.differences for one in ran] == [[]] * len(ran)
    assert all(0 < one.factor < 1 for one in ran)
    for name, p in kept.model.named_parameters():
        assert torch.equal(ran[-1].gradients[name], p.grad)


def test_another_change_of_gradients_is_a_difference():
    def clip(optimizer, args, kwargs):
        for group in optimizer.param_groups:
            group["params"][0].grad.clamp_(-1e-3, 1e-3)

    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    optimizer.register_step_pre_hook(clip)
    ran = again(Kept(model, optimizer))
    assert ran[0].differences[0].startswith("the optimizer was given other gradients then")
    assert ran[0].notes == []


def test_several_calls_are_one_step_and_gradients_add_up():
    model = Net()
    keeper, batches = keeper_of(model, None), [torch.randn(8, 4) for _ in range(3)]
    for x in batches:
        call = keeper.begin_call(0, (x,), {}, is_compiled=False)
        y = model(x)
        keeper.end_call(call, y)
        y.square().sum().backward()
    keeper.track(0)
    (ran,) = run_again(model, Ways(lambda args, kwargs: model(*args)), [], [*keeper.steps])
    assert ran.differences == []
    assert all(torch.equal(ran.gradients[n], p.grad) for n, p in model.named_parameters())


def test_steps_after_a_state_need_an_optimizer_to_be_reached():
    kept = Kept(Net(), every=4)
    ran = run_again(kept.model, kept.ways, [], [*kept.keeper.steps])
    assert [one.step for one in ran] == [0, 4]


def test_a_change_of_the_batch_is_told():
    kept = Kept(Net(), steps=2)
    kept.keeper.steps[-1].calls[0].args[0].add_(1)
    ran = again(kept)
    assert ran[-1].differences[0] == "an output has other bits than it had then"
    assert ran[-1].notes == ["an argument of the model was changed in place since it was called"]


def test_without_a_state_nothing_runs():
    kept = Kept(Net(), every=3)
    with pytest.raises(ValueError, match="nothing is kept of the state that step 1 began from"):
        run_again(kept.model, kept.ways, [], [*kept.keeper.steps][1:])


@pytest.mark.parametrize("every", [1, 4])
def test_a_value_that_was_set_between_steps_is_as_it_was(every):
    def cool(step, kept):
        kept.model.drop.p = 0.5 / (step + 1)

    assert [one.differences for one in again(Kept(Net(), every=every, before=cool))][-1] == []


def test_steps_before_the_first_that_is_watched_run_alike_and_leave_no_sizes():
    ran = again(Kept(Net(), every=4), takes_sizes=True, watched_from=3)
    assert [bool(one.sizes) for one in ran] == [one.step >= 3 for one in ran]
    assert [one.differences for one in ran] == [[]] * len(ran)
