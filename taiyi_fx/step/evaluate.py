"""Evaluation of quantities from statistics, in the order of steps."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from taiyi_fx.config.subscriptions import Subscription
from taiyi_fx.passes.ir import CALL_PORTS, Mode, capabilities
from taiyi_fx.passes.note import add_note
from taiyi_fx.passes.probes.slots import in_tensors, stacked
from taiyi_fx.quantities.declare import Defined, NoValue
from taiyi_fx.records.record import Block, Series
from taiyi_fx.step.host import beside, device_of
from taiyi_fx.step.transfer import Column, Outcome, Transfer, parts_of
from taiyi_fx.step.vectorized import attempted, in_batches
from taiyi_fx.step.work import Batch, Statistic, Work

LARGE = 2**14
"""The size above which statistics are not batched: copying them takes longer than the calls that a
batch saves."""


_series_of = operator.attrgetter("series")


class Finished:
    """A cache of finished values: equal readings of one state are finished once."""

    def __init__(self) -> None:
        self._values: dict[Hashable, tuple[Any, Any]] = {}

    def of(self, statistics: Sequence[Statistic], device: torch.device | None = None) -> Any:
        """The finished value of one statistic, or of several of one kind, stacked.

        Args:
            statistics: The statistics.
            device: Where numbers of Python have to be; None on the host.
        """
        # Probes that were fused fold the same state into each of their slots.
        key = tuple([id(s.state) for s in statistics]), statistics[0].factor, device
        if key not in self._values:
            first, *others = statistics
            if others:
                first = first._replace(state=stacked([s.state for s in statistics]))
            if device is not None:
                state = tuple([beside(x, device) for x in in_tensors(first.state)])
                first = first._replace(state=state)
            self._values[key] = statistics, first.finished()
        return self._values[key][1]


class Evaluator:
    """Computes quantities; keeps the readings that quantities over several steps need."""

    def __init__(self, *, strict: bool) -> None:
        self._strict = strict
        self._windows: dict[tuple[Subscription, Mode, int], list[dict[str, Any]]] = {}
        self._previous: dict[tuple[Subscription, Mode, int, str], list[Any]] = {}

    def clear(self) -> None:
        """Drops the readings of earlier steps."""
        self._windows.clear()
        self._previous.clear()

    def start(
        self,
        step: int,
        works: Sequence[Work],
        also: Sequence[Column] = (),
        known: Sequence[Block] = (),
        batches: Sequence[Batch] = (),
    ) -> Transfer:
        """Computes all work and sends the values to the host.

        Call under `torch.no_grad()`.

        Args:
            step: The step.
            works: The work.
            also: Other values that go to the host.
            known: Numbers that are on the host already, of whole series.
            batches: Work whose statistics are stacked.

        Raises:
            Exception: Any that a quantity raised, if strict.
        """
        outcome, columns = Outcome([*zip(map(_series_of, known), known, strict=True)]), list(also)
        if works or batches:
            columns += self._columns(step, works, batches, outcome)
        return Transfer(outcome, columns, strict=self._strict)

    @torch.no_grad()
    def run(self, step: int, works: Sequence[Work], batches: Sequence[Batch] = ()) -> Outcome:
        """Computes all work and waits for the values.

        Raises:
            Exception: Any that a quantity raised, if strict.
        """
        return self.start(step, works, batches=batches).outcome()

    def _columns(
        self, step: int, works: Sequence[Work], batches: Sequence[Batch], outcome: Outcome
    ) -> list[Column]:
        """The values of all work; the outcome gets the reasons for those that are missing."""
        finished, columns = Finished(), list[Column]()
        for batch in batches:
            found = attempted(functools.partial(_computed_stacked, step, finished), batch)
            if found is None:  # computing each alone shows which one failed
                works = [*works, *batch.apart()]
            else:
                columns += found
        done, alone = in_batches(
            works, _kind, lambda batch: _computed_together(step, batch, finished)
        )
        columns += (column for _, found in done for column in found)
        for work in alone:
            make = functools.partial(self._computed, step, work, finished)
            columns += self._guarded(work.series, make, outcome)
        for series, together in _over_all(works).items():
            make = functools.partial(_computed_over_all, step, together, finished)
            columns += self._guarded(series, make, outcome)
        return columns

    def _guarded(
        self, series: Series, make: Callable[[], Iterator[Column]], outcome: Outcome
    ) -> list[Column]:
        try:
            return list(make())
        except NoValue as why:
            outcome.reasons[series] = str(why)
        except Exception as error:  # Monitoring never ends a run: reported by name.
            if self._strict:
                add_note(error, f"while computing {series[1]} of {series[0]!r}")
                raise
            outcome.failures[series] = f"{type(error).__name__}: {error}"
        return []

    def _computed(self, step: int, work: Work, finished: Finished) -> Iterator[Column]:
        quantity = work.asked.quantity
        if work.statistics is None:
            self._forget(work)
            return
        device = _device_of(work.statistics.values())
        inputs = {name: finished.of([found], device) for name, found in work.statistics.items()}
        if quantity.window:
            inputs = self._windowed(work, inputs)
        if not work.is_emitted:
            return
        for name, source in quantity.sources.items():
            if source.ago:
                inputs[name] = self._earlier(work, name, source.ago, inputs[name])
        computed = quantity.compute(**inputs, **work.asked.arguments)
        yield from _columns_of_one(computed, step, work, work.series)

    def _earlier(self, work: Work, name: str, ago: int, now: Any) -> Any:
        """The value of a reading some due steps before; None until there were as many."""
        key = work.asked, work.mode, work.call, name
        kept = self._previous.setdefault(key, [])
        kept.append(now)
        return kept.pop(0) if len(kept) > ago else None

    def _forget(self, work: Work) -> None:
        """Drops the previous values: they are no longer those of the last due step."""
        for name in work.asked.quantity.sources:
            self._previous.pop((work.asked, work.mode, work.call, name), None)

    def _windowed(self, work: Work, inputs: dict[str, Any]) -> dict[str, Any]:
        """Adds this step to the window; when a value is due, returns its readings joined."""
        key = work.asked, work.mode, work.call
        window = self._windows.setdefault(key, [])
        sources = work.asked.quantity.sources
        window.append({k: v for k, v in inputs.items() if sources[k].port in CALL_PORTS})
        if not work.is_emitted:
            return inputs
        del self._windows[key]  # even if the computation fails, the next window is new
        readings = work.asked.readings
        joined = {
            name: _joined([step[name] for step in window], readings[name].reduction)
            for name in window[0]
        }
        return {**inputs, **joined}


def group_of(work: Work) -> Hashable:
    """The key of works that a batched quantity can compute in one call; None for work alone."""
    asked = work.asked
    if not asked.quantity.batched or not work.is_emitted:
        return None
    options = tuple((k, v) for k, v in asked.options if k in asked.arguments)
    readings = tuple((name, r.site.port, r.reduction) for name, r in asked.readings.items())
    return asked.quantity, options, readings, work.mode


def columns_of_many(
    computed: Any, step: int, works: Sequence[Work], series: tuple[Series, ...]
) -> list[Column] | None:
    """The columns of a batched quantity; None if it did not return one number for each work."""
    parts = {"": computed} if isinstance(computed, (Tensor, Defined)) else computed
    columns: list[Column] = []
    for suffix, part in parts.items():
        numbers, has_value, why = _split(part) if isinstance(part, Defined) else (part, None, "")
        if numbers.shape != (len(works),) or numbers.is_complex():
            return None
        names = parts_of(series, suffix) if suffix else series
        column = Column(step, works[0].mode, series, names, numbers, False, has_value, why)
        columns.append(column)
    return columns


def _kind(work: Work) -> Hashable:
    """The key of works that are computed in one call; None for work to compute alone."""
    group = group_of(work)
    if group is None or work.statistics is None:
        return None
    readings = tuple(map(_kind_of, work.statistics.values()))
    return None if None in readings else (group, readings)


def _kind_of(statistic: Statistic) -> Hashable:
    state = statistic.state
    if sum(part.numel() for part in state if isinstance(part, Tensor)) > LARGE:
        return None
    parts = [(x.shape, x.dtype, x.device) if isinstance(x, Tensor) else type(x) for x in state]
    return statistic.factor, *parts


def _computed_together(step: int, works: Sequence[Work], finished: Finished) -> list[Column] | None:
    every = [work.statistics for work in works if work.statistics is not None]
    device = _device_of(every[0].values())
    inputs = {name: finished.of([found[name] for found in every], device) for name in every[0]}
    return _of_many(step, works, tuple([work.series for work in works]), inputs)


def _computed_stacked(step: int, finished: Finished, batch: Batch) -> list[Column] | None:
    device = _device_of(batch.statistics.values())
    inputs = {name: finished.of([found], device) for name, found in batch.statistics.items()}
    return _of_many(step, batch.works, batch.series, inputs)


def _of_many(
    step: int, works: Sequence[Work], series: tuple[Series, ...], inputs: Mapping[str, Any]
) -> list[Column] | None:
    asked = works[0].asked
    computed = asked.quantity.compute(**inputs, **asked.arguments)
    return columns_of_many(computed, step, works, series)


def _device_of(statistics: Iterable[Statistic]) -> torch.device | None:
    return device_of(part for of_one in statistics for part in of_one.state)


def _over_all(works: Sequence[Work]) -> dict[Series, list[Work]]:
    """The works behind each value of the whole model, by its series."""
    found: dict[tuple[Any, Mode], list[Work]] = {}
    for work in works:
        asked = work.asked
        if asked.quantity.over_all and work.is_emitted and work.statistics is not None:
            key = (asked.quantity, asked.options), work.mode
            found.setdefault(key, []).append(work)
    return {
        ("", together[0].asked.label): together
        for together in found.values()
        if all(work.series[0] for work in together)  # the model itself may be such a layer
    }


def _computed_over_all(step: int, works: list[Work], finished: Finished) -> Iterator[Column]:
    over_all = works[0].asked.quantity.over_all
    assert over_all is not None
    weights = [work.weight for work in works if work.weight is not None]
    if len(set(weights)) < len(weights):
        raise NoValue("a weight is used several times, so that its gradients add up")
    every = [work.statistics for work in works if work.statistics is not None]
    values = [
        finished.of([found], _device_of(statistics.values()))
        for statistics in every
        for found in statistics.values()
    ]
    return _columns_of_one(over_all(values), step, works[0], ("", works[0].asked.label))


def _columns_of_one(computed: Any, step: int, work: Work, series: Series) -> Iterator[Column]:
    for suffix, value in (computed if isinstance(computed, Mapping) else {"": computed}).items():
        numbers, has_value, why = _split(value) if isinstance(value, Defined) else (value, None, "")
        tensor = torch.as_tensor(numbers)
        tensor = tensor.to_dense() if tensor.layout != torch.strided else tensor
        names = (series,), parts_of((series,), suffix)
        yield Column(step, work.mode, *names, tensor.unsqueeze(0), False, has_value, why)


def _split(computed: Defined) -> tuple[Tensor, Tensor, str]:
    """Numbers, which of them are values, along one axis in their type, and why others are none."""
    has_value = computed.has_value.reshape(-1).to(computed.numbers.dtype)
    return computed.numbers, has_value, computed.otherwise


def _joined(values: list[Any], reduction: Any) -> Any:
    """The values of several steps along a first axis, of steps or of their batches."""
    join = torch.cat if capabilities(reduction).keeps_batches else torch.stack
    if isinstance(values[0], Tensor):
        return join(values)
    if isinstance(values[0], tuple):
        return type(values[0])(*map(join, zip(*values, strict=True)))
    return values
