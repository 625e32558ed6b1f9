"""Faces: the words, signs, colours and borders of visible items, for any way of drawing them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from taiyi_fx.outline import SIDES, Item, Mark, Marks, Outline
from taiyi_fx.outline.view import View
from taiyi_fx.pictures.diagram.colours import (
    CLUSTERS,
    EDITED,
    ENDS,
    FAMILIES,
    LINE,
    MARKS,
    PLAIN,
    PLUMBING,
    PROBED,
    SOFT,
    STATES,
)
from taiyi_fx.pictures.diagram.latest import Latest, LatestValues

_LINES = 3
"""The number of lines a badge has at most; the last then counts what is left."""

_LONGEST = 40

Stroke = Literal["solid", "dashed", "dotted"]

_STROKES: Mapping[str, Stroke] = {"python": "dashed", "plumbing": "dotted"}
_SOFT = ("plumbing", "rest", "range")
_RUNS = ("fold", "rest")


class Line(NamedTuple):
    """A line beside a badge's sign.

    Attributes:
        text: A quantity and its latest value, or an edit.
        state: The state of the value's series; empty without a value.
    """

    text: str
    state: Literal["", "ok", "warn", "alert"] = ""


class Badge(NamedTuple):
    """The quantities of one side, or the edits, at a box: a sign on its colour, and lines.

    Attributes:
        kind: The side's name, or ``"edits"``.
        lines: The quantities with their values, or the edits.
    """

    kind: str
    lines: tuple[Line, ...]

    @property
    def colours(self) -> list[str]:
        """The colour of each line."""
        return [STATES[line.state] if line.state else MARKS[self.kind][1] for line in self.lines]


class Count(NamedTuple):
    """The number of quantities, edits or flagged series within a closed box.

    Attributes:
        kind: A side's name, ``"edits"``, or a state.
        text: The number with its sign.
    """

    kind: str
    text: str

    @property
    def colour(self) -> str:
        """The background of the text, which is white."""
        return MARKS[self.kind][1] if self.kind in MARKS else STATES[self.kind]


@dataclass(frozen=True)
class Face:
    """The looks of a visible item.

    Attributes:
        label: Its name.
        quiet: A note after the name, such as its class; may be empty.
        fill: The background colour.
        border: The colour of the border.
        badges: The marks of the item itself.
        counts: The numbers of marks within a closed item.
        is_bold: True if it has marks, or a mark is within it.
        is_double: True if it stands for several identical items.
        stroke: That of its border: dashed if it stayed Python, dotted if it is plumbing.
        is_soft: True if it is neither a module nor a single operation.
        tooltip: The full text on it.
    """

    label: str
    quiet: str
    fill: str
    border: str
    badges: tuple[Badge, ...] = ()
    counts: tuple[Count, ...] = ()
    is_bold: bool = False
    is_double: bool = False
    stroke: Stroke = "solid"
    is_soft: bool = False
    tooltip: str = ""

    @property
    def kinds(self) -> frozenset[str]:
        """The sides, ``"edits"`` and states that occur there or within."""
        states = {line.state for badge in self.badges for line in badge.lines if line.state}
        return frozenset(states.union(entry.kind for entry in (*self.badges, *self.counts)))

    @property
    def is_probed(self) -> bool:
        """True if a quantity is taken there, or within it if it is closed."""
        return not self.kinds.isdisjoint(SIDES)


def faces(outline: Outline, view: View, values: LatestValues) -> dict[int, Face]:
    """The faces of all visible boxes and clusters, by item."""
    children = outline.children()
    within = _Within(outline, values)
    depths: dict[int, int] = {}
    found: dict[int, Face] = {}
    for i in view.clusters:
        depths[i] = depths.get(view.homes[i], -1) + 1
        fill = CLUSTERS[min(depths[i], len(CLUSTERS) - 1)]
        found[i] = _open(outline.items[i], values, fill)
    for i in view.boxes:
        item = outline.items[i]
        found[i] = within.closed(i) if children[i] else _open(item, values, _fill(item))
    return found


def shortened(text: str, longest: int = _LONGEST) -> str:
    """A text on one line, with its middle left out if it is too long."""
    text = visible(text).replace("\n", " ")
    if len(text) <= longest:
        return text
    tail = longest // 2
    return f"{text[: longest - tail - 1]}…{text[-tail:]}"


def visible(text: str) -> str:
    """A text with control characters spelt out, as XML has no way to hold them."""
    return "".join(c if c.isprintable() or c == "\n" else f"\\x{ord(c):02x}" for c in text)


def signed(latest: Latest) -> str:
    """A value with the sign of its state: an alert's ``!``, a warning's arrow or ``~``."""
    arrow = {"up": " ↑", "down": " ↓"}.get(latest.trend, "")
    if latest.state == "alert":
        return f"{latest.text}{arrow} !"
    return f"{latest.text}{arrow or ' ~'}" if latest.state == "warn" else latest.text


def _open(item: Item, values: LatestValues, fill: str) -> Face:
    """The face of an item with its own marks: a cluster, or a box without parts."""
    badges = tuple(_badges(item, values))
    states = {line.state for badge in badges for line in badge.lines}
    return Face(
        label=shortened(item.label),
        quiet=_quiet(item),
        fill=fill,
        border=_border(item.marks, states, SOFT if item.kind in _SOFT else LINE),
        badges=badges,
        is_bold=bool(item.marks),
        stroke=_STROKES.get(item.kind, "solid"),
        is_soft=item.kind in _SOFT,
        tooltip=visible("\n".join(_tooltip(item, values))),
    )


def _quiet(item: Item) -> str:
    name = shortened(item.class_name) + ("" if item.is_called else ", never called")
    return f"{name} × {item.count}".strip() if item.count > 1 else name


def _fill(item: Item) -> str:
    if item.kind in ("input", "output", "python", "parameter"):
        return ENDS
    return PLUMBING if item.kind == "plumbing" else FAMILIES.get(item.family, PLAIN)


def _border(marks: Marks, states: Collection[str], plain: str) -> str:
    """The border's colour: of the worst state, of probes, of edits, or plain."""
    if marks.has_readings:
        return next((STATES[state] for state in ("alert", "warn") if state in states), PROBED)
    return EDITED if marks.edits else plain


def _badges(item: Item, values: LatestValues) -> Iterator[Badge]:
    for side in SIDES:
        marks: tuple[Mark, ...] = getattr(item.marks, side)
        lines = [_line(mark, values.get((item.module, mark.quantity))) for mark in marks]
        if lines:
            yield Badge(side, _cut(lines))
    if item.marks.edits:
        yield Badge("edits", _cut([Line(shortened(text)) for text in item.marks.edits]))


def _line(mark: Mark, latest: Latest | None) -> Line:
    name = shortened(mark.quantity)
    return Line(f"{name} {signed(latest)}", latest.state) if latest else Line(name)


def _cut(lines: Sequence[Line]) -> tuple[Line, ...]:
    """At most three lines, flagged ones first; the last counts the others."""
    if len(lines) <= _LINES:
        return tuple(lines)
    first = sorted(lines, key=lambda line: _URGENT.index(line.state))[: _LINES - 1]
    return (*first, Line(f"+ {len(lines) - len(first)} more"))


_URGENT = ("alert", "warn", "ok", "")


def _tooltip(item: Item, values: LatestValues) -> Iterator[str]:
    """The lines of a tooltip."""
    yield item.module or item.label
    yield from item.notes
    for side in SIDES:
        for mark in getattr(item.marks, side):
            yield _tooltip_line(mark, values.get((item.module, mark.quantity)), MARKS[side][0])
    for text in item.marks.edits:
        yield f"{MARKS['edits'][0]} {text}"


def _tooltip_line(mark: Mark, latest: Latest | None, sign: str) -> str:
    when = f", {mark.schedule}" if mark.schedule else ""
    if latest is None:
        return f"{sign} {mark.quantity}{when}"
    numbers = "; ".join(latest.details) or latest.text
    state = "" if latest.state == "ok" else f" ({latest.state}{_TRENDS[latest.trend]})"
    return f"{sign} {mark.quantity}{when}: {numbers}{state}"


_TRENDS = {
    "": "",
    "up": ", ten times its median or more",
    "down": ", a tenth of its median or less",
}


class _Within:
    """Marks within closed items: their numbers, without its own and with them, and flagged ones."""

    def __init__(self, outline: Outline, values: LatestValues) -> None:
        self.outline = outline
        self.values = values
        self.counts: list[Counter[str]] = [Counter() for _ in outline.items]
        self.inner = [*self.counts]
        self.flagged: list[list[str]] = [[] for _ in outline.items]
        self.sizes = [1] * len(outline.items)
        for i in reversed(range(len(outline.items))):
            self._take(i, values)

    def _take(self, i: int, values: LatestValues) -> None:
        """Counts an item's own marks, after those of all within it, and adds them to its parent."""
        item = self.outline.items[i]
        self.inner[i] = self.counts[i].copy()
        for kind in MARKS:
            self.counts[i][kind] += len(getattr(item.marks, kind))
        for side in SIDES:
            for mark in getattr(item.marks, side):
                latest = values.get((item.module, mark.quantity))
                if latest is not None and latest.state != "ok":
                    self.counts[i][latest.state] += 1
                    self.flagged[i].append(f"{item.module} {mark.quantity} {signed(latest)}")
        if item.parent >= 0:
            self.counts[item.parent] += self.counts[i]
            self.flagged[item.parent] = self.flagged[i] + self.flagged[item.parent]
            self.sizes[item.parent] += self.sizes[i]

    def closed(self, i: int) -> Face:
        """The face of a closed item."""
        item, counts = self.outline.items[i], self.counts[i]
        has_readings = any(counts[side] for side in SIDES)
        has_edits = bool(counts["edits"])
        marks = Marks((Mark("", ""),) * has_readings, edits=("",) * has_edits)
        states = [state for state in STATES if counts[state]]
        return Face(
            label=shortened(item.label),
            quiet=_quiet(item),
            fill=_fill(item),
            border=_border(marks, states, SOFT if item.kind == "plumbing" else LINE),
            badges=tuple(_badges(item, self.values)),
            counts=tuple(_counts(self.inner[i])),
            is_bold=bool(marks),
            is_double=item.kind in _RUNS,
            stroke=_STROKES.get(item.kind, "solid"),
            is_soft=item.kind == "plumbing",
            tooltip=visible("\n".join(self._tooltip(i))),
        )

    def _tooltip(self, i: int) -> Iterator[str]:
        item = self.outline.items[i]
        yield item.module or " ".join(filter(None, (item.label, _quiet(item))))
        yield from item.notes
        if item.kind == "rest":
            yield f"same structure as {_first_of(self.outline, i)}"
        flagged = self.flagged[i]
        yield from flagged[:_MOST_FLAGGED]
        if len(flagged) > _MOST_FLAGGED:
            yield f"+ {len(flagged) - _MOST_FLAGGED} more"


_MOST_FLAGGED = 12


def _first_of(outline: Outline, rest: int) -> str:
    """The names of the items that a fold shows before its rest."""
    siblings = [item for item in outline.items[:rest] if item.parent == outline.items[rest].parent]
    return ", ".join(item.label for item in siblings)


def _counts(counts: Counter[str]) -> Iterator[Count]:
    for kind, (sign, _) in MARKS.items():
        if counts[kind]:
            yield Count(kind, f"{sign} {counts[kind]}")
    for state, sign in (("alert", "!"), ("warn", "~")):
        if counts[state]:
            word = "alert" if state == "alert" else "warning"
            plural = "s" if counts[state] > 1 else ""
            yield Count(state, f"{sign} {counts[state]} {word}{plural}")
