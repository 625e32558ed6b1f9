"""The data of an outline: boxes within boxes, the quantities taken there, and the edges."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeVar, get_args

T = TypeVar("T")

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
        quantity: Its name in records; for several numbers, their common beginning.
        schedule: Its schedule as text; empty for every step.
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
        edits: Edits of values and gradients, as texts.
    """

    forward: tuple[Mark, ...] = ()
    backward: tuple[Mark, ...] = ()
    parameters: tuple[Mark, ...] = ()
    edits: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.has_readings or bool(self.edits)

    @property
    def has_readings(self) -> bool:
        """True if any quantity is taken there."""
        return bool(self.forward or self.backward or self.parameters)


@dataclass(frozen=True)
class Item:
    """One box of an outline, with or without boxes inside.

    Attributes:
        kind: ``"container"`` is a module that is never called, such as a ModuleList;
            ``"python"`` a forward that stayed Python; ``"plumbing"`` operations that only
            rearrange; ``"fold"`` a run of identical items, whose parts are the first of them and a
            ``"rest"``; ``"range"`` a stretch of many items that have no other home.
        label: The last part of the module's name, the operation's name, or the first and the last
            of a run.
        class_name: The module's class; for a run, that of its modules.
        module: The name in records, with its call: ``"fc@1"``; empty without one.
        parent: The index of the item around it; -1 for the model.
        family: The family of operations that it belongs to, such as ``"convolution"``.
        count: For a run, the number of repetitions.
        marks: The quantities taken and the edits made there.
        notes: Further lines for its tooltip.
        is_called: False for a module that no forward calls.
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
    is_called: bool = True

    @property
    def is_of_modules(self) -> bool:
        """True for a module or several, and not for operations, or for a forward as a whole."""
        if self.kind in ("fold", "rest", "range"):
            return bool(self.class_name)
        return self.kind in ("module", "container") or (self.kind == "python" and bool(self.module))


MODULES = ("module", "python")
"""The kinds of items that are calls of modules."""

STAYED_PYTHON = "its forward stayed Python: "
"""The beginning of a note that says why."""


class Edge(NamedTuple):
    """A data flow edge, from one item without parts to another.

    Attributes:
        source: The index of the item that it comes from.
        target: The index of the item that receives it.
        shape: The value's shape, such as ``"8×64×192"``; empty if no run has shown it.
    """

    source: int
    target: int
    shape: str = ""


@dataclass(frozen=True)
class Outline:
    """A model as boxes within boxes.

    Attributes:
        items: The model first; each item after its parent, and siblings in order of execution.
        edges: The data flow between items without parts.
    """

    items: tuple[Item, ...]
    edges: tuple[Edge, ...]

    def children(self) -> list[list[int]]:
        """The indices of each item's children."""
        found: list[list[int]] = [[] for _ in self.items]
        for index, item in enumerate(self.items):
            if item.parent >= 0:
                found[item.parent].append(index)
        return found

    @functools.cached_property
    def edges_into(self) -> Mapping[int, Sequence[Edge]]:
        """The edges from elsewhere to each item that has any, or to what is within it, by index."""
        found: dict[int, list[Edge]] = {}
        for edge in self.edges:
            around = {*self.around(edge.source)}
            for i in self.around(edge.target):
                if i in around:
                    break
                found.setdefault(i, []).append(edge)
        return found

    @functools.cached_property
    def edges_out_of(self) -> Mapping[int, Sequence[Edge]]:
        """The edges to elsewhere from each item that has any, or from what is within it."""
        found: dict[int, list[Edge]] = {}
        for edge in self.edges:
            around = {*self.around(edge.target)}
            for i in self.around(edge.source):
                if i in around:
                    break
                found.setdefault(i, []).append(edge)
        return found

    def around(self, index: int) -> Iterator[int]:
        """An item and those that it is in, from the inside."""
        while index >= 0:
            yield index
            index = self.items[index].parent

    @functools.cached_property
    def places(self) -> Mapping[str, Sequence[int]]:
        """The indices of the items of each module, by its name in records."""
        found: dict[str, list[int]] = {}
        for index, item in enumerate(self.items):
            if item.module:
                found.setdefault(item.module, []).append(index)
        return found

    def to_json(self) -> dict[str, Any]:
        """The outline as JSON data; empty fields are left out."""
        return {
            "items": [_item_to_json(item) for item in self.items],
            "edges": [list(edge) for edge in self.edges],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Outline:
        """The inverse of `to_json`, for data of any origin.

        Raises:
            LookupError: A part is missing.
            TypeError: A part is of another type.
            ValueError: It is no valid outline: an item comes before its parent, or an edge leads
                to none.
        """
        items = tuple(map(_item_from_json, data["items"]))
        edges = tuple(_checked(Edge(*edge), _EDGE) for edge in data["edges"])
        for index, item in enumerate(items):
            if not (0 <= item.parent < index or item.parent == -1 == index - 1):
                raise ValueError(f"the item {index} of the outline is in the item {item.parent}")
        for edge in edges:
            if not (0 <= edge.source < len(items) and 0 <= edge.target < len(items)):
                raise ValueError(f"an edge of the outline is from {edge.source} to {edge.target}")
        if not items:
            raise ValueError("the outline has no items")
        return cls(items, edges)


_EDGE = {"source": int, "target": int, "shape": str}
_MARK = {"quantity": str, "schedule": str}
_ITEM = {
    "label": str,
    "class_name": str,
    "module": str,
    "parent": int,
    "family": str,
    "count": int,
    "is_called": bool,
}
_PLAIN = ("label", "class_name", "module", "family", "count", "notes", "is_called")


def _item_to_json(item: Item) -> dict[str, Any]:
    default = Item(item.kind, "")
    named = {name: getattr(item, name) for name in _PLAIN}
    fields = {name: value for name, value in named.items() if value != getattr(default, name)}
    marks = {name: value for name, value in vars(item.marks).items() if value}
    if marks:
        fields["marks"] = marks
    return {"kind": item.kind, "parent": item.parent, **fields}


def _item_from_json(data: Mapping[str, Any]) -> Item:
    fields = {name: data[name] for name in ("kind", "parent", *_PLAIN) if name in data}
    fields["notes"] = _texts(fields.get("notes", ()))
    item = Item(**{"label": "", **fields}, marks=_marks_from_json(data.get("marks", {})))
    if item.kind not in get_args(Kind) or _checked(item, _ITEM).count < 1:
        raise ValueError(f"the outline has {item.count} items of the kind {item.kind!r}")
    return item


def _marks_from_json(data: Mapping[str, Sequence[Any]]) -> Marks:
    if unknown := set(data) - {*SIDES, "edits"}:
        raise ValueError(f"the outline has marks of {unknown}")
    read = {side: tuple(_checked(Mark(*m), _MARK) for m in data.get(side, ())) for side in SIDES}
    return Marks(**read, edits=_texts(data.get("edits", ())))


def _checked(made: T, kinds: Mapping[str, type]) -> T:
    """A part of an outline, once its fields are of their types."""
    for name, kind in kinds.items():
        value = getattr(made, name)
        if type(value) is not kind:
            raise TypeError(f"{name} is {type(value).__name__} in the outline, not {kind.__name__}")
    return made


def _texts(values: Sequence[Any]) -> tuple[str, ...]:
    if isinstance(values, str) or not all(isinstance(value, str) for value in values):
        raise TypeError(f"in the outline, notes and edits are texts, not {str(values)[:40]}")
    return tuple(values)
