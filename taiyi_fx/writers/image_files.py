"""Pictures of feature maps and kernels, as files."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

from taiyi_fx.quantities.stock.images import IMAGES
from taiyi_fx.writers.names import EVALUATION, safe
from taiyi_fx.writers.png import png
from taiyi_fx.writers.protocol import Batch, RunInfo
from taiyi_fx.writers.values import as_image


class Images:
    """Writes each picture to a PNG file, ``<quantity>/<module>/<step>.png``.

    Pictures of evaluation are in the folder ``evaluation``. In a name that no
    folder can have, ``_`` replaces such characters, and a hash ends it. NaN and Inf are orange.

    Args:
        path: The folder.
        images: The quantities whose tensors of two axes are pictures.
    """

    def __init__(self, path: str | os.PathLike[str], *, images: Collection[str] = IMAGES) -> None:
        self._path = Path(path)
        self._images = frozenset(images)

    def open(self, run: RunInfo) -> None:
        """Makes the folder, and deletes its pictures of the first step and of later ones."""
        self._path.mkdir(parents=True, exist_ok=True)
        for folder in (self._path, self._path / EVALUATION):
            of_quantities = (folder / safe(name) for name in self._images)
            for file in (file for place in of_quantities for file in place.glob("*/*.png")):
                if file.stem.isdecimal() and int(file.stem) >= run.start_step:
                    file.unlink()

    def write(self, batch: Batch) -> None:
        """Writes the pictures of a batch."""
        for record in batch.records:
            picture = as_image(record, self._images)
            if picture is None:
                continue
            folder = self._path / (EVALUATION if record.mode == "eval" else "")
            folder = folder / safe(record.quantity) / safe(record.module or "model")
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{record.step:08}.png").write_bytes(png(picture))

    def flush(self) -> None:
        """Does nothing: files are written at once."""

    def close(self) -> None:
        """Does nothing: files are written at once."""
