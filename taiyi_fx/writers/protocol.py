"""The protocol of writers, and the data that they get."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

from taiyi_fx.outline import Outline
from taiyi_fx.records.epochs import EpochSummary
from taiyi_fx.records.record import Block, Event, Record, Series

Direction = Literal["forward", "backward", "parameter", ""]
"""The kind of values that a quantity reads; empty for the user's own numbers."""


class SeriesInfo(NamedTuple):
    """The facts about a series.

    Attributes:
        module: The module's dotted name, without its call.
        call: The number of the module's call in a forward, from 0.
        quantity: The quantity's name in records.
        direction: The kind of values that it reads.
        unit: The unit of its numbers; empty where they have the tensor's own.
        health: The rule by which reports flag its numbers (`quantity(health=...)`), with
            ``" undefined"`` behind it where NaN is no fault and the unit does not tell so.
    """

    module: str
    call: int
    quantity: str
    direction: Direction
    unit: str
    health: str = ""


@dataclass(frozen=True)
class RunInfo:
    """The facts about a run before its first record.

    Attributes:
        model: The model's class.
        config: Each quantity of each module, with its schedule and options, as JSON takes it.
        versions: Of Python, torch and taiyi_fx.
        seed: torch's initial seed.
        start_step: The first step. Data at or after this step belong to an earlier session, and
            writers drop them.
        rank: The rank that records.
        describe: Gives the facts about a series.
        outline: The model as boxes within boxes, for a picture; the same object as long as no
            forward has shown more of it.
        part: The name of the part of a run that this model is; empty where it was given none.
        launch: A token that all parts of the run share; empty where it can have no others.
    """

    model: str
    config: Sequence[Mapping[str, Any]]
    versions: Mapping[str, str]
    seed: int
    start_step: int
    rank: int
    describe: Callable[[Series], SeriesInfo]
    outline: Callable[[], Outline]
    part: str = ""
    launch: str = ""


class EpochEnd(NamedTuple):
    """The end of an epoch.

    Attributes:
        expected: The number that its batches were given with.
        number: The number that the user gave it.
        summaries: The statistics of each scalar series in it.
    """

    expected: int
    number: int
    summaries: Sequence[EpochSummary]


@dataclass(frozen=True)
class Batch:
    """The data of one step.

    Attributes:
        epoch: The epoch under way: one more than the last that ended.
        blocks: Numbers of many series of a step.
        records: Further numbers, and tensors on the CPU.
        events: Warnings, and sites of NaN or Inf.
        of_findings: What a run's findings need, for runs alone: reasons for values that are not
            available and that nobody named, as those of a preset, with the kind ``"missing"``; and
            all that was found, as JSON, with the kind ``"found"``.
        ended: The end of an epoch, after all of these.
    """

    epoch: int
    blocks: Sequence[Block] = ()
    records: Sequence[Record] = ()
    events: Sequence[Event] = ()
    of_findings: Sequence[Event] = ()
    ended: EpochEnd | None = None

    def __iter__(self) -> Iterator[Record]:
        """Numbers and tensors one by one."""
        for step, mode, series, values in self.blocks:
            for name, value in zip(series, values, strict=True):
                yield Record(step, *name, value, mode)
        yield from self.records


class Writer(Protocol):
    """Sends records to a place: a file, a dashboard, a picture.

    All methods are called from the thread that calls `Monitor.track`. An exception in a writer
    becomes one warning with the writer's name and never ends the run; the next batch still comes.
    An import that fails, or a place that cannot be written to, belongs into `open`.

    An interrupt may come while a batch is written. A writer that has the attribute
    ``takes_once = True`` is then given the same batch once more, and takes it once.
    """

    def open(self, run: RunInfo) -> None:
        """Prepares for a run: called once, before anything else, by `instrument` where it can."""
        ...

    def write(self, batch: Batch) -> None:
        """Adds a batch, which may wait in memory until the next `flush`."""
        ...

    def flush(self) -> None:
        """Makes all batches durable. Called about every five seconds, and before `close`."""
        ...

    def close(self) -> None:
        """Ends the run."""
        ...
