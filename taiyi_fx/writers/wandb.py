"""Records to Weights & Biases: one row a step."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from taiyi_fx.quantities.stock.images import IMAGES
from taiyi_fx.writers.import_optional import import_optional
from taiyi_fx.writers.protocol import Batch, RunInfo
from taiyi_fx.writers.step_values import EPOCH, STEP, StepValues


class WandB:
    """Logs each step's values to a run of W&B.

    Keys are ``quantity/module``, so that each quantity is a section; records of
    evaluation mode are in the section ``evaluation``. They are drawn over ``taiyi_fx/step``, the
    step that was tracked, and not over W&B's own counter of rows, so that numbers that come late
    stand at their step. Rows of your own ``wandb.log`` stay as they are.

    Args:
        run: A run; by default the one that ``wandb.init`` makes when the writer is opened, which
            `close` then finishes.
        commit: True to make a row of each step's values. With ``False`` they are added to
            the row that your next ``wandb.log`` ends: so it has to be where each step calls
            ``wandb.log(..., step=...)``, whose steps must not be behind the counter of rows.
        images: The quantities whose tensors of two axes are pictures.
        **init: The arguments of ``wandb.init``.

    Raises:
        TypeError: Both a run and arguments to make one are given.
    """

    def __init__(
        self,
        run: Any = None,
        *,
        commit: bool = True,
        images: Collection[str] = IMAGES,
        **init: Any,
    ) -> None:
        if run is not None and init:
            raise TypeError(f"a run is given, but {', '.join(init)} only configures a new one")
        self._run: Any = run
        self._is_given = run is not None
        self._commit = commit
        self._images = images
        self._init = init
        self._groups: set[str] = set()

    def open(self, run: RunInfo) -> None:
        """Finds or makes the run.

        Raises:
            ImportError: wandb is not installed.
        """
        package = import_optional("wandb", "wandb")
        if self._run is None:
            self._run = package.init(**self._init)
        self._values = StepValues(run, package, self._images)
        self._run.define_metric(STEP, hidden=True)
        self._run.define_metric(EPOCH, hidden=True)

    def write(self, batch: Batch) -> None:
        """Logs a row for each step."""
        for step, values in self._values.of(batch).items():
            # In a key a star would be a pattern; names may hold any character.
            row = {tag.replace("*", "%2A") or "%": value for tag, value in values.items()}
            for key in row:
                self._define(key)
            self._run.log({**row, STEP: step, EPOCH: batch.epoch}, commit=self._commit)

    def flush(self) -> None:
        """Does nothing: W&B writes by itself."""

    def close(self) -> None:
        """Finishes the run, unless it was given."""
        if not self._is_given:
            self._run.finish()

    def _define(self, key: str) -> None:
        """Sets the step as the axis of a key's group."""
        head, slash, _ = key.partition("/")
        group = f"{head}/*" if slash else key
        if group not in self._groups:
            self._groups.add(group)
            self._run.define_metric(group, step_metric=STEP)
