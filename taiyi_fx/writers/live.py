"""The last values as a table in the terminal, which follows the training."""

from __future__ import annotations

import math
import sys
import time
from collections import deque
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from taiyi_fx.passes.ir import Mode
from taiyi_fx.records.record import Record, Series
from taiyi_fx.writers.axes import is_log
from taiyi_fx.writers.import_optional import import_optional
from taiyi_fx.writers.names import escaped, shorter
from taiyi_fx.writers.protocol import Batch, RunInfo
from taiyi_fx.writers.values import number

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_SHOWN = 20
_BARS, _ASCII_BARS = "▁▂▃▄▅▆▇█", "_.-~=+*#"
_LINES_AROUND = 8
_LONGEST_NUMBER = len("-1.234e-56")
_LONGEST_NAME = 32
_WIDTH_OF_FILES = 120


class LiveTable:
    """Shows each series' last value, and its last twenty as bars.

    Series that had a NaN or an Inf come first, with the step of the first one. Where the terminal
    has fewer lines than there are series, the rest is counted. Beside a bar of tqdm, which needs
    the terminal's last line, the table is printed above it at the end of each epoch. Where the
    output is not a terminal, it is printed once, at the end.

    Args:
        refresh: The most times a second that the table is drawn.
        console: The terminal; by default a ``rich.console.Console()``.

    Raises:
        ValueError: ``refresh`` is not positive.
    """

    def __init__(self, *, refresh: float = 2.0, console: Console | None = None) -> None:
        if not refresh > 0:
            raise ValueError(f"refresh is a number of times a second, not {refresh!r}")
        self._pause = 1 / refresh
        self._console: Any = console
        self._series: dict[tuple[Series, Mode], _Trend] = {}
        self._messages: deque[str] = deque(maxlen=3)
        self._live: Any = None
        self._drawn = -math.inf
        self._step = self._epoch = 0

    def open(self, run: RunInfo) -> None:
        """Prepares the table for the terminal.

        Raises:
            ImportError: rich is not installed.
        """
        if self._console is None:
            make = import_optional("rich.console", "live").Console
            self._console = make()
            if not self._console.is_terminal:
                self._console = make(width=_WIDTH_OF_FILES)
        self._model = run.model
        self._may_follow = self._console.is_terminal

    def write(self, batch: Batch) -> None:
        """Adds values, and draws the table where it is due."""
        self._epoch = batch.epoch
        for record in batch:
            self._take(record)
        self._messages += (event.text for event in batch.events)
        if self._may_follow and _bars():
            self._may_follow = False
            self._stop()
        if self._may_follow:
            self._follow()
        elif batch.ended and self._console.is_terminal:
            self._print()

    def flush(self) -> None:
        """Does nothing: the table is drawn at once."""

    def close(self) -> None:
        """Draws the table a last time, and leaves it there."""
        if self._live is not None:
            self._live.update(self._table(), refresh=True)
            self._stop()
        elif self._series:
            self._print()

    def _take(self, record: Record) -> None:
        value = number(record.value)
        if value is None:
            return
        self._step = max(self._step, record.step)
        key = (record.module, record.quantity), record.mode
        trend = self._series.setdefault(key, _Trend())
        trend.add(record.step, float(value))

    def _follow(self) -> None:
        now = time.monotonic()
        if now - self._drawn < self._pause:
            return
        self._drawn = now
        if self._live is None:
            make = import_optional("rich.live", "live").Live
            self._live = make(console=self._console, auto_refresh=False)
            self._live.start()
        self._live.update(self._table(), refresh=True)

    def _stop(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _print(self) -> None:
        with _above_bars(self._console.file):
            self._console.print(self._table())

    def _table(self) -> Table:
        text, box = import_optional("rich.text", "live").Text, import_optional("rich.box", "live")
        table = import_optional("rich.table", "live").Table(
            title=text(f"{self._model}, epoch {self._epoch}, step {self._step}"),
            box=box.SIMPLE_HEAD,
        )
        for column in ("module", "quantity"):
            table.add_column(column, no_wrap=True, overflow="ellipsis", ratio=1)
        table.add_column("last", no_wrap=True, justify="right", min_width=_LONGEST_NUMBER)
        table.add_column("trend", no_wrap=True, min_width=_SHOWN)
        table.add_column("", no_wrap=True)
        shown = self._chosen()
        bars = _ASCII_BARS if self._console.options.ascii_only else _BARS
        for ((module, quantity), mode), trend in shown:
            name = quantity if mode == "train" else f"{quantity} (evaluation)"
            names = [text(_shown(part)) for part in (module or "the model", name)]
            last = text(f"{trend.values[-1]:.4g}", style="" if trend.is_finite else "bold red")
            flag = text(trend.flag, style="red")
            table.add_row(*names, last, text(sparkline(trend.values, bars)), flag)
        more = len(self._series) - len(shown)
        lines = [f"and {more} more series"] if more else []
        table.caption = text("\n".join([*lines, *self._messages]))
        return table

    def _chosen(self) -> list[tuple[tuple[Series, Mode], _Trend]]:
        """As many series as there are lines, flagged ones first."""
        room = max(self._console.size.height - _LINES_AROUND, 1)
        if not self._console.is_terminal:
            room = len(self._series)
        return sorted(self._series.items(), key=lambda item: item[1].flag == "")[:room]


@dataclass
class _Trend:
    """The last values of a series, and when one first was not finite."""

    values: deque[float] = field(default_factory=lambda: deque(maxlen=_SHOWN))
    flag: str = ""

    def add(self, step: int, value: float) -> None:
        self.values.append(value)
        if not self.flag and not math.isfinite(value):
            self.flag = f"{value} at step {step}"

    @property
    def is_finite(self) -> bool:
        return math.isfinite(self.values[-1])


def _shown(name: str) -> str:
    return shorter(escaped(shorter(name, _LONGEST_NAME), ""), _LONGEST_NAME)


def sparkline(values: Sequence[float], bars: str = _BARS) -> str:
    """Values as a line of bars, from the smallest to the largest; NaN and Inf are crosses.

    Positive values that differ much are compared by their logarithm.
    """
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return "x" * len(values)
    low, high = min(finite), max(finite)
    scale = math.log if is_log(np.array(finite)) else float
    # Halves, so that the span is finite.
    start, span = scale(low) / 2, scale(high) / 2 - scale(low) / 2

    def bar(value: float) -> str:
        if not math.isfinite(value):
            return "x"
        share = (scale(value) / 2 - start) / span if span else 0.0
        return bars[round(share * (len(bars) - 1))]

    return "".join(map(bar, values))


def _tqdm() -> Any:
    """The class of tqdm's bars; None where it is not imported."""
    return getattr(sys.modules.get("tqdm"), "tqdm", None)


def _bars() -> bool:
    """True while a bar of tqdm is on the screen."""
    return any(not bar.disable for bar in list(getattr(_tqdm(), "_instances", ())))


def _above_bars(file: Any) -> AbstractContextManager[None]:
    """A context in which tqdm's bars are off the screen, to print there."""
    return _tqdm().external_write_mode(file) if _bars() else nullcontext()
