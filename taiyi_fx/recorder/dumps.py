"""The dumps of a ring: where recordings are written, and when."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from torch import distributed as dist

from taiyi_fx.recorder.ring import Ring
from taiyi_fx.runs.recording import Recording, file_of, files_in, step_of
from taiyi_fx.warning import WarnOnce, warn
from taiyi_fx.writers.folder import folder_of_rank


class Dumps:
    """Makes recordings of a ring, and writes them into the folder of a run.

    Args:
        ring: The ring.
        folder: The run's folder; None keeps the last recording in memory alone.

    Attributes:
        last: The last recording; None before the first.
    """

    def __init__(self, ring: Ring, folder: Path | None) -> None:
        self.last: Recording | None = None
        self._ring, self._folder = ring, folder
        self._warn = WarnOnce()

    def drop_from(self, step: int) -> None:
        """Deletes the run's recordings of this rank that end at a step or later."""
        try:
            folder = self._own_folder()
            for file in files_in(folder) if folder is not None else ():
                if file.parent == folder and step_of(file) >= step:
                    file.unlink(missing_ok=True)
        except OSError as error:
            warn(
                f"recordings of steps from {step} on, which are no longer the run's, stay: {error}"
            )

    def dump(self, reason: str, path: Path | None = None) -> Recording:
        """Makes a recording, and writes it to a path, else into the run.

        Raises:
            OSError: It cannot be written; it is kept in memory.
        """
        rank = dist.get_rank() if dist.is_initialized() else 0
        made = self._ring.recording([reason], rank)
        if self.last is not None and self.last.step == made.step:
            made = replace(made, reasons=tuple(dict.fromkeys([*self.last.reasons, reason])))
        self.last = made
        folder = self._own_folder()
        if path is not None:
            made.write(path)
        elif folder is not None and made.step is not None:
            made.write(file_of(folder, made.step))
        return made

    def dump_of_itself(self, reason: str, *, is_quiet: bool = False) -> Recording | None:
        """The same without being asked for: what fails is told, and nothing more.

        Args:
            reason: The reason.
            is_quiet: Say nothing where it goes well, as another rank says it.
        """
        try:
            made = self.dump(reason)
        except Exception as error:  # noqa: BLE001 - training goes on, or ends in its own way
            why = f"{type(error).__name__}: {error}"
            text = "the last steps could not be written, and are in memory alone, as recorder.last"
            self._warn.of("writing", f"{text}: {why}")
            return self.last
        if made.step is None or is_quiet:
            return made
        where = "the run, and on its page"
        if self._folder is None:
            where = "memory alone, as recorder.last: give instrument a folder as run="
        warn(f"recorded: {made.summary}. They are in {where}")
        return made

    def _own_folder(self) -> Path | None:
        rank = dist.get_rank() if dist.is_initialized() else 0
        return None if self._folder is None else folder_of_rank(self._folder, rank)
