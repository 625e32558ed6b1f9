"""A recording: the statistics of every site at the last steps of a training, and its file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from taiyi_fx.atomic_write import atomic_write
from taiyi_fx.records.json_number import json_number
from taiyi_fx.records.table import as_html, as_table
from taiyi_fx.runs.damage import reading
from taiyi_fx.runs.part import parts_of
from taiyi_fx.suggestion import suggestion

STATISTICS = ("norm", "mean", "abs_max", "non_finite")
"""The statistics of a site, in their order."""

_VERSION = 1
_NAME = "recording-{:08}.json"
_HEAD = ("module", "place", *STATISTICS)


class RecordedSite(NamedTuple):
    """A place where a tensor was read.

    Attributes:
        module: The module's name, ``"fc@1"`` for its second call in a forward.
        place: ``"output"``, or ``"output_grad"`` for the gradient of that.
    """

    module: str
    place: str


class SiteStatistics(NamedTuple):
    """The statistics of a tensor.

    Attributes:
        norm: The Euclidean norm of the elements that are finite.
        mean: The mean of them; NaN where there are none.
        abs_max: The largest magnitude of them.
        non_finite: The number of the other elements.
    """

    norm: float
    mean: float
    abs_max: float
    non_finite: int


@dataclass(frozen=True)
class Recording:
    """The last steps of a training, as a recorder kept them.

    Attributes:
        reasons: The reasons why it was written: a finding, an error, a signal.
        steps: The steps, ascending.
        sites: The sites, in the order of the model's modules.
        values: Float64: step by site by `STATISTICS`; NaN where nothing was read.
        rank: The rank that it is of.
    """

    reasons: tuple[str, ...]
    steps: tuple[int, ...]
    sites: tuple[RecordedSite, ...]
    values: NDArray[np.float64] = field(repr=False)
    rank: int = 0

    @property
    def step(self) -> int | None:
        """The last step; None if there is none."""
        return self.steps[-1] if self.steps else None

    def of(self, module: str, place: str = "output") -> dict[int, SiteStatistics]:
        """The statistics of one site, by step.

        Raises:
            LookupError: There is no such site.
        """
        site = RecordedSite(module, place)
        if site not in self.sites:
            known = [one.module for one in self.sites if one.place == place]
            raise LookupError(
                f"no {place!r} of {module!r} was recorded.{suggestion(module, known)}"
            )
        rows = self.values[:, self.sites.index(site)].tolist()
        return {
            step: _statistics(row)
            for step, row in zip(self.steps, rows, strict=True)
            if _is_read(row)
        }

    @property
    def first_non_finite(self) -> tuple[int, RecordedSite] | None:
        """The first step with NaN or Inf, and the first site there; None if all is finite.

        Values come before gradients, and these in the order of backward.
        """
        counts = np.nan_to_num(self.values[:, :, STATISTICS.index("non_finite")])
        if not counts.any():
            return None
        row = int(np.argmax(counts.any(1)))
        bad = np.flatnonzero(counts[row]).tolist()
        forward = [i for i in bad if self.sites[i].place != "output_grad"]
        first = forward[0] if forward else self._innermost(self.values[row], bad)
        return self.steps[row], self.sites[first]

    @property
    def summary(self) -> str:
        """Its contents in a sentence: the first NaN or Inf, where there is one."""
        steps = "step" if len(self.steps) == 1 else f"{len(self.steps)} steps"
        text = f"the last {steps} of {len(self.sites)} sites"
        if self.first_non_finite is None:
            return f"{text}, all finite"
        step, site = self.first_non_finite
        what = "output" if site.place == "output" else "gradient of the output"
        of = repr(site.module) if site.module else "the model itself"
        return f"{text}; NaN or Inf is first at step {step}, in the {what} of {of}"

    def _innermost(self, values: NDArray[np.float64], bad: Sequence[int]) -> int:
        """The last of some sites, or the part of that module that made the same tensor."""
        *others, found = bad
        for i in reversed(others):
            module, part = self.sites[found].module, self.sites[i].module
            is_part = not module or part.startswith(f"{module}.")
            if not is_part or not np.array_equal(values[i], values[found], equal_nan=True):
                break
            found = i
        return found

    def write(self, file: Path) -> None:
        """Writes it as JSON, whole or not at all.

        Raises:
            OSError: The file cannot be written.
        """
        with atomic_write(file) as part:
            part.write_text(json.dumps(self.to_json(), allow_nan=False), encoding="utf-8")

    def to_json(self) -> dict[str, Any]:
        """The contents of its file; numbers have seven digits."""
        return {
            "version": _VERSION,
            "rank": self.rank,
            "reasons": list(self.reasons),
            "statistics": list(STATISTICS),
            "steps": list(self.steps),
            "sites": [list(site) for site in self.sites],
            "values": [[[*map(_shortened, row)] for row in rows] for rows in self.values.tolist()],
        }

    def __str__(self) -> str:
        return as_table(_HEAD, list(self._rows()))

    def _repr_html_(self) -> str:
        return as_html(repr(self), _HEAD, list(self._rows()))

    def _rows(self) -> Iterator[tuple[str, ...]]:
        """The sites at the last step."""
        if self.steps:
            for site, row in zip(self.sites, self.values[-1].tolist(), strict=True):
                yield *site, *(f"{x:.4g}" for x in row)


def read_recording(file: Path) -> Recording:
    """The recording in a file.

    Raises:
        OSError: It cannot be read.
        ValueError: It is damaged, or of a newer taiyi_fx.
    """
    with reading(file):
        found = json.loads(file.read_text(encoding="utf-8"))
        if found["version"] > _VERSION:
            raise ValueError(f"{str(file)!r} was written by a newer taiyi_fx: update it")
        steps, sites = found["steps"], tuple(RecordedSite(*site) for site in found["sites"])
        values = np.array(found["values"], float).reshape(len(steps), len(sites), len(STATISTICS))
        return Recording(tuple(found["reasons"]), tuple(steps), sites, values, found["rank"])


def recordings_in(folder: Path) -> list[Recording]:
    """The recordings of a run, of all ranks and parts, in the order of their last steps.

    Modules of a part with a name have the name in front, as in `Run`.

    Raises:
        OSError: One cannot be read.
        ValueError: One is damaged.
    """
    found = [read_recording(file) for file in files_in(folder)]
    for part in parts_of(folder):
        if part.name:
            found += [_named(read_recording(file), part.name) for file in files_in(part.folder)]
    return sorted(found, key=lambda one: (-1 if one.step is None else one.step, one.rank))


def stamps_in(folder: Path) -> tuple[tuple[str, int, int], ...]:
    """The recordings of a run as they are known without reading them: another one if any changed.

    Raises:
        OSError: A folder cannot be read.
    """
    folders = (folder, *(part.folder for part in parts_of(folder)))
    known = {file: file.stat() for each in folders for file in files_in(each)}
    return tuple((str(file), at.st_mtime_ns, at.st_size) for file, at in known.items())


def files_in(folder: Path) -> Sequence[Path]:
    """The files of recordings in the folder of a run, and in those of its ranks."""
    pattern = _NAME.format(0).replace("0" * 8, "*[0-9]")
    return sorted([*folder.glob(pattern), *folder.glob(f"rank*/{pattern}")])


def _named(recording: Recording, part: str) -> Recording:
    sites = (site._replace(module=f"{part}.{site.module}".rstrip(".")) for site in recording.sites)
    return replace(recording, sites=tuple(sites))


def file_of(folder: Path, step: int) -> Path:
    """The file of a recording whose last step this is."""
    return folder / _NAME.format(step)


def step_of(file: Path) -> int:
    """The last step of the recording in a file, by its name."""
    return int(file.stem.rpartition("-")[2])


def _is_read(row: Sequence[float]) -> bool:
    return row[-1] == row[-1]  # the count is NaN where nothing was read


def _statistics(row: Sequence[float]) -> SiteStatistics:
    norm, mean, abs_max, count = row
    return SiteStatistics(norm, mean, abs_max, int(count))


def _shortened(x: float) -> float | str:
    if x.is_integer() and abs(x) < 2**53:
        return int(x)
    return json_number(float(f"{x:.7g}"))
