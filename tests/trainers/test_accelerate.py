"""Accelerate: a loop of one's own trains as before, and its tracker records what is logged."""

import copy
import os

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.distributed.processes import run
from tests.trainers.digits import (
    CFG,
    Noting,
    assert_as_in_a_loop,
    assert_same_tensors,
    digits,
    loader,
    net,
    sgd,
    train_plainly,
    values,
    watched,
)

pytest.importorskip("accelerate")

from accelerate import Accelerator
from accelerate.state import AcceleratorState
from torch.utils.data import DataLoader

import taiyi_fx
from taiyi_fx.trainers.accelerate import MonitorTracker


@pytest.fixture(autouse=True)
def own_state():
    yield
    AcceleratorState._reset_state(reset_partial_state=True)


def train(
    model, monitor, data, *, accumulate=1, epochs=(0,), folder=None, start=0, scaler=None, **options
):
    """What a user writes."""
    tracker = MonitorTracker(monitor) if monitor else None
    accelerator = Accelerator(
        cpu=True, gradient_accumulation_steps=accumulate, log_with=tracker, **options
    )
    accelerator.scaler = scaler
    accelerator.init_trackers("digits")
    wrapped, optimizer, data = accelerator.prepare(model, sgd(model), data)
    if start:
        accelerator.load_state(str(folder))
        monitor.start_at(start)
    step = start
    torch.manual_seed(1)
    for _ in epochs:
        for x, y in data:
            with accelerator.accumulate(wrapped):
                loss = F.cross_entropy(wrapped(x), y)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    if monitor:
                        monitor.track(step, accelerator.scaler)
                    accelerator.log({"loss": loss, "note": "text"}, step=step)
                    step += 1
                optimizer.step()
                optimizer.zero_grad()
    if folder and not start:
        accelerator.save_state(str(folder))
    return accelerator


@pytest.mark.parametrize("accumulate", [1, 4])
def test_training_is_the_same_and_the_records_are_those_of_a_plain_loop(accumulate):
    plain = net()
    looped, tracked = watched(plain), watched(plain)
    losses = train_plainly(looped, 5 * accumulate, accumulate)
    train(tracked, tracked.monitor, loader(5 * accumulate), accumulate=accumulate)
    train(plain, None, loader(5 * accumulate), accumulate=accumulate)
    assert_as_in_a_loop(tracked, plain, looped)
    logged = tracked.monitor.get_output()[""]
    assert logged == {"loss": dict(enumerate(losses[accumulate - 1 :: accumulate]))}


def test_a_run_resumed_from_a_checkpoint_goes_on_at_its_step(tmp_path):
    whole, first, second = (watched(net(drop=0.0)) for _ in range(3))
    train(whole, whole.monitor, loader(6), accumulate=2, epochs=(0, 1))
    train(first, first.monitor, loader(6), accumulate=2, folder=tmp_path)
    train(second, second.monitor, loader(6), accumulate=2, folder=tmp_path, start=3)
    assert_same_tensors(second, whole)
    assert values(second.monitor) == values(whole.monitor, start=3)


def test_the_factor_of_a_scaler_is_taken_out():
    without, scaled = watched(net()), watched(net())
    scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
    train(without, without.monitor, loader(4), accumulate=2)
    train(scaled, scaled.monitor, loader(4), accumulate=2, scaler=scaler)
    assert_same_tensors(without, scaled)
    assert values(scaled.monitor) == pytest.approx(values(without.monitor), rel=1e-9)


@pytest.mark.parametrize("schedule", ["every(1)", "linear(2, 1)"])
def test_bfloat16_stays_bfloat16_whatever_is_due(schedule):
    """`prepare` puts a forward under autocast around the model's."""
    plain = net().float()
    cfg = {"Linear": [["InputSndNorm", schedule], ["OutputGradSndNorm", schedule]]}
    tracked = taiyi_fx.instrument(copy.deepcopy(plain), cfg)
    batches = [(x.float(), y) for x, y in loader(4)]
    train(tracked, tracked.monitor, batches, mixed_precision="bf16")
    train(plain, None, batches, mixed_precision="bf16")
    assert_same_tensors(tracked, plain)
    due = {step for step, _, _ in values(tracked.monitor)}
    assert due == ({0, 1, 2, 3} if schedule == "every(1)" else {1, 3})


def test_the_end_of_training_flushes_the_writers():
    writer = Noting()
    model = taiyi_fx.instrument(net(), CFG, writers=[writer])
    train(model, model.monitor, loader(2)).end_training()
    assert set(writer.steps) == {0, 1}
    assert writer.flushes


def layers():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.Tanh(), nn.Linear(8, 10)).double()
    return taiyi_fx.instrument(model, {"Linear": CFG["Linear"]})


def one_of_several(rank, ranks):
    own = {"RANK": rank, "WORLD_SIZE": ranks, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": ranks}
    own.update({"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": 0})  # the group is there already
    os.environ.update({name: str(value) for name, value in own.items()})
    model = layers()
    accelerator = train(model, model.monitor, loader(8), accumulate=2)
    assert accelerator.num_processes == ranks
    return values(model.monitor), model.state_dict(), model.monitor.get_output().get("")


def test_two_ranks_record_what_one_would_of_all_their_batches():
    (found, first, logged), (others, second, _) = run({"": one_of_several}, 2)("")
    alone = layers()
    data = DataLoader(digits(8), 16)
    train(alone, alone.monitor, data, accumulate=2)
    assert {step for step, _, _ in found} == {0, 1}
    assert found == pytest.approx(values(alone.monitor), rel=1e-9)
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert set(logged["loss"]) == {0, 1}
    assert not others
