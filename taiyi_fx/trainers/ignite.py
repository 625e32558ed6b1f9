"""PyTorch Ignite: a handler that tracks each optimizer step of an engine."""

from __future__ import annotations

import os
from collections.abc import Sequence

import torch
from torch import nn
from torch.optim import Optimizer
from torch.utils.hooks import RemovableHandle

from taiyi_fx.monitor import Monitor
from taiyi_fx.trainers.begin import begin, writers_of
from taiyi_fx.writers.protocol import Writer

try:
    from ignite.engine import Engine, Events
except ImportError as error:
    raise ImportError(
        "taiyi_fx.trainers.ignite needs Ignite: pip install 'taiyi-fx[ignite]'"
    ) from error


class MonitorHandler:
    """Tracks an instrumented model as its optimizer is about to step.

    Optimizer steps are counted from the engine's iterations, also after a checkpoint of the
    engine. The optimizer says that it is about to step by the hook that torch has for that
    (`Optimizer.register_step_pre_hook`): gradients are read as they are then. Each epoch is one of
    `Monitor.epochs`.

    Args:
        model: The instrumented model, wrapped or not.
        optimizer: The optimizer that the engine's update steps.
        gradient_accumulation_steps: The number of iterations for one optimizer step.
        scaler: The scaler of the loss. A step that it skips, as gradients overflowed, is
            counted and has no records.
        run: A folder to keep all records in, from the step that training begins at;
            after a checkpoint was loaded it goes on there (`open_run` reads it).
        overwrite: Replace the folder's run, where training begins at step 0.
        writers: Further places for the records, from that step.

    Attributes:
        monitor: Schedules and records; None before training begins.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer,
        *,
        gradient_accumulation_steps: int = 1,
        scaler: torch.amp.GradScaler | None = None,
        run: str | os.PathLike[str] | None = None,
        overwrite: bool = False,
        writers: Sequence[Writer] = (),
    ) -> None:
        if gradient_accumulation_steps < 1:
            raise ValueError(
                "gradient_accumulation_steps is a whole number of at least 1, not "
                f"{gradient_accumulation_steps!r}"
            )
        self.monitor: Monitor | None = None
        self._model = model
        self._optimizer = optimizer
        self._every = gradient_accumulation_steps
        self._scaler = scaler
        self._writers = writers_of(run, writers, overwrite=overwrite)
        self._hook: RemovableHandle | None = None

    def attach(self, engine: Engine) -> None:
        """Tracks each run of an engine."""
        engine.add_event_handler(Events.STARTED, self._begin)
        engine.add_event_handler(Events.ITERATION_COMPLETED, self._pass_over_skipped)
        engine.add_event_handler(Events.EPOCH_COMPLETED, self._close_epoch)
        engine.add_event_handler(Events.INTERRUPT, self._flush)
        engine.add_event_handler(Events.TERMINATE, self._end)
        engine.add_event_handler(Events.COMPLETED, self._end)

    def _begin(self, engine: Engine) -> None:
        done = engine.state.iteration // self._every
        self.monitor = monitor = begin(self._model, done, self._writers)
        monitor.watch_optimizer(self._optimizer)

        def track(*_: object) -> None:
            monitor.track((engine.state.iteration - 1) // self._every, self._scaler)
            if monitor.should_stop:
                engine.terminate()

        self._unhook()
        self._hook = self._optimizer.register_step_pre_hook(track)

    def _pass_over_skipped(self, engine: Engine) -> None:
        """Discards the readings of a step that the gradient scaler skipped."""
        assert self.monitor is not None
        done, rest = divmod(engine.state.iteration, self._every)
        if rest == 0 and self.monitor.next_step < done:
            self.monitor.start_at(done)

    def _close_epoch(self, engine: Engine) -> None:
        assert self.monitor is not None
        self.monitor.tick_epoch(engine.state.epoch - 1)

    def _end(self) -> None:
        self._unhook()
        self._flush()

    def _unhook(self) -> None:
        if self._hook is not None:
            self._hook.remove()
            self._hook = None

    def _flush(self) -> None:
        assert self.monitor is not None
        self.monitor.flush()
