"""PyTorch Lightning: a callback that tracks each optimizer step, and a logger of its metrics."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from taiyi_fx.monitor import Monitor
from taiyi_fx.trainers.begin import begin, writers_of
from taiyi_fx.writers.protocol import Writer

# Types are checked without so large a package.
try:
    from lightning.pytorch import Callback, LightningModule, Trainer  # pyright: ignore[reportMissingImports]
    from lightning.pytorch.loggers import Logger  # pyright: ignore[reportMissingImports]
except ImportError as error:
    raise ImportError(
        "taiyi_fx.trainers.lightning needs Lightning: pip install 'taiyi-fx[lightning]'"
    ) from error


class MonitorCallback(Callback):
    """Tracks the instrumented part of a `LightningModule` at each optimizer step.

    Steps are those of ``trainer.global_step``, also after a checkpoint. Gradients are read when all
    micro-batches are accumulated and before they are clipped; the scaler of ``"16-mixed"`` is taken
    into account. Each epoch of training is one of `Monitor.epochs`. Where no code logs a loss
    before its backward, what ``training_step`` returns is logged as ``"training loss"``: findings
    tell from it how the loss is made, and of each step what became of it.

    Args:
        run: A folder to keep all records in, from the step that training begins at;
            after a checkpoint was loaded it goes on there (`open_run` reads it).
        overwrite: Replace the folder's run, where training begins at step 0.
        writers: Further places for the records, from that step.

    Attributes:
        monitor: Schedules and records; None before training begins.
    """

    def __init__(
        self,
        *,
        run: str | os.PathLike[str] | None = None,
        overwrite: bool = False,
        writers: Sequence[Writer] = (),
    ) -> None:
        self.monitor: Monitor | None = None
        self._writers = writers_of(run, writers, overwrite=overwrite)
        self._logs_loss = False

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Finds the monitor.

        Raises:
            LookupError: No part of the module is instrumented.
            ValueError: Several are; or writers are open that expect another step.
        """
        self.monitor = begin(pl_module, trainer.global_step, self._writers)
        self.monitor.watch_optimizer(*trainer.optimizers)

    def on_before_backward(
        self, trainer: Trainer, pl_module: LightningModule, loss: Tensor
    ) -> None:
        """Logs the loss where nobody does; of manual optimization nobody knows whose loss it is."""
        assert self.monitor is not None
        if not pl_module.automatic_optimization or loss.numel() != 1:
            return  # several numbers are for a backward of the module's own
        self._logs_loss = self._logs_loss or not self.monitor.knows_loss
        if self._logs_loss:
            scaler = _scaler_of(trainer)
            scale = 1 if scaler is None else scaler.scale(torch.ones_like(loss))
            self.monitor.log(_LOSS, loss * trainer.accumulate_grad_batches / scale)

    def on_before_optimizer_step(
        self, trainer: Trainer, pl_module: LightningModule, optimizer: Optimizer
    ) -> None:
        """Records what is due at the step, and stops training where a finding asks for it."""
        assert self.monitor is not None  # training has begun
        self.monitor.track(trainer.global_step, _scaler_of(trainer))
        if self.monitor.should_stop:
            trainer.should_stop = True

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Closes the epoch."""
        assert self.monitor is not None
        self.monitor.tick_epoch(trainer.current_epoch)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Flushes all writers to disk."""
        self._flush()

    def on_exception(
        self, trainer: Trainer, pl_module: LightningModule, exception: BaseException
    ) -> None:
        """Flushes all writers to disk."""
        self._flush()

    def _flush(self) -> None:
        if self.monitor is not None:
            self.monitor.flush()


_LOSS = "training loss"


def _scaler_of(trainer: Trainer) -> torch.amp.GradScaler | None:
    return getattr(trainer.precision_plugin, "scaler", None)


class MonitorLogger(Logger):
    """Records what a `LightningModule` logs, beside the quantities: ``Trainer(logger=...)``.

    Args:
        monitor: That of the instrumented part.
    """

    def __init__(self, monitor: Monitor) -> None:
        super().__init__()
        self._monitor = monitor

    @property
    def name(self) -> str:
        """Part of the path of checkpoints."""
        return "taiyi_fx"

    @property
    def version(self) -> str:
        """Part of the path of checkpoints."""
        return ""

    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Records numbers as series of the model itself."""
        for name, value in metrics.items():
            self._monitor.log(name, value, step=step)

    def log_hyperparams(self, *args: Any, **kwargs: Any) -> None:  # of Lightning's own protocol
        """Leaves hyperparameters to other loggers: a monitor has numbers over steps alone."""
