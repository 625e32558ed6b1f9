"""The latest value of each mark: a short text, and the state of its series."""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from taiyi_fx.findings import Finding
from taiyi_fx.outline import SIDES, Outline
from taiyi_fx.pictures.report.states import state_of
from taiyi_fx.quantities.health import may_be_undefined
from taiyi_fx.records.record import Record, Series, Value

if TYPE_CHECKING:
    from taiyi_fx.passes.ir import Mode


class Latest(NamedTuple):
    """The latest value of a mark.

    Attributes:
        text: The number with three digits, or the shape of a tensor.
        state: The state of its series: unusual (``"warn"``) or flagged (``"alert"``).
        trend: The direction in which an unusual number left its usual size.
        details: For a mark with several numbers, each with its name; else empty.
    """

    text: str
    state: Literal["ok", "warn", "alert"] = "ok"
    trend: Literal["", "up", "down"] = ""
    details: tuple[str, ...] = ()


LatestValues: TypeAlias = Mapping[Series, Latest]
"""Values by the module, with its call, and the quantity of their mark."""


def latest_values(
    outline: Outline,
    records: Iterable[Record],
    health: Mapping[str, str],
    units: Mapping[str, str] = MappingProxyType({}),
) -> dict[Series, Latest]:
    """The latest value of each mark of an outline that has any.

    Values of training are taken; values of evaluation only if there are none.

    Args:
        outline: The model.
        records: All records, in order.
        health: The rules by which quantities are flagged, by the names of their marks.
        units: The units of their numbers, likewise; the tensor's own where there is none.
    """
    found = _grouped(outline, records)
    return {
        (module, quantity): _latest(
            quantity,
            of_mode["train"] if "train" in of_mode else of_mode["eval"],
            health.get(quantity, ""),
            units.get(quantity, ""),
        )
        for (module, quantity), of_mode in found.items()
    }


def flagged(found: Mapping[Series, Latest], findings: Iterable[Finding]) -> dict[Series, Latest]:
    """Latest values, in a state as grave as what was found of them."""
    made = dict(found)
    every = [one for cause in findings for one in (cause, *cause.consequences)]
    for one in every:
        mark = _mark_of((one.module, one.quantity), found)
        state = _STATES[one.severity]
        if mark is not None and _RANK[made[mark].state] < _RANK[state]:
            made[mark] = made[mark]._replace(state=state)
    return made


_STATES: Mapping[str, Literal["ok", "warn", "alert"]] = {
    "alert": "alert",
    "warning": "warn",
    "note": "ok",
}


def number(value: float) -> str:
    """A number with three digits.

    >>> [number(x) for x in (0.98, 12345.6, 0.00021, 7)]
    ['0.980', '12346', '2.10e-4', '7']
    """
    if value == 0 or not math.isfinite(value) or (isinstance(value, int) and abs(value) < 100_000):
        return f"{value:g}"
    if 100 <= abs(value) < 99_999.5:
        return f"{value:.0f}"
    if 1e-3 <= abs(value) < 100:
        return f"{value:#.3g}"
    mantissa, _, exponent = f"{value:.2e}".partition("e")
    return f"{mantissa}e{int(exponent)}"


def _grouped(
    outline: Outline, records: Iterable[Record]
) -> dict[Series, dict[Mode, dict[str, list[Value]]]]:
    """The values of each mark, by mode and quantity's name, in one walk through the records."""
    marks = {
        (item.module, mark.quantity)
        for item in outline.items
        for side in SIDES
        for mark in getattr(item.marks, side)
    }
    found: dict[Series, dict[Mode, dict[str, list[Value]]]] = {}
    places: dict[tuple[str, str, Mode], list[Value] | None] = {}
    for record in records:
        name = (record.module, record.quantity, record.mode)
        if name not in places:
            mark = _mark_of(name[:2], marks)
            places[name] = None
            if mark is not None:
                of_mode = found.setdefault(mark, {}).setdefault(record.mode, {})
                places[name] = of_mode.setdefault(record.quantity, [])
        values = places[name]
        if values is not None:
            values.append(record.value)
    return found


def _mark_of(series: Series, marks: Container[Series]) -> Series | None:
    """The mark of a series: of its name, or of what its name begins with before a dot."""
    module, quantity = series
    while (module, quantity) not in marks:
        quantity, dot, _ = quantity.rpartition(".")
        if not dot:
            return None
    return module, quantity


def _latest(
    quantity: str, of_names: Mapping[str, Sequence[Value]], health: str, unit: str
) -> Latest:
    each = {name: _series(values, health, unit) for name, values in of_names.items()}
    first = next(iter(each.values()))
    if len(each) == 1:
        return first
    worst = max(each.values(), key=lambda one: _RANK[one.state])
    details = tuple(f"{name.removeprefix(quantity + '.')} {r.text}" for name, r in each.items())
    return first._replace(state=worst.state, trend=worst.trend, details=details)


_RANK = {"ok": 0, "warn": 1, "alert": 2}


def _series(values: Sequence[Value], health: str, unit: str) -> Latest:
    numbers = [value for value in values if isinstance(value, (float, int))]
    last = values[-1]
    if not isinstance(last, (float, int)):
        return Latest(" × ".join(map(str, last.shape)) or "a tensor")
    is_defined = not (math.isnan(last) and may_be_undefined(unit, health))
    return Latest(number(last) if is_defined else "-", *state_of(numbers, health, unit))
