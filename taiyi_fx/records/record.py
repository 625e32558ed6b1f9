"""Records of a run, and the table that holds them in memory."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, overload

from taiyi_fx.records.grid import Grid, grid
from taiyi_fx.records.table import as_table
from taiyi_fx.suggestion import suggestion

if TYPE_CHECKING:  # a run is read without torch, which takes a second to import
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


class Event(NamedTuple):
    """A warning, or a site of NaN or Inf, at one step of a run.

    Attributes:
        step: The step.
        kind: ``"warning"``; ``"non_finite"`` for a step's first site of NaN or Inf; or
            ``"overflow"`` for such a site where `NonFiniteSite.is_overflow`, which is harmless.
        module: The module concerned, with its call; may be empty.
        text: The message.
    """

    step: int
    kind: Literal["warning", "non_finite", "overflow"]
    module: str
    text: str


@dataclass(frozen=True)
class NonFiniteSite:
    """The first site of a step, in the order of execution, where a value was not finite.

    Attributes:
        step: The step.
        module: The module, with its call.
        place: ``"input"``, ``"output"``, or for gradients, whose order is that of backward,
            ``"output_grad"``.
        count: How many elements are not finite there.
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

    Attributes:
        dropped: The number of old records dropped to keep the table within its bound.
    """

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self.dropped = 0
        made = list(records)
        self._numbers = sum(map(_size, made))
        # Replaced at once, so that an interrupt doubles and loses nothing: the records, what is
        # still to become records, and what came last.
        self._state: tuple[list[Record], list[Block | Record], Block | Record | None]
        self._state = made, [], None

    @property
    def _records(self) -> list[Record]:
        # Made when first looked at: a step's numbers come by the hundred.
        made, new, _ = self._state
        if new:
            made = [*made, *itertools.chain.from_iterable(map(_records_of, new))]
            self._state = made, [], new[-1]
        return made

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
        _, waiting, last = self._state
        if not new or (waiting[-1] if waiting else last) is new[-1]:
            return
        self._numbers += sum(len(x.values) if isinstance(x, Block) else _size(x) for x in new)
        waiting.extend(new)

    def keep(self, numbers: int) -> None:
        """Drops the oldest tenth or more where the table holds more numbers than this.

        Each element of a tensor counts as a number.
        """
        if self._numbers <= numbers:
            return
        records = self._records
        allowed, last = numbers * 9 // 10, len(records)
        while last and (allowed := allowed - _size(records[last - 1])) >= 0:
            last -= 1
        self._state = records[last:], [], self._state[2]
        self.dropped += last
        self._numbers = sum(map(_size, self._state[0]))

    def clear(self) -> None:
        """Drops all records."""
        self._state = [], [], None
        self._numbers = 0

    def __len__(self) -> int:
        return len(self._records)

    @overload
    def __getitem__(self, index: int) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> Records: ...
    def __getitem__(self, index: int | slice) -> Record | Records:
        found = self._records[index]
        return found if isinstance(found, Record) else Records(found)

    def __iter__(self) -> Iterator[Record]:
        return iter(self._records)

    def select(
        self, module: str | None = None, quantity: str | None = None, mode: Mode | None = None
    ) -> Records:
        """The records of a module, a quantity or a mode; None takes all."""
        return Records(
            r
            for r in self._records
            if module in (None, r.module)
            and quantity in (None, r.quantity)
            and mode in (None, r.mode)
        )

    def series(self) -> dict[tuple[str, str], dict[int, Value]]:
        """Values by step, for each pair of a module and a quantity."""
        found: dict[tuple[str, str], dict[int, Value]] = {}
        for record in self._records:
            found.setdefault((record.module, record.quantity), {})[record.step] = record.value
        return found

    def nested(self) -> dict[str, dict[str, dict[int, Value]]]:
        """Values as ``{module: {quantity: {step: value}}}``."""
        found: dict[str, dict[str, dict[int, Value]]] = {}
        for record in self._records:
            steps = found.setdefault(record.module, {}).setdefault(record.quantity, {})
            steps[record.step] = record.value
        return found

    def blocks(self) -> Iterator[Block]:
        """All numbers as blocks, in the order in which they were made; tensors are left out.

        A number that was added as a record, or looked at as one, is a block of its own.
        """
        for x in itertools.chain(*self._state[:2]):
            if isinstance(x, Block):
                yield x
            elif isinstance(x.value, (float, int)):
                yield Block(x.step, x.mode, ((x.module, x.quantity),), (x.value,))

    def of_tensors(self) -> Iterator[Record]:
        """The records of tensors, in the order in which they were made."""
        for x in itertools.chain(*self._state[:2]):
            if isinstance(x, Record) and not isinstance(x.value, (float, int)):
                yield x

    def grid(self, quantity: str, mode: Mode = "train") -> Grid:
        """A quantity's numbers of all modules, by step.

        Raises:
            LookupError: There are none.
        """
        found = [
            (r.module, r.step, r.value)
            for r in self.select(quantity=quantity, mode=mode)
            if isinstance(r.value, (float, int))
        ]
        if not found:
            known = {r.quantity for r in self.select(mode=mode)} - {quantity}
            hint = suggestion(quantity, sorted(known))
            tensors = self.select(quantity=quantity, mode=mode)
            why = " (there are tensors: see .tensors)" if len(tensors) else ""
            raise LookupError(f"no number of {quantity!r} in {mode}{why}.{hint}")
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
            raise LookupError(f"no tensor of {quantity!r} of {module!r} in {mode}.{hint}")
        return found

    def to_columns(self) -> dict[str, list[Any]]:
        """Columns of equal length, which ``pandas.DataFrame`` or ``polars.DataFrame`` take."""
        names = ("step", "module", "quantity", "value", "mode")
        return {name: [getattr(r, name) for r in self._records] for name in names}

    def __repr__(self) -> str:
        return f"<{len(self)} records of {len(self.series())} series>"

    def __str__(self) -> str:
        series = self.series()
        order = list(dict.fromkeys(module for module, _ in series))
        by_module = sorted(series.items(), key=lambda item: order.index(item[0][0]))
        rows = [_row(key, values) for key, values in by_module]
        return as_table(("module", "quantity", "steps", "first", "last"), rows)


def as_numpy(x: Tensor) -> NDArray[Any]:
    """A tensor on the CPU as a numpy array; half precision becomes float32."""
    is_narrow = x.is_floating_point() and x.element_size() < 4
    return (x.float() if is_narrow else x).resolve_conj().resolve_neg().numpy()


def _records_of(new: Block | Record) -> Iterable[Record]:
    if isinstance(new, Record):
        return (new,)
    step, mode, series, values = new
    pairs = zip(series, values, strict=True)
    return [Record(step, *name, value, mode) for name, value in pairs]


def _size(record: Record) -> int:
    return 1 if isinstance(record.value, (float, int)) else record.value.numel()


def _row(key: tuple[str, str], values: dict[int, Value]) -> tuple[str, ...]:
    steps = list(values)
    span = f"{steps[0]} ... {steps[-1]} ({len(steps)})" if len(steps) > 1 else str(steps[0])
    return *key, span, _text(values[steps[0]]), _text(values[steps[-1]])


def _text(value: Value) -> str:
    if isinstance(value, (float, int)):
        return f"{value:.4g}"
    return f"tensor {' x '.join(map(str, value.shape))}"
