"""Pictures of a run's records, as files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from torch import Tensor

from taiyi_fx.passes.ir import Mode
from taiyi_fx.records.epochs import EpochSummary
from taiyi_fx.records.record import Records
from taiyi_fx.writers.figures import bands, curves, heatmap, spectra
from taiyi_fx.writers.import_optional import import_optional
from taiyi_fx.writers.names import safe
from taiyi_fx.writers.protocol import Batch, RunInfo
from taiyi_fx.writers.values import number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_KEPT_NUMBERS = 5_000_000


class Figures:
    """Draws all records, when the run ends or every few steps.

    Of each quantity ``<quantity>.curves.png`` and, of several modules, ``<quantity>.heatmap.png``;
    of vectors ``<quantity>.<module>.spectra.png``; of epochs ``<quantity>.bands.png``. Records
    of evaluation are in the folder ``evaluation``. Pictures replace earlier ones.
    They show this run from its first step, the last five million numbers at most.

    Args:
        path: The folder.
        every: Draw after every this many steps as well, which takes up to a second a picture.

    Raises:
        ValueError: ``every`` is not a whole number of at least 1.
    """

    def __init__(self, path: str | os.PathLike[str], *, every: int | None = None) -> None:
        if every is not None and (not isinstance(every, int) or every < 1):
            raise ValueError(f"every is a number of steps, at least 1, not {every!r}")
        self._path = Path(path)
        self._every = every
        self._records = Records()
        self._epochs: list[EpochSummary] = []
        self._drawn = 0

    def open(self, run: RunInfo) -> None:
        """Makes the folder.

        Raises:
            ImportError: matplotlib is not installed.
        """
        import_optional("matplotlib", "figures")
        self._path.mkdir(parents=True, exist_ok=True)
        self._drawn = run.start_step

    def write(self, batch: Batch) -> None:
        """Adds a batch, and draws where it is due."""
        last = 0
        for block in batch.blocks:
            self._records.append_block(block)
            last = max(last, block.step)
        for record in batch.records:
            self._records.append(record)
            last = max(last, record.step)
        self._records.keep(_KEPT_NUMBERS)
        self._epochs += batch.ended.summaries if batch.ended else ()
        if self._every is not None and last - self._drawn >= self._every:
            self._drawn = last
            self.draw()

    def flush(self) -> None:
        """Does nothing: pictures are drawn at their steps."""

    def close(self) -> None:
        """Draws all pictures."""
        self.draw()

    def draw(self) -> None:
        """Draws all pictures of the records so far."""
        for name, figure in self._figures():
            path = self._path / f"{name}.png"
            path.parent.mkdir(exist_ok=True)
            figure.savefig(path, dpi=120)

    def _figures(self) -> Iterator[tuple[str, Figure]]:
        folders: dict[Mode, str] = {"train": "", "eval": "evaluation/"}
        for mode, folder in folders.items():
            of_mode = self._records.select(mode=mode)
            modules: dict[str, list[str]] = {}
            for (module, quantity), values in of_mode.series().items():
                last = next(reversed(values.values()))
                if number(last) is not None:
                    modules.setdefault(quantity, []).append(module)
                elif isinstance(last, Tensor) and last.ndim == 1 and last.numel() > 1:
                    name = f"{folder}{safe(quantity)}.{safe(module or 'model')}.spectra"
                    yield name, spectra(of_mode, quantity, module, mode=mode)
            for quantity, of_quantity in modules.items():
                yield f"{folder}{safe(quantity)}.curves", curves(of_mode, quantity, mode=mode)
                if len(of_quantity) > 1:
                    yield f"{folder}{safe(quantity)}.heatmap", heatmap(of_mode, quantity, mode=mode)
        for quantity in dict.fromkeys(summary.quantity for summary in self._epochs):
            yield f"{safe(quantity)}.bands", bands(self._epochs, quantity)
