"""Steps that are kept."""

import gc
import weakref

import pytest
import torch

from taiyi_fx.recorder.replay.factor import norms_of
from taiyi_fx.recorder.replay.retention import CannotKeep
from tests.recorder.replay.given import Kept, Net, keeper_of


@pytest.mark.parametrize(
    ("every", "kept"), [(1, [4, 5]), (2, [2, 3, 4, 5]), (4, [0, 1, 2, 3, 4, 5])]
)
def test_the_steps_since_the_last_state_but_one_are_kept(every, kept):
    steps = Kept(Net(), every=every).keeper.steps
    assert [one.step for one in steps] == kept
    assert [one.step for one in steps if one.checkpoint] == kept[::every]


def test_calls_until_the_step_is_tracked_are_one_step():
    model = Net()
    keeper = keeper_of(model, None)
    for _ in range(3):
        keeper.begin_call(4, (), {}, is_compiled=False)
    keeper.track(5)
    keeper.begin_call(6, (), {}, is_compiled=False)
    assert [(one.step, len(one.calls)) for one in keeper.steps] == [(5, 3), (6, 1)]


def test_the_norms_that_the_optimizer_was_given_are_noted():
    kept = Kept(Net(), steps=2)
    (norms,) = kept.keeper.steps[-1].norms.values()
    assert norms == norms_of([p.grad for p in kept.model.parameters()])


def test_another_optimizer_is_watched_and_none_after_the_end():
    model = Net()
    first, second = (torch.optim.SGD(model.parameters(), 0.1) for _ in range(2))
    keeper = keeper_of(model, first)
    keeper.begin_call(0, (), {}, is_compiled=False)
    assert len(first._optimizer_step_pre_hooks) == 1
    keeper._optimizers = lambda: [second]
    keeper.track(0)
    keeper.begin_call(1, (), {}, is_compiled=False)
    assert (len(first._optimizer_step_pre_hooks), len(second._optimizer_step_pre_hooks)) == (0, 1)
    keeper.close()
    assert not second._optimizer_step_pre_hooks
    assert not keeper.steps


def test_no_more_than_the_granted_memory_is_taken():
    model = Net()
    with pytest.raises(
        CannotKeep, match="take [0-9]+ bytes, and checkpoint_bytes= allows 100 bytes"
    ):
        keeper_of(model, None, limit=100).begin_call(0, (), {}, is_compiled=False)
    keeper = keeper_of(model, None, limit=10_000)
    for step in range(20):
        keeper.begin_call(step, (torch.ones(100),), {}, is_compiled=False)
        keeper.track(step)
    with pytest.raises(CannotKeep):
        never_tracked(keeper)


def never_tracked(keeper):
    for _ in range(100):
        keeper.begin_call(20, (torch.ones(100),), {}, is_compiled=False)


def test_without_states_at_intervals_only_the_steps_that_are_asked_for_are_kept():
    model = Net()
    keeper = keeper_of(model, None, every=None, also=lambda step: step % 3 == 0)
    found = []
    for step in range(8):
        found.append(keeper.begin_call(step, (), {}, is_compiled=False) is not None)
        keeper.track(step)
    assert found == [step % 3 == 0 for step in range(8)]
    assert [one.step for one in keeper.steps] == [3, 6]


def test_an_optimizer_keeps_nothing_of_a_keeper_that_was_dropped():
    optimizer = torch.optim.SGD(Net().parameters(), 0.1)
    keeper = keeper_of(Net(), optimizer)
    keeper.begin_call(0, (), {}, is_compiled=False)
    gone = weakref.ref(keeper)
    del keeper
    gc.collect()
    assert gone() is None
    assert not optimizer._optimizer_step_pre_hooks
    optimizer.step()
