"""Records to trackio, which keeps them on this machine."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from taiyi_fx.quantities.stock.images import IMAGES
from taiyi_fx.writers.import_optional import import_optional
from taiyi_fx.writers.protocol import Batch, RunInfo
from taiyi_fx.writers.step_values import EPOCH, StepValues


class Trackio:
    """Logs each step's values to a run of trackio, at the step that was tracked.

    Keys are ``quantity/module``, and ``evaluation/quantity/module`` in evaluation mode.

    Args:
        run: A run; by default the one that ``trackio.init`` makes when the writer is opened, which
            `close` then finishes.
        images: The quantities whose tensors of two axes are pictures.
        **init: The arguments of ``trackio.init``, such as ``project="name"``.

    Raises:
        TypeError: Both a run and arguments to make one are given, or neither.
    """

    def __init__(self, run: Any = None, *, images: Collection[str] = IMAGES, **init: Any) -> None:
        if run is not None and init:
            raise TypeError(f"a run is given, but {', '.join(init)} only configures a new one")
        if run is None and "project" not in init:
            raise TypeError("a run needs a project: Trackio(project='name')")
        self._run: Any = run
        self._is_given = run is not None
        self._images = images
        self._init = init

    def open(self, run: RunInfo) -> None:
        """Finds or makes the run.

        Raises:
            ImportError: trackio is not installed.
        """
        package = import_optional("trackio", "trackio")
        if self._run is None:
            self._run = package.init(**self._init)
        self._values = StepValues(run, package, self._images)

    def write(self, batch: Batch) -> None:
        """Logs each step."""
        for step, values in self._values.of(batch).items():
            self._run.log({**values, EPOCH: batch.epoch}, step=step)

    def flush(self) -> None:
        """Does nothing: trackio writes by itself."""

    def close(self) -> None:
        """Finishes the run, unless it was given."""
        if not self._is_given:
            self._run.finish()
