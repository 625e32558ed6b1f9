"""An outline: a model as boxes within boxes, with what is read there and who feeds whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

Kind = Literal[
    "module",
    "container",
    "python",
    "op",
    "plumbing",
    "fold",
    "rest",
    "range",
    "input",
    "output",
    "parameter",
]

Side = Literal["forward", "backward", "parameters"]

SIDES: tuple[Side, ...] = ("forward", "backward", "parameters")


class Mark(NamedTuple):
    """A quantity taken at a box.

    Attributes:
        quantity: Its name in records; where it gives several numbers, what they begin with.
        schedule: When, as a text; empty for every step.
    """

    quantity: str
    schedule: str


@dataclass(frozen=True)
class Marks:
    """The quantities taken and the edits made at a box.

    Attributes:
        forward: From values, on their way forward.
        backward: From gradients, on their way back.
        parameters: From the module's own parameters.
        edits: Changes of what passes, as texts.
    """

    forward: tuple[Mark, ...] = ()
    backward: tuple[Mark, ...] = ()
    parameters: tuple[Mark, ...] = ()
    edits: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.has_readings or bool(self.edits)

    @property
    def has_readings(self) -> bool:
        """Whether anything is read there."""
        return bool(self.forward or self.backward or self.parameters)


@dataclass(frozen=True)
class Item:
    """One box of an outline, with or without boxes inside.

    Attributes:
        kind: What it is. ``"container"`` is a module that is never called, such as a ModuleList;
            ``"python"`` a forward that stayed Python; ``"plumbing"`` operations that only
            rearrange; ``"fold"`` a run of identical items, whose parts are the first of them and a
            ``"rest"``; ``"range"`` a stretch of many items that have no other home.
        label: Its last name, the operation's, or of a run the first and the last.
        class_name: The module's class; of a run that of its modules.
        module: The name in records, with its call: ``"fc@1"``; empty for what has none.
        parent: The index of the item that it stands in; -1 for the model.
        family: The family of operations that it belongs to, such as ``"convolution"``.
        count: Of a run, how many times it repeats.
        marks: What is read and changed there.
        notes: Lines to tell on demand.
    """

    kind: Kind
    label: str
    class_name: str = ""
    module: str = ""
    parent: int = -1
    family: str = ""
    count: int = 1
    marks: Marks = field(default_factory=Marks)
    notes: tuple[str, ...] = ()


class Edge(NamedTuple):
    """A value on its way from one item without parts to another.

    Attributes:
        source: The index of the item that it comes from.
        target: The index of the one that takes it.
        shape: The value's shape, where a run has shown it, as ``"8×64×192"``.
    """

    source: int
    target: int
    shape: str = ""


@dataclass(frozen=True)
class Outline:
    """A model as boxes within boxes.

    Attributes:
        items: The model first; each after the item that it stands in, and after those that
            stand there too and are executed before it.
        edges: Who feeds whom.
    """

    items: tuple[Item, ...]
    edges: tuple[Edge, ...]

    def children(self) -> list[list[int]]:
        """Of each item the items that stand in it."""
        found: list[list[int]] = [[] for _ in self.items]
        for index, item in enumerate(self.items):
            if item.parent >= 0:
                found[item.parent].append(index)
        return found

    def to_json(self) -> dict[str, Any]:
        """The outline as JSON takes it; what is empty is left out."""
        return {
            "items": [_item_to_json(item) for item in self.items],
            "edges": [list(edge) for edge in self.edges],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Outline:
        """The outline that `to_json` was asked of."""
        items = tuple(map(_item_from_json, data["items"]))
        return cls(items, tuple(Edge(*edge) for edge in data["edges"]))


_PLAIN = ("label", "class_name", "module", "family", "count", "notes")


def _item_to_json(item: Item) -> dict[str, Any]:
    default = Item(item.kind, "")
    named = {name: getattr(item, name) for name in _PLAIN}
    told = {name: value for name, value in named.items() if value != getattr(default, name)}
    marks = {name: value for name, value in vars(item.marks).items() if value}
    return {"kind": item.kind, "parent": item.parent, **told, **({"marks": marks} if marks else {})}


def _item_from_json(data: Mapping[str, Any]) -> Item:
    told = {name: data[name] for name in ("kind", "parent", *_PLAIN) if name in data}
    told["notes"] = tuple(told.get("notes", ()))
    return Item(**{"label": "", **told}, marks=_marks_from_json(data.get("marks", {})))


def _marks_from_json(data: Mapping[str, Sequence[Any]]) -> Marks:
    read = {side: tuple(Mark(*mark) for mark in data.get(side, ())) for side in SIDES}
    return Marks(**read, edits=tuple(data.get("edits", ())))
