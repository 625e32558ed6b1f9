"""The Trainer of Hugging Face's transformers: a callback that tracks each optimizer step."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn
from torch.optim import Optimizer

from taiyi_fx.monitor import Monitor
from taiyi_fx.trainers.begin import begin, writers_of
from taiyi_fx.writers.protocol import Writer

# Types are checked without so large a package; with it, pyright reads a hundred times as much for
# names of the package as for those of its modules.
try:
    from transformers.trainer_callback import TrainerCallback, TrainerControl, TrainerState  # pyright: ignore[reportMissingImports]
    from transformers.training_args import TrainingArguments  # pyright: ignore[reportMissingImports]
except ImportError as error:
    raise ImportError(
        "taiyi_fx.trainers.huggingface needs transformers: pip install 'taiyi-fx[transformers]'"
    ) from error

_LOSS = "training loss"


class MonitorCallback(TrainerCallback):
    """Tracks the instrumented model of a `Trainer` at each optimizer step.

    Steps are those of ``state.global_step``, also after a checkpoint. Gradients are read when all
    micro-batches are accumulated, and of parameters after they are clipped, as the `Trainer` has
    no event before; the scaler of ``fp16`` is taken into account. What the `Trainer` logs is
    recorded beside the quantities, and each epoch is one of `Monitor.epochs`. A loss that the model
    itself returns is recorded of each step, as ``"training loss"``.

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

    def on_train_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        *,
        model: nn.Module,
        **kwargs: Any,
    ) -> None:
        """Finds the monitor.

        Raises:
            LookupError: No part of the model is instrumented.
            ValueError: Several are; or writers are open that expect another step.
        """
        self.monitor = begin(model, state.global_step, self._writers)
        self.monitor.returned_loss()  # kept from here on

    def on_pre_optimizer_step(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        *,
        optimizer: Optimizer,
        **kwargs: Any,
    ) -> None:
        """Records what is due at the step, and stops training where a finding asks for it."""
        assert self.monitor is not None  # training has begun
        self.monitor.watch_optimizer(optimizer)
        loss = self.monitor.returned_loss()
        if loss is not None:
            self.monitor.log(_LOSS, loss)
        self.monitor.track(state.global_step, getattr(optimizer, "scaler", None))
        if self.monitor.should_stop:
            control.should_training_stop = True

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        *,
        logs: Mapping[str, object],
        **kwargs: Any,
    ) -> None:
        """Records numbers as series of the model itself, at the last step that was made."""
        if self.monitor is None:
            return  # an evaluation before any training
        step = max(state.global_step - 1, 0)
        for name, value in logs.items():
            if isinstance(value, (int, float)):
                mode = "eval" if name.startswith("eval_") else "train"
                self.monitor.log(name, value, step=step, mode=mode)

    def on_epoch_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Closes the epoch."""
        assert self.monitor is not None
        self.monitor.tick_epoch(max(round(state.epoch or 0) - 1, 0))

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Flushes all writers to disk."""
        assert self.monitor is not None
        self.monitor.flush()
