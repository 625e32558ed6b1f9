"""The steps that are kept, and how far back."""

import pytest
import torch

from taiyi_fx.recorder.replay.checkpoint import Checkpoint
from taiyi_fx.recorder.replay.kept_step import KeptStep
from taiyi_fx.recorder.replay.memory import CheckpointMemory
from taiyi_fx.recorder.replay.retention import DEVICE_BYTES, CannotKeep, Retention

STATE = 100


def state(step):
    return Checkpoint(step, {"x": torch.zeros(STATE, dtype=torch.uint8)}, (), {})


def kept(every, steps, reach, limit=2**30, batch=1, device=0, reaches_back=True):
    """The steps that are kept, each as it is tracked, with a state at some."""
    found = Retention(CheckpointMemory(), limit, reach)
    for step in range(steps):
        has_state = step % every == 0
        if has_state:
            found.forget(step, reaches_back=reaches_back)
            found.make_room(STATE)
            found._memory.begin()
        one = KeptStep(step, state(step) if has_state else None, is_tracked=True)
        one.batch_bytes, one.device_bytes = batch, device
        found.steps.append(one)
        found.make_room()
    return found


def states_of(found):
    return [one.step for one in found.steps if one.checkpoint is not None]


@pytest.mark.parametrize("every", [1, 3, 7, 50])
@pytest.mark.parametrize("reach", [1, 10, 40])
def test_each_of_the_last_steps_is_reached_from_a_state(every, reach):
    for steps in range(1, 150):
        found = kept(every, steps, reach)
        first = found.steps[0]
        assert first.checkpoint is not None
        assert first.step <= max(0, steps - 1 - reach)
        numbers = [one.step for one in found.steps]
        assert numbers == [*range(first.step, steps)]
        assert states_of(found)[-2:] == [*range(0, steps, every)][-2:]


@pytest.mark.parametrize("every", [1, 3, 7])
def test_states_are_few(every):
    assert max(len(states_of(kept(every, steps, 40))) for steps in range(1, 200)) <= 4
    assert max(len(kept(every, steps, 40).steps) for steps in range(1, 200)) <= 80 + 2 * every


def test_without_reaching_back_the_last_two_states_are_all():
    assert [one.step for one in kept(1, 50, 40, reaches_back=False).steps] == [48, 49]


def test_what_is_further_back_goes_first_where_memory_is_short():
    found = kept(1, 100, 40, limit=3 * STATE)
    assert states_of(found) == [98, 99]
    assert sum(one.bytes for one in found.steps) <= 3 * STATE
    with pytest.raises(CannotKeep, match="two states of the training and the batches since take"):
        kept(1, 100, 40, limit=2 * STATE)


def test_batches_on_a_device_have_a_limit_of_their_own():
    found = kept(1, 100, 40, device=DEVICE_BYTES // 10)
    assert len(found.steps) <= 12
    assert states_of(found)[-2:] == [98, 99]


def test_the_memory_of_states_is_used_again():
    found = kept(1, 100, 10)
    assert len(found._memory._free) <= 2
