"""What a writer is given, and what it has to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

from taiyi_fx.outline import Outline
from taiyi_fx.records.epochs import EpochSummary
from taiyi_fx.records.record import Block, Event, Record, Series

Direction = Literal["forward", "backward", "parameter", ""]
"""Where a quantity reads; empty for numbers of the user's own."""


class SeriesInfo(NamedTuple):
    """What is known of a series.

    Attributes:
        module: The module's dotted name, without its call.
        call: Which call of the module in a forward, from 0.
        quantity: The quantity's name in records.
        direction: Where it reads: values, gradients, or parameters.
        unit: What its numbers are in; empty where that is the tensor's own affair.
        health: The rule by which reports flag its numbers (`quantity(health=...)`).
    """

    module: str
    call: int
    quantity: str
    direction: Direction
    unit: str
    health: str = ""


@dataclass(frozen=True)
class RunInfo:
    """What is known of a run before its first record.

    Attributes:
        model: The model's class.
        config: Each quantity of each module, with its schedule and options, as JSON takes it.
        versions: Of Python, torch and taiyi_fx.
        seed: torch's initial seed.
        start_step: The first step. Writers drop what an earlier session has of it
            and of later ones.
        rank: The rank that records.
        describe: What a series is.
        outline: The model as boxes within boxes, for a picture; the same object as long as no
            forward has shown more of it.
    """

    model: str
    config: Sequence[Mapping[str, Any]]
    versions: Mapping[str, str]
    seed: int
    start_step: int
    rank: int
    describe: Callable[[Series], SeriesInfo]
    outline: Callable[[], Outline]


class EpochEnd(NamedTuple):
    """The end of an epoch.

    Attributes:
        expected: The number that its batches were given with.
        number: The number that the user gave it.
        summaries: What each scalar series did in it.
    """

    expected: int
    number: int
    summaries: Sequence[EpochSummary]


@dataclass(frozen=True)
class Batch:
    """What a step brings.

    Attributes:
        epoch: The epoch under way: one more than the last that ended.
        blocks: Numbers of many series of a step.
        records: Further numbers, and tensors on the CPU.
        events: What was told.
        ended: The end of an epoch, after all of these.
    """

    epoch: int
    blocks: Sequence[Block] = ()
    records: Sequence[Record] = ()
    events: Sequence[Event] = ()
    ended: EpochEnd | None = None

    def __iter__(self) -> Iterator[Record]:
        """Numbers and tensors one by one."""
        for step, mode, series, values in self.blocks:
            for name, value in zip(series, values, strict=True):
                yield Record(step, *name, value, mode)
        yield from self.records


class Writer(Protocol):
    """Takes records to where they are looked at.

    All is called from the thread that calls `Monitor.track`. What a writer raises is warned of
    once, with the writer's name, and never ends the run; it is called again with the next batch.
    An import that fails, or a place that cannot be written to, belongs into `open`.
    """

    def open(self, run: RunInfo) -> None:
        """Prepares for a run: called once, before anything else, by `instrument` where it can."""
        ...

    def write(self, batch: Batch) -> None:
        """Takes a batch; it may wait in memory until the next `flush`."""
        ...

    def flush(self) -> None:
        """Makes what was written durable. Called about every five seconds, and before `close`."""
        ...

    def close(self) -> None:
        """Ends the run."""
        ...
