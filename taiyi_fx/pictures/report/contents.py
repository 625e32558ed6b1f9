"""The contents of a report for one run: its entry in the header, and its chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from taiyi_fx.outline.items import Outline
from taiyi_fx.pictures.report.chunks import (
    LONGEST_VECTOR,
    Chunk,
    numbers_chunk,
    tensors_chunk,
    width_for,
)
from taiyi_fx.pictures.report.finding_entries import seen_in
from taiyi_fx.pictures.report.gathered import Gathered, Group
from taiyi_fx.pictures.report.header import numbers_entries, run_entry, tensors_entry
from taiyi_fx.pictures.report.readout import Described, Readout
from taiyi_fx.pictures.report.thin import Thinning

NUMBERS_BUDGET = 6_000_000
"""Bytes of all numbers of a report before compression: at most some 8 MB of its text."""

TENSORS_BUDGET = 2_400_000
"""Bytes of all vectors of a report before compression: at most some 3 MB of its text."""

_BYTES = 4

Choose: TypeAlias = Callable[[int, Sequence[int], int], list[int]]
"""Takes a series, its steps, and how many of them are wanted, to as many steps."""


class Contents(NamedTuple):
    """A run in a report.

    Attributes:
        entry: Its entry in the header.
        chunks: Its numbers and vectors, in the order of the entry.
        outline: The outline of its model; None if it is not known.
    """

    entry: dict[str, Any]
    chunks: list[Chunk]
    outline: Outline | None


def contents(name: str, readout: Readout, first: int = 0, share: int = 1) -> Contents:
    """The contents of a report for one run.

    Args:
        name: The run's name.
        readout: The source of its data.
        first: The id of its first chunk.
        share: The number of runs in the report, which share its budgets.
    """
    about = readout.about()
    gathered = Gathered()
    gathered.update(readout)
    series: list[dict[str, Any]] = []
    chunks: list[Chunk] = []
    width = width_for(gathered.groups, NUMBERS_BUDGET // share)
    for group in gathered.groups:
        order = in_order(group.series, gathered.series, about.outline)
        numbers = group.numbers(order)
        rows = [gathered.series[i] for i in order]
        series += numbers_entries(rows, numbers, len(chunks))
        chunks.append(
            numbers_chunk(entry_of(group, first + len(chunks)), numbers, group.kind, width)
        )
    shapes = readout.shapes()
    choose = chooser(Thinning(), readout, gathered.series)
    kept = kept_steps(shapes, TENSORS_BUDGET // share, choose)
    for i, steps in kept.items():
        one = gathered.series[i]
        entry = {"id": first + len(chunks), **named(one)}
        series.append(tensors_entry(one, list(shapes[i]), len(chunks)))
        chunks.append(tensors_chunk(entry, readout.tensors(i, steps), one.unit))
    entries = [chunk.entry for chunk in chunks]
    left_out = len(shapes) - len(kept)
    entry = run_entry(name, about, series, entries, left_out, seen_in(gathered, about))
    return Contents(entry, chunks, about.outline)


def entry_of(group: Group, number: int) -> dict[str, Any]:
    """The fields of a chunk's entry that are known before its numbers are downsampled."""
    return {"id": number, **group.name._asdict()}


def named(one: Described) -> dict[str, str]:
    """The quantity and the mode of a series."""
    return {"quantity": one.name.quantity, "mode": one.name.mode}


def in_order(
    ids: Iterable[int], series: Mapping[int, Described], outline: Outline | None
) -> list[int]:
    """Series in the order in which their modules are executed, the model's own first.

    Without an outline they stay in the order of their first number.
    """
    items = outline.items if outline else ()
    places = {item.module: place for place, item in reversed([*enumerate(items)])}
    return sorted(ids, key=lambda i: places.get(series[i].name.module, len(items)) if places else 0)


def chooser(thinning: Thinning, readout: Readout, series: Mapping[int, Described]) -> Choose:
    """Chooses by the vectors themselves, which a source reads.

    Args:
        thinning: What is known of vectors that were read already.
        readout: The source.
        series: The descriptions of all series.
    """

    def choose(one: int, steps: Sequence[int], many: int) -> list[int]:
        return thinning.chosen(readout.tensors, one, steps, many, series[one].unit)

    return choose


def kept_steps(
    shapes: Mapping[int, Mapping[int, tuple[int, ...]]], budget: int, choose: Choose
) -> dict[int, list[int]]:
    """The steps to show of each series of vectors: all, or as many as fit, those that tell most.

    Left out are images, vectors that are too long, and all series after twice the budget.

    Args:
        shapes: Shapes of tensors, by series and step.
        budget: Bytes for all series together.
        choose: Chooses so many of a series' steps.
    """
    longest = {i: max(map(_length, found.values())) for i, found in shapes.items()}
    vectors = {i: found for i, found in shapes.items() if longest[i] <= LONGEST_VECTOR}
    kept: dict[int, list[int]] = {}
    used = 0
    for i, found in vectors.items():
        size = _BYTES * max(longest[i], 1)
        many = max(1, min(len(found), budget // len(vectors) // size))
        used += many * size
        if used <= 2 * budget:
            kept[i] = choose(i, sorted(found), many)
    return kept


def _length(shape: Sequence[int]) -> int:
    """The number of elements of a vector; for an image, more than any vector may have."""
    return (shape[0] if shape else 1) if len(shape) < 2 else LONGEST_VECTOR + 1
