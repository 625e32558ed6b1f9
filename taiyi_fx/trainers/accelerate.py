"""Accelerate: a tracker that adds the numbers of `Accelerator.log` to a monitor's records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from taiyi_fx.monitor import Monitor

try:
    from accelerate.tracking import GeneralTracker
except ImportError as error:
    raise ImportError(
        "taiyi_fx.trainers.accelerate needs Accelerate: pip install 'taiyi-fx[accelerate]'"
    ) from error


class MonitorTracker(GeneralTracker):
    """Records logged numbers as series of the model itself: ``Accelerator(log_with=...)``.

    Steps are tracked in your loop, ``monitor.track(step, accelerator.scaler)`` where
    ``accelerator.sync_gradients`` is true.

    Args:
        monitor: That of the instrumented model.
    """

    name = "taiyi_fx"
    requires_logging_directory = False

    def __init__(self, monitor: Monitor) -> None:
        super().__init__()
        self._monitor = monitor

    @property
    def tracker(self) -> Monitor:
        """The monitor, for `Accelerator.get_tracker`."""
        return self._monitor

    def log(self, values: Mapping[str, Any], step: int | None = None, **kwargs: Any) -> None:
        """Records numbers; text is left to other trackers.

        Args:
            values: Numbers, or tensors of one element, by name.
            step: The optimizer step that they belong to; by default that of the next `track`.
            **kwargs: Of other trackers.
        """
        for name, value in values.items():
            if not isinstance(value, str):
                self._monitor.log(name, value, step=step)

    def finish(self) -> None:
        """Flushes all writers to disk."""
        self._monitor.flush()
