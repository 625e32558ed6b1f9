"""Records of a run, and the table that holds them in memory."""

from __future__ import annotations

import bisect
import functools
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, overload

from taiyi_fx.records.grid import Grid, grid
from taiyi_fx.records.imported import imported
from taiyi_fx.records.table import as_html, as_table
from taiyi_fx.suggestion import suggestion

if TYPE_CHECKING:  # a run is read without torch, which takes a second to import
    import pandas as pd
    from numpy.typing import NDArray
    from torch import Tensor

    from taiyi_fx.passes.ir import Mode, Port

Value: TypeAlias = "float | int | Tensor"
"""A number, or for vectors and raw access a tensor on the CPU."""


Series = tuple[str, str]
"""A module, with its call, and a quantity's name."""


@dataclass(frozen=True)
class Record:
    """One value of one quantity at one step.

    Attributes:
        step: The training step.
        module: The module's dotted name; its second call in a forward is ``name@1``.
        quantity: The quantity's name.
        value: A number or a CPU tensor.
        mode: ``"train"``, or ``"eval"`` for forwards in evaluation mode.
    """

    step: int
    module: str
    quantity: str
    value: Value
    mode: Mode = "train"


class Block(NamedTuple):
    """Numbers of one step, one of each of many series."""

    step: int
    mode: Mode
    series: tuple[Series, ...]
    values: Sequence[float | int]


_Fields: TypeAlias = "tuple[int, str, str, Value, Mode]"


class Event(NamedTuple):
    """A warning, a site of NaN or Inf, or a finding, at one step of a run.

    Attributes:
        step: The step.
        kind: ``"warning"``; ``"non_finite"`` for a step's first site of NaN or Inf;
            ``"overflow"`` for such a site where `NonFiniteSite.is_overflow`, which is harmless;
            ``"finding"`` for what a monitor found while training went on, at the step of then; or
            on pages ``"recording"`` for the last steps that a recorder wrote. In files of runs
            ``"missing"`` for the reason why a value is, and ``"found"`` for all that a monitor
            found when it looked at that step, as JSON.
        module: The module concerned, with its call; may be empty.
        text: The message.
    """

    step: int
    kind: Literal["warning", "non_finite", "overflow", "finding", "missing", "found", "recording"]
    module: str
    text: str


OF_FINDINGS = ("missing", "found")
"""Kinds of events that a run's findings need, and that nobody else is shown."""


@dataclass(frozen=True)
class NonFiniteSite:
    """The first site of a step, in the order of execution, where a value was not finite.

    Attributes:
        step: The step.
        module: The module, with its call.
        place: ``"input"``, ``"output"``, or for gradients, whose order is that of backward,
            ``"output_grad"``.
        count: The number of elements that are not finite there.
        is_overflow: True for a gradient under a `torch.amp.GradScaler` in a step where no other
            value is NaN or Inf: the scaler then skips the step and lowers its scale.
    """

    step: int
    module: str
    place: Port
    count: int
    is_overflow: bool = False

    @property
    def event(self) -> Event:
        """The event that a run keeps of it."""
        kind = "overflow" if self.is_overflow else "non_finite"
        return Event(self.step, kind, self.module, str(self))

    def __str__(self) -> str:
        names = {"output_grad": "gradient of the output", "input_grad": "gradient of the input"}
        place = names.get(self.place, self.place)
        module = repr(self.module) if self.module else "the model itself"
        scaled = "under the loss scale, " if self.is_overflow else ""
        return (
            f"step {self.step}: {scaled}the first NaN or Inf is in the {place} of {module} "
            f"({self.count} elements)"
        )


class Records(Sequence[Record]):
    """A table of records, in the order in which they were made.

    A step's numbers stay together as they come, and become records one at a time, as they are
    looked at: some 50 bytes a number, where a record takes over 200.

    Attributes:
        dropped: The number of old records dropped to keep the table within its bound.
    """

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self._begin(list(records))
        self.dropped = 0

    def _begin(self, items: list[Block | Record], last: Block | Record | None = None) -> None:
        self._numbers = sum(map(_numbers, items))
        # Replaced at once, so that an interrupt doubles and loses nothing: the items, the number of
        # records up to the end of each, and what came last before them.
        self._state: tuple[list[Block | Record], list[int], Block | Record | None]
        self._state = items, [], last

    def _ends(self) -> list[int]:
        """The number of records up to the end of each item."""
        items, ends, _ = self._state
        for i in range(len(ends), len(items)):
            ends.append((ends[-1] if ends else 0) + _records(items[i]))
        return ends

    def _rows(self) -> Iterator[_Fields]:
        for item in self._state[0]:
            if isinstance(item, Record):
                yield item.step, item.module, item.quantity, item.value, item.mode
            else:
                step, mode, series, values = item
                for (module, quantity), value in zip(series, values, strict=True):
                    yield step, module, quantity, value, mode

    def append(self, record: Record) -> None:
        """Adds a record at the end."""
        self.extend([record])

    def append_block(self, block: Block) -> None:
        """Adds the numbers of a block at the end."""
        self.extend([block])

    def extend(self, new: Sequence[Block | Record]) -> None:
        """Adds blocks and records at the end, unless they were just added.

        So who adds them again after an interrupt doubles none.
        """
        items, _, last = self._state
        if not new or new[-1] is last or (items and new[-1] is items[-1]):
            return
        self._numbers += sum(map(_numbers, new))
        items.extend(new)

    def keep(self, numbers: int) -> None:
        """Drops the oldest tenth or more where the table holds more numbers than this.

        Each element of a tensor counts as a number.
        """
        if self._numbers <= numbers:
            return
        items, before = self._state[0], len(self)
        allowed, first = numbers * 9 // 10, len(items)
        while first and (size := _numbers(items[first - 1])) <= allowed:
            allowed, first = allowed - size, first - 1
        kept = items[first:]
        cut = items[first - 1] if first and allowed else None
        if isinstance(cut, Block):
            kept.insert(0, cut._replace(series=cut.series[-allowed:], values=cut.values[-allowed:]))
        self._begin(kept, items[-1])
        self.dropped += before - len(self)

    def clear(self) -> None:
        """Drops all records."""
        self._begin([])

    def __len__(self) -> int:
        ends = self._ends()
        return ends[-1] if ends else 0

    @overload
    def __getitem__(self, index: int) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> Records: ...
    def __getitem__(self, index: int | slice) -> Record | Records:
        places = range(len(self))[index]
        if isinstance(places, range):
            return Records(map(self._at, places))
        return self._at(places)

    def _at(self, place: int) -> Record:
        items, ends, _ = self._state
        i = bisect.bisect_right(ends, place)
        item = items[i]
        if isinstance(item, Record):
            return item
        step, mode, series, values = item
        within = place - ends[i]  # from the end, so negative
        return Record(step, *series[within], values[within], mode)

    def __iter__(self) -> Iterator[Record]:
        return itertools.starmap(Record, self._rows())

    def after(self, last: Block | Record | None) -> list[Block | Record]:
        """The items added after one of this, in order; all that are left, where it is gone."""
        items = self._state[0]
        first = len(items)
        while first and items[first - 1] is not last:
            first -= 1
        return items[first:]

    def select(
        self, module: str | None = None, quantity: str | None = None, mode: Mode | None = None
    ) -> Records:
        """The records of a module, a quantity or a mode; None takes all."""
        wanted = functools.cache(functools.partial(_wanted, module=module, quantity=quantity))
        found = Records()
        for item in self._state[0]:
            if mode not in (None, item.mode):
                continue
            if isinstance(item, Record):
                if wanted(((item.module, item.quantity),)):
                    found.append(item)
            elif places := wanted(item.series):
                found.append_block(_part(item, places))
        return found

    def series(self) -> dict[tuple[str, str], dict[int, Value]]:
        """Values by step, for each pair of a module and a quantity."""
        found: dict[tuple[str, str], dict[int, Value]] = {}
        for step, module, quantity, value, _ in self._rows():
            found.setdefault((module, quantity), {})[step] = value
        return found

    def nested(self) -> dict[str, dict[str, dict[int, Value]]]:
        """Values as ``{module: {quantity: {step: value}}}``."""
        found: dict[str, dict[str, dict[int, Value]]] = {}
        for (module, quantity), values in self.series().items():
            found.setdefault(module, {})[quantity] = values
        return found

    def blocks(self) -> Iterator[Block]:
        """All numbers as blocks, in the order in which they were made; tensors are left out.

        A number that was added as a record is a block of its own.
        """
        for x in self._state[0]:
            if isinstance(x, Block):
                yield x
            elif isinstance(x.value, (float, int)):
                yield Block(x.step, x.mode, ((x.module, x.quantity),), (x.value,))

    def of_tensors(self) -> Iterator[Record]:
        """The records of tensors, in the order in which they were made."""
        for x in self._state[0]:
            if isinstance(x, Record) and not isinstance(x.value, (float, int)):
                yield x

    def grid(self, quantity: str, mode: Mode = "train") -> Grid:
        """A quantity's numbers of all modules, by step.

        Raises:
            LookupError: There are none.
        """
        selected = self.select(quantity=quantity, mode=mode)
        found = [
            (module, step, value)
            for step, module, _, value, _ in selected._rows()
            if isinstance(value, (float, int))
        ]
        if not found:
            known = {r.quantity for r in self.select(mode=mode)} - {quantity}
            hint = suggestion(quantity, sorted(known))
            why = " (there are tensors: see .tensors)" if len(selected) else ""
            raise LookupError(f"there are no numbers of {quantity!r} in {mode}{why}.{hint}")
        modules, steps, values = zip(*found, strict=True)
        rows = {module: row for row, module in enumerate(dict.fromkeys(modules))}
        return grid(list(rows), [rows[module] for module in modules], steps, values)

    def tensors(self, module: str, quantity: str, mode: Mode = "train") -> dict[int, NDArray[Any]]:
        """The tensors of one series by step; of several at a step the last.

        Half precision becomes float32.

        Raises:
            LookupError: There are none.
        """
        found = {
            r.step: as_numpy(r.value)
            for r in self.select(module, quantity, mode)
            if not isinstance(r.value, (float, int))
        }
        if not found:
            known = {r.quantity for r in self.select(module, mode=mode)} - {quantity}
            hint = suggestion(quantity, sorted(known))
            text = f"there are no tensors of {quantity!r} of {module!r} in {mode}.{hint}"
            raise LookupError(text)
        return found

    def to_columns(self) -> dict[str, list[Any]]:
        """Columns of equal length, which ``pandas.DataFrame`` or ``polars.DataFrame`` take."""
        names = ("step", "module", "quantity", "value", "mode")
        columns: dict[str, list[Any]] = {name: [] for name in names}
        for row in self._rows():
            for column, x in zip(columns.values(), row, strict=True):
                column.append(x)
        return columns

    def to_pandas(self) -> pd.DataFrame:
        """The columns of `to_columns` as a pandas table; tensors become numpy arrays.

        Raises:
            ImportError: pandas is not installed.
        """
        columns = self.to_columns()
        columns["value"] = [
            v if isinstance(v, (float, int)) else as_numpy(v) for v in columns["value"]
        ]
        return imported("pandas").DataFrame(columns)

    def __repr__(self) -> str:
        return f"<{len(self)} records of {len(self.series())} series>"

    def __str__(self) -> str:
        return as_table(_HEAD, self._table())

    def _repr_html_(self) -> str:
        """The table that a notebook shows."""
        return as_html(repr(self), _HEAD, self._table())

    def _table(self) -> list[tuple[str, ...]]:
        series = self.series()
        order = {module: i for i, (module, _) in reversed([*enumerate(series)])}
        by_module = sorted(series.items(), key=lambda item: order[item[0][0]])
        return [_row(key, values) for key, values in by_module]


_HEAD = ("module", "quantity", "steps", "first", "last")


def as_numpy(x: Tensor) -> NDArray[Any]:
    """A tensor on the CPU as a numpy array; half precision becomes float32."""
    is_narrow = x.is_floating_point() and x.element_size() < 4
    return (x.float() if is_narrow else x).resolve_conj().resolve_neg().numpy()


def _wanted(
    series: tuple[Series, ...], *, module: str | None, quantity: str | None
) -> tuple[int, ...]:
    """The places in a block of a module's series, or of a quantity's."""
    return tuple(
        i
        for i, (its_module, its_quantity) in enumerate(series)
        if module in (None, its_module) and quantity in (None, its_quantity)
    )


def _part(block: Block, places: tuple[int, ...]) -> Block:
    if len(places) == len(block.series):
        return block
    series, values = (tuple(x[i] for i in places) for x in (block.series, block.values))
    return block._replace(series=series, values=values)


def _records(item: Block | Record) -> int:
    return len(item.values) if isinstance(item, Block) else 1


def _numbers(item: Block | Record) -> int:
    if isinstance(item, Block):
        return len(item.values)
    return 1 if isinstance(item.value, (float, int)) else item.value.numel()


def _row(key: tuple[str, str], values: dict[int, Value]) -> tuple[str, ...]:
    steps = list(values)
    span = f"{steps[0]} ... {steps[-1]} ({len(steps)})" if len(steps) > 1 else str(steps[0])
    return *key, span, _text(values[steps[0]]), _text(values[steps[-1]])


def _text(value: Value) -> str:
    if isinstance(value, (float, int)):
        return f"{value:.4g}"
    return f"tensor {' x '.join(map(str, value.shape))}"
