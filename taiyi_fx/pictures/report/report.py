"""The report of a run as one HTML file, which needs no network."""

from __future__ import annotations

import itertools
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from taiyi_fx.atomic_write import atomic_write, check_place
from taiyi_fx.pictures.report.aligned import Modules, aligned, are_alike
from taiyi_fx.pictures.report.contents import Contents, contents
from taiyi_fx.pictures.report.differences import differences, sizes
from taiyi_fx.pictures.report.header import at_first, header
from taiyi_fx.pictures.report.page import assemble
from taiyi_fx.pictures.report.readout import MonitorReadout, Readout, RunReadout
from taiyi_fx.pictures.report.recorded import WithRecordings
from taiyi_fx.pictures.report.shown import ReportFile
from taiyi_fx.runs.opening import open_run
from taiyi_fx.runs.recording import Recording
from taiyi_fx.runs.run import Run

if TYPE_CHECKING:
    from taiyi_fx.instrumented import InstrumentedModule
    from taiyi_fx.monitor import Monitor

Reported: TypeAlias = "Run | str | os.PathLike[str] | Monitor | InstrumentedModule"
"""The sources that a report can be made from."""


def report(
    source: Reported | Sequence[Reported],
    *more: Reported | Sequence[Reported],
    path: str | os.PathLike[str] | None = None,
    compare: Reported | Sequence[Reported] | None = None,
    title: str | None = None,
) -> Path:
    """Writes a page with the records of a run, as one file to open in a browser.

    The file holds its scripts and its data, and loads nothing. It is written whole or not at all,
    and replaces an older one. Numbers are float32, or float64 if float32 has not their range. More
    than some 1.5 million numbers are downsampled: the page then has the mean, the smallest and the
    largest of each stretch of steps, the same stretches for all series. Images, and vectors of
    more than 4,096 elements, are left out; of many vectors, some steps are shown.

    Several runs stand side by side, each compared with the first: ``report(a, b, c, "all.html")``.
    Modules of different models are aligned by name, and by structure where names differ. A list of
    runs is a group, as of one training with several seeds: what differs more between groups than
    within them comes first on the page.

    Args:
        source: A run or its folder; or a monitor or an instrumented model, for the records in
            memory; or a list of these.
        more: Further runs, and last the file, unless it is given as ``path``.
        path: The file, such as ``"run.html"``.
        compare: Another run, or several, to show beside it.
        title: The page's title; by default the name of the run's folder.

    Returns:
        The file's path, which a notebook shows as the page.

    Raises:
        FileNotFoundError: There is no run in a folder, or no folder to write in.
        ImportError: A run is in Parquet, and pyarrow is not installed.
        OSError: A run cannot be read, or the file cannot be written, or is a device.
        TypeError: A source is of another type, or the path or the title is not a string.
        ValueError: A run is damaged, or written by a newer taiyi_fx; or the path is empty, a
            folder, or does not end in .html.
    """
    *others, place = (*more,) if path is None and more else (*more, path)
    file = _file(place)
    if not isinstance(title, str | None):
        raise TypeError(f"title is a text, not {title!r}")
    with ExitStack() as opened:
        groups = [_several(each) for each in (source, *others, *_several(compare))]
        every = [opened.enter_context(_opened(each)) for group in groups for each in group]
        named = _told_apart(every)
        found = _contents(named)
    heading = title if title is not None else " · ".join(name for name, _ in named)
    graph = at_first(found[0].outline, found[0].entry)
    head = header(heading, [each.entry for each in found], graph, None)
    head["differences"] = _differences(found, [len(group) for group in groups])
    texts = ((c.entry["id"], c.text()) for each in found for c in each.chunks)
    with atomic_write(file) as part:
        text = assemble(head, texts).text
        part.write_text(text, encoding="utf-8", errors="backslashreplace", newline="\n")
    return ReportFile(file)


def _several(given: Reported | Sequence[Reported] | None) -> Sequence[Reported]:
    """The runs of a group, of one run, or of none."""
    if given is None:
        return []
    return given if isinstance(given, (list, tuple)) else [cast("Reported", given)]


def _told_apart(named: Sequence[tuple[str, Readout]]) -> list[tuple[str, Readout]]:
    """The runs, whose names have a number where they come again, as those of classes may."""
    counts, found = Counter[str](), list[tuple[str, Readout]]()
    for name, readout in named:
        counts[name] += 1
        found.append((f"{name} {counts[name]}" if counts[name] > 1 else name, readout))
    return found


def _differences(found: Sequence[Contents], counts: Sequence[int]) -> list[dict[str, Any]]:
    """The differences between groups of so many runs, for the header.

    None to a model of another kind, as a discriminator beside its generator is.
    """
    if len(counts) < 2:
        return []
    first = _modules(found[0])
    every = iter(
        sizes(one.entry["series"], one.chunks) if are_alike(first, _modules(one)) else {}
        for one in found
    )
    groups = [list(itertools.islice(every, count)) for count in counts]
    return [one._asdict() for one in differences(groups)]


def _file(path: object) -> Path:
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"path is the file to write, such as 'run.html', not {path!r}")
    file = Path(path)
    if not os.fspath(path) or file.is_dir():
        raise ValueError(f"{str(path)!r} is not a file to write: give one, such as 'run.html'")
    if file.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"{file.name!r} should end in .html: a report is a page")
    check_place(file)
    return file


def _contents(named: list[tuple[str, Readout]]) -> list[Contents]:
    found: list[Contents] = []
    for name, readout in named:
        first = sum(len(before.chunks) for before in found)
        found.append(contents(name, readout, first, len(named)))
    return [found[0], *(_beside(found[0], other) for other in found[1:])]


def _beside(first: Contents, other: Contents) -> Contents:
    """A run whose series know the modules of the first run that they are like."""
    like = aligned(_modules(first), _modules(other))
    series = [
        {**one, "aligned": like[one["module"]]} if one["module"] in like else one
        for one in other.entry["series"]
    ]
    return other._replace(entry={**other.entry, "series": series})


def _modules(found: Contents) -> Modules:
    """The modules of a run that have records, in the order of execution where it is known."""
    names = (one["module"] for one in found.entry["series"] if one["module"])
    return Modules.of(names, found.outline)


@contextmanager
def _opened(source: Reported) -> Iterator[tuple[str, Readout]]:
    """The name of a source, and its readout."""
    if isinstance(source, Run):
        yield source.path.name, _of_run(source)
    elif isinstance(source, (str, os.PathLike)):
        with open_run(source) as run:
            yield run.path.name, _of_run(run)
    else:
        monitor = _monitor(source)
        last = None if monitor.recorder is None else monitor.recorder.last
        readout = _with(MonitorReadout(monitor), [] if last is None else [last])
        yield monitor.info.model.rpartition(".")[2], readout


def _of_run(run: Run) -> Readout:
    return _with(RunReadout(run), run.recordings)


def _with(readout: Readout, recordings: Sequence[Recording]) -> Readout:
    return WithRecordings(readout, recordings) if recordings else readout


def _monitor(source: object) -> Monitor:
    from taiyi_fx.instrumented import InstrumentedModule, monitor_of
    from taiyi_fx.monitor import Monitor

    monitor = monitor_of(source) if isinstance(source, InstrumentedModule) else source
    if not isinstance(monitor, Monitor):
        raise TypeError(
            "a report is made of a run, its folder, a monitor or what taiyi_fx.instrument "
            f"returned, not of a {type(source).__name__}"
        )
    return monitor
