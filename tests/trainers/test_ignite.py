"""Ignite: an engine trains as without the handler, and its records are those of a plain loop."""

import pytest
import torch
import torch.nn.functional as F

import taiyi_fx
from tests.trainers.digits import (
    Noting,
    assert_as_in_a_loop,
    assert_goes_on,
    broken,
    loader,
    net,
    sgd,
    train_plainly,
    values,
    watched,
)

pytest.importorskip("ignite")

from ignite.engine import Engine, create_supervised_trainer
from ignite.handlers import Checkpoint, DiskSaver

from taiyi_fx.trainers.ignite import MonitorHandler


def engine_of(model, optimizer, accumulate=1):
    made = create_supervised_trainer(
        model, optimizer, F.cross_entropy, gradient_accumulation_steps=accumulate
    )
    made.logger.disabled = True
    return made


def run(model, batches, accumulate, monitored):
    torch.manual_seed(1)
    optimizer = sgd(model)
    engine = engine_of(model, optimizer, accumulate)
    if monitored:
        MonitorHandler(model, optimizer, gradient_accumulation_steps=accumulate).attach(engine)
    engine.run(loader(batches), max_epochs=1)


@pytest.mark.parametrize("accumulate", [1, 4])
def test_training_is_the_same_and_the_records_are_those_of_a_plain_loop(accumulate):
    plain = net()
    looped, handled = watched(plain), watched(plain)
    train_plainly(looped, 5 * accumulate, accumulate)
    run(handled, 5 * accumulate, accumulate, monitored=True)
    run(plain, 5 * accumulate, accumulate, monitored=False)
    assert_as_in_a_loop(handled, plain, looped)


def test_a_run_resumed_from_a_checkpoint_goes_on_at_its_step(tmp_path):
    """Two epochs of three steps, at once and one by one."""
    whole, first, second = (watched(net(drop=0.0)) for _ in range(3))
    writer = Noting()
    in_two_halves(whole, epochs=2)
    run, kept = tmp_path / "run", tmp_path / "kept"
    in_two_halves(first, epochs=1, save_to=kept, run=run)
    first.monitor.close()
    (checkpoint,) = kept.iterdir()
    in_two_halves(second, epochs=2, load_from=checkpoint, writers=[writer], run=run)
    assert_goes_on(second, whole, writer)
    with taiyi_fx.open_run(run) as found:
        for name, expected in whole.monitor.records.series().items():
            curve = found.series(*name)
            assert dict(zip(curve.steps, curve.values, strict=True)) == expected


def in_two_halves(model, *, epochs, save_to=None, load_from=None, run=None, writers=()):
    optimizer = sgd(model)
    engine = engine_of(model, optimizer, accumulate=2)
    objects = {"engine": engine, "model": model, "optimizer": optimizer}
    if load_from:
        Checkpoint.load_objects(objects, checkpoint=load_from)
    handler = MonitorHandler(
        model, optimizer, gradient_accumulation_steps=2, run=run, writers=writers
    )
    handler.attach(engine)
    engine.run(loader(6), max_epochs=epochs)
    if save_to:
        Checkpoint(objects, DiskSaver(str(save_to)))(engine)


def test_a_step_that_the_scaler_left_out_is_counted_and_leaves_nothing_to_the_next():
    model = watched(net(drop=0.0))
    optimizer, scaler = sgd(model), torch.amp.GradScaler("cpu", init_scale=4.0)
    batches = list(loader(3))

    def update(engine, batch):
        optimizer.zero_grad()
        x, y = batch
        loss = F.cross_entropy(model(x), y)
        overflows = torch.inf if engine.state.iteration == 1 else 1.0
        scaler.scale(loss * overflows).backward()
        scaler.step(optimizer)
        scaler.update()

    engine = Engine(update)
    engine.logger.disabled = True
    handler = MonitorHandler(model, optimizer, scaler=scaler)
    handler.attach(engine)
    engine.run(batches)
    assert scaler.get_scale() == 2.0
    looped = watched(net(drop=0.0))
    looped(batches[0][0])  # BatchNorm has seen it
    looped.monitor.start_at(1)
    optimizer = sgd(looped)
    for step, (x, y) in enumerate(batches[1:], 1):
        optimizer.zero_grad()
        F.cross_entropy(looped(x), y).backward()
        looped.monitor.track(step)
        optimizer.step()
    assert values(handler.monitor) == values(looped.monitor)


def test_an_optimizer_that_steps_outside_of_the_engine_is_not_tracked():
    model = watched(net())
    optimizer = sgd(model)
    engine = engine_of(model, optimizer)
    MonitorHandler(model, optimizer).attach(engine)
    engine.run(loader(2))
    before = values(model.monitor)
    optimizer.step()
    assert values(model.monitor) == before
    assert model.monitor.next_step == 2


def test_what_fails_in_an_update_still_ends_the_run():
    model = watched(net())
    optimizer = sgd(model)
    engine = engine_of(model, optimizer)
    MonitorHandler(model, optimizer).attach(engine)
    with pytest.raises(RuntimeError):
        engine.run([(torch.ones(2, 3), torch.ones(2))])


@pytest.mark.parametrize("number", [0, -1])
def test_a_number_of_steps_to_accumulate_that_is_none_is_said(number):
    with pytest.raises(ValueError, match="at least 1"):
        MonitorHandler(net(), sgd(net()), gradient_accumulation_steps=number)


def test_a_model_that_is_not_instrumented_is_said():
    model = net()
    engine = engine_of(model, sgd(model))
    MonitorHandler(model, sgd(model)).attach(engine)
    with pytest.raises(LookupError, match=r"no part of the Net is instrumented"):
        engine.run(loader(1))


def test_the_optimizer_is_known():
    model = taiyi_fx.instrument(net(), {"": ["LearningRate"]})
    run(model, 2, accumulate=1, monitored=True)
    assert model.monitor.get_output()[""]["LearningRate"] == {0: 0.1, 1: 0.1}


@pytest.mark.filterwarnings("ignore::taiyi_fx.MonitorWarning")
def test_a_finding_stops_the_engine():
    model = broken(watched(net()))
    optimizer = sgd(model)
    engine = engine_of(model, optimizer)
    MonitorHandler(model, optimizer).attach(engine)
    assert engine.run(loader(5)).iteration == 1
    assert model.monitor.findings[0].module == "conv"
