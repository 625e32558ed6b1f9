"""The ring: one small tensor of statistics of each of the last steps, on its device."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from taiyi_fx.outline.order import places_of_outputs
from taiyi_fx.passes.ir import Due, Numbers, Reading, State
from taiyi_fx.passes.probes.slots import Slot, in_tensors, stacked
from taiyi_fx.passes.probes.table import SlotTable
from taiyi_fx.recorder.sites import RECORDED
from taiyi_fx.reductions.summary import Summary
from taiyi_fx.reductions.sums import wide
from taiyi_fx.runs.recording import STATISTICS, RecordedSite, Recording
from taiyi_fx.warning import WarnOnce

_SUMMARY = Summary()


class _Row(NamedTuple):
    """The statistics of a step.

    Attributes:
        step: The step.
        sites: All sites that were known then.
        parts: For each device the places of its sites among them, and their statistics.
    """

    step: int
    sites: Sequence[RecordedSite]
    parts: list[tuple[list[int], Tensor]]


class Ring:
    """Keeps the statistics of the last steps, each as one small tensor on the device.

    Args:
        table: The slots of the model.
        steps: The number of steps that are kept.
        every: Every so many steps one is recorded.
        strict: Raise what goes wrong.

    Attributes:
        readings: The readings to make at a step that is recorded.
    """

    def __init__(self, table: SlotTable, steps: int, every: int, *, strict: bool = False) -> None:
        self._table, self._every, self._strict = table, every, strict
        self._warn = WarnOnce()
        self._rows: deque[_Row] = deque(maxlen=steps)
        self._known: tuple[int, list[RecordedSite], list[tuple[Slot, bool]]] = -1, [], []
        self.readings: Due = frozenset(
            (name, reading)
            for name, target in table.plan.items()
            for reading in RECORDED
            if reading in target.readings
        )

    def is_due(self, step: int) -> bool:
        """True if a step is recorded."""
        return step % self._every == 0

    def take(self, step: int, factor: Callable[[Reading], float]) -> None:
        """Takes the statistics of a step; whatever fails, training and its records go on.

        Args:
            step: The step.
            factor: Gives the factor that takes the loss scale out of a reading.

        Raises:
            Exception: Whatever goes wrong, if strict.
        """
        try:
            with torch.no_grad():
                self._take(step, factor)
        except Exception as error:
            if self._strict:
                raise
            text = f"step {step} is not among the last steps that are kept: "
            self._warn.of("take", f"{text}{type(error).__name__}: {error}")

    def _take(self, step: int, factor: Callable[[Reading], float]) -> None:
        self._table.measure()
        for some in self._table.board.held.measured:
            if some.of.reduction == _SUMMARY:
                some.fold()
        sites, slots = self._sites()
        factors = [factor(reading) for reading in RECORDED]  # of values, and of gradients
        found = [
            (i, slot.found, factors[is_gradient])
            for i, (slot, is_gradient) in enumerate(slots)
            if slot.found is not None
        ]
        self._rows.append(_Row(step, sites, _parts(found)))

    def clear(self) -> None:
        """Drops all steps."""
        self._rows.clear()

    def recording(self, reasons: Sequence[str], rank: int) -> Recording:
        """A recording of the steps so far; waits for the device."""
        rows = [*self._rows]
        names = list(dict.fromkeys(site for row in rows for site in row.sites))
        order = places_of_outputs(self._table.plan)
        names.sort(key=lambda s: (s.place == "output_grad", order[s.module.partition("@")[0]]))
        places = {site: i for i, site in enumerate(names)}
        values = np.full((len(rows), len(names), len(STATISTICS)), np.nan)
        for row, into in zip(rows, values, strict=True):
            _fill(into, row, places)
        steps = tuple(row.step for row in rows)
        return Recording(tuple(reasons), steps, tuple(names), values, rank)

    def _sites(self) -> tuple[list[RecordedSite], list[tuple[Slot, bool]]]:
        """All sites, and for each its slot, and True if that is of a gradient."""
        version = self._table.version
        if self._known[0] != version:
            every = [
                (RecordedSite(module + (f"@{call}" if call else ""), reading.site.port), (slot, i))
                for i, reading in enumerate(RECORDED)
                for mode, module, call, slot in self._table.of(reading)
                if mode == "train"
            ]
            slots = [(slot, bool(i)) for _, (slot, i) in every]
            self._known = version, [site for site, _ in every], slots
        return self._known[1], self._known[2]


def _parts(found: Sequence[tuple[int, State | Numbers, float]]) -> list[tuple[list[int], Tensor]]:
    """The statistics of sites, for each device as one tensor, with their places."""
    numbers: list[tuple[int, Numbers, float]] = []
    tensors: dict[torch.device, list[tuple[int, State, float]]] = {}
    for place, state, factor in found:
        if Tensor in map(type, state):
            found_state = in_tensors(state)
            tensors.setdefault(found_state[1].device, []).append((place, found_state, factor))
        else:
            numbers.append((place, state, factor))  # pyright: ignore[reportArgumentType]
    parts = [_of_tensors(some) for some in tensors.values()]
    return [*parts, _of_numbers(numbers)] if numbers else parts


def _of_numbers(some: Sequence[tuple[int, Numbers, float]]) -> tuple[list[int], Tensor]:
    # A few hundred numbers take less time here than as vectors of torch.
    rows = [
        (norm, total / n if n else np.nan, most, bad)
        if f == 1.0
        else (norm * abs(f), total * f / n if n else np.nan, most * abs(f), bad)
        for _, (n, total, norm, most, bad), f in some
    ]
    return [place for place, _, _ in some], torch.from_numpy(np.array(rows, dtype=np.float64))


def _of_tensors(some: Sequence[tuple[int, State, float]]) -> tuple[list[int], Tensor]:
    states = stacked([state for _, state, _ in some])
    kind = wide(states[1].device)
    factors = [factor for _, _, factor in some]
    if any(factor != 1.0 for factor in factors):
        n, total, norm, most, bad = states
        by = torch.tensor(factors, dtype=kind, device=total.device)
        states = n, total * by, norm * by.abs(), most * by.abs(), bad
    rows = torch.stack([part.to(kind) for part in _SUMMARY.finish(states)], 1)
    return [place for place, _, _ in some], rows


def _fill(into: NDArray[np.float64], row: _Row, places: Mapping[RecordedSite, int]) -> None:
    """Puts the statistics of a step where their sites are."""
    for within, rows in row.parts:
        into[[places[row.sites[i]] for i in within]] = rows.cpu().numpy()
