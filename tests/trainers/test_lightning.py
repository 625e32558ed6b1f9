"""Lightning: a module trains as without the callback, and its records are those of a plain loop."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from taiyi_fx import instrument
from tests.trainers.digits import (
    CFG,
    Noting,
    assert_as_in_a_loop,
    assert_goes_on,
    assert_same_tensors,
    broken,
    loader,
    net,
    sgd,
    train_plainly,
    values,
    watched,
)

lightning = pytest.importorskip("lightning.pytorch")

from lightning.pytorch.plugins import MixedPrecision

from taiyi_fx.trainers.lightning import MonitorCallback, MonitorLogger

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
    pytest.mark.filterwarnings("ignore:.*number of training batches"),
    pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning"),
    pytest.mark.filterwarnings("ignore:.*defined a `validation_step`"),
]


class Digits(lightning.LightningModule):
    def __init__(self, net, fails_at=None):
        super().__init__()
        self.net, self.fails_at = net, fails_at

    def training_step(self, batch, i):
        if i == self.fails_at:
            raise RuntimeError("as asked")
        x, y = batch
        loss = F.cross_entropy(self.net(x.type_as(self.net.fc.bias)), y)
        self.log("loss", loss)
        return loss

    def validation_step(self, batch, i):
        x, y = batch
        self.log("accuracy", (self.net(x.type_as(self.net.fc.bias)).argmax(1) == y).double().mean())

    def configure_optimizers(self):
        return sgd(self.net)


def fit(net, *, batches, epochs=1, ckpt_path=None, fails_at=None, module=None, **options):
    torch.manual_seed(1)
    trainer = lightning.Trainer(
        max_epochs=epochs,
        accelerator="cpu",
        devices=1,
        **{"logger": False, "enable_checkpointing": False, **options},
        enable_progress_bar=False,
        enable_model_summary=False,
        log_every_n_steps=1,
    )
    data = loader(batches)
    trainer.fit((module or Digits)(net, fails_at), data, loader(1), ckpt_path=ckpt_path)
    return trainer


@pytest.mark.parametrize("accumulate", [1, 4])
def test_training_is_the_same_and_the_records_are_those_of_a_plain_loop(accumulate):
    plain = net()
    looped, called = watched(plain), watched(plain)
    batches = 5 * accumulate
    train_plainly(looped, batches, accumulate)
    options = {"batches": batches, "accumulate_grad_batches": accumulate}
    fit(called, callbacks=[MonitorCallback()], **options)
    fit(plain, **options)
    assert_as_in_a_loop(called, plain, looped)


def test_a_run_resumed_from_a_checkpoint_goes_on_at_its_step(tmp_path):
    """Two epochs of three steps, at once and one by one."""
    whole, first, second = (watched(net(drop=0.0)) for _ in range(3))
    writer = Noting()
    fit(whole, batches=6, epochs=2, accumulate_grad_batches=2, callbacks=[MonitorCallback()])
    trainer = fit(first, batches=6, accumulate_grad_batches=2, callbacks=[MonitorCallback()])
    trainer.save_checkpoint(tmp_path / "half.ckpt")
    fit(
        second,
        batches=6,
        epochs=2,
        accumulate_grad_batches=2,
        ckpt_path=tmp_path / "half.ckpt",
        callbacks=[MonitorCallback(writers=[writer])],
    )
    assert_goes_on(second, whole, writer)


def test_training_goes_on_in_a_second_fit():
    model, callback = watched(net()), MonitorCallback(writers=[Noting()])
    trainer = fit(model, batches=2, callbacks=[callback])
    trainer.fit_loop.max_epochs = 2
    trainer.fit(Digits(model), loader(2), loader(1))
    assert {step for step, _, _ in values(model.monitor)} == set(range(4))


def test_gradients_are_read_before_they_are_clipped_and_without_their_scale():
    looped, called = watched(net(drop=0.0)), watched(net(drop=0.0))
    train_plainly(looped, 1, 1)
    scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
    plugin = MixedPrecision("16-mixed", "cpu", scaler)
    fit(
        called.float(),
        batches=1,
        plugins=[plugin],
        gradient_clip_val=1e-3,
        callbacks=[MonitorCallback()],
    )
    expected = values(looped.monitor)
    assert (0, "fc", "WeightGradNorm") in expected
    assert values(called.monitor) == pytest.approx(expected, rel=1e-2)


def test_what_a_module_logs_is_recorded_by_a_logger(tmp_path):
    model = watched(net())
    logger = MonitorLogger(model.monitor)
    fit(
        model,
        batches=3,
        logger=logger,
        enable_checkpointing=True,
        default_root_dir=tmp_path,
        callbacks=[MonitorCallback()],
    )
    looped = watched(net())
    losses = train_plainly(looped, 3, 1)
    logged = {m: model.monitor.get_output(m)[""] for m in ("train", "eval")}
    assert logged["train"]["loss"] == dict(enumerate(losses))
    (accuracy,) = logged["eval"]["accuracy"].values()
    assert 0 <= accuracy <= 1
    assert list(tmp_path.glob("taiyi_fx/**/*.ckpt"))


class Squashed(Digits):
    def training_step(self, batch, i):
        x, y = batch
        return F.cross_entropy(self.net(x.type_as(self.net.fc.bias)).softmax(-1), y)


@pytest.mark.parametrize("scaled", [False, True])
def test_what_nobody_logs_is_logged_as_it_is_and_tells_how_it_is_made(scaled):
    model = watched(net(drop=0.0).float())
    scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
    plugins = [MixedPrecision("16-mixed", "cpu", scaler)] if scaled else []
    losses = []

    class Losses(lightning.Callback):
        def on_train_batch_end(self, trainer, pl_module, outputs, batch, i):
            losses.append(outputs["loss"].item())

    callbacks = [MonitorCallback(), Losses()]
    fit(
        model,
        batches=80,
        module=Squashed,
        accumulate_grad_batches=2,
        callbacks=callbacks,
        plugins=plugins,
    )
    found = model.monitor.get_output()[""]["training loss"]
    means = {i: losses[2 * i] + losses[2 * i + 1] for i in range(40)}  # each is divided by two
    assert found == pytest.approx(means, rel=1e-2 if scaled else 1e-6)
    assert "squashed_loss" in {f.kind for f in model.monitor.findings}


def test_a_loss_of_several_numbers_trains_as_it_does_without_the_callback():
    class Several(Digits):
        def training_step(self, batch, i):
            x, y = batch
            return F.cross_entropy(self.net(x), y, reduction="none")

        def backward(self, loss):
            loss.mean().backward()

    seen, plain = watched(net()), net()
    fit(seen, batches=3, module=Several, callbacks=[MonitorCallback()])
    fit(plain, batches=3, module=Several)
    assert_same_tensors(seen, plain)
    assert "" not in seen.monitor.get_output()


def test_a_loss_that_code_logs_before_its_backward_is_the_only_one():
    class Logs(Digits):
        def training_step(self, batch, i):
            loss = super().training_step(batch, i)
            self.net.monitor.log("my loss", loss)
            return loss

    model = watched(net())
    fit(model, batches=3, module=Logs, callbacks=[MonitorCallback()])
    assert set(model.monitor.get_output()[""]) == {"my loss"}


def test_a_run_that_fails_is_flushed():
    model, writer = watched(net()), Noting()
    with pytest.raises(RuntimeError, match="as asked"):
        fit(model, batches=4, fails_at=2, callbacks=[MonitorCallback(writers=[writer])])
    assert set(writer.steps) == {0, 1}
    assert writer.flushes


def test_a_module_whose_training_step_calls_it_can_be_instrumented_itself():
    class Called(Digits):
        def forward(self, x):
            return self.net(x)

        def training_step(self, batch, i):
            x, y = batch
            return F.cross_entropy(self(x), y)

    def trained(module, **options):
        torch.manual_seed(1)
        quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
        trainer = lightning.Trainer(
            max_epochs=1, accelerator="cpu", enable_model_summary=False, **quiet, **options
        )
        trainer.fit(module, loader(3))
        return module

    looped = watched(net())
    train_plainly(looped, 3, 1)
    called = trained(instrument(Called(net()), CFG), callbacks=[MonitorCallback()])
    assert_same_tensors(called, trained(Called(net())))
    found = {(s, m.removeprefix("net."), q): v for (s, m, q), v in values(called.monitor).items()}
    assert found == values(looped.monitor)


def test_a_module_without_an_instrumented_part_is_said():
    with pytest.raises(LookupError, match=r"no part of the Digits is instrumented"):
        fit(net(), batches=1, callbacks=[MonitorCallback()])


def test_several_instrumented_parts_are_said():
    parts = nn.ModuleList([watched(net()), watched(net())])
    parts.fc, parts.forward = parts[0].fc, parts[0].forward
    with pytest.raises(ValueError, match=r"several parts .* 'net.0', 'net.1'"):
        fit(parts, batches=1, callbacks=[MonitorCallback()])


def test_writers_of_instrument_that_began_at_another_step_are_said(tmp_path):
    first = watched(net())
    fit(first, batches=2, callbacks=[MonitorCallback()]).save_checkpoint(tmp_path / "a.ckpt")
    second = instrument(net(), CFG, writers=[Noting()])
    with pytest.raises(ValueError, match=r"begins at step 2, but .* expect step 0"):
        fit(
            second,
            batches=2,
            epochs=2,
            ckpt_path=tmp_path / "a.ckpt",
            callbacks=[MonitorCallback()],
        )


def test_the_older_package_takes_the_callback_too():
    older = pytest.importorskip("pytorch_lightning")

    class Older(older.LightningModule):
        def __init__(self, net):
            super().__init__()
            self.net = net

        def training_step(self, batch, i):
            x, y = batch
            return F.cross_entropy(self.net(x), y)

        def configure_optimizers(self):
            return sgd(self.net)

    looped, called = watched(net()), watched(net())
    train_plainly(looped, 3, 1)
    torch.manual_seed(1)
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    callbacks = [MonitorCallback()]
    options = {"accelerator": "cpu", "enable_model_summary": False, **quiet}
    older.Trainer(max_epochs=1, callbacks=callbacks, **options).fit(Older(called), loader(3))
    assert values(called.monitor) == values(looped.monitor)


def test_the_optimizer_is_known():
    model = instrument(net(), {"": ["LearningRate"]})
    fit(model, batches=2, callbacks=[MonitorCallback()])
    assert model.monitor.get_output()[""]["LearningRate"] == {0: 0.1, 1: 0.1}


@pytest.mark.filterwarnings("ignore::taiyi_fx.MonitorWarning")
def test_a_finding_stops_training():
    model = broken(watched(net()))
    trainer = fit(model, batches=5, callbacks=[MonitorCallback()])
    assert trainer.global_step == 1
    assert model.monitor.findings[0].module == "conv"
