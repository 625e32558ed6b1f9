"""What a diagram is made of: boxes with the quantities read and the edits made at them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, cast

import networkx as nx

Kind = Literal["module", "op", "input", "output", "parameter", "python"]


@dataclass(frozen=True)
class Marks:
    """The quantities taken and the edits made at a box, as texts.

    Attributes:
        forward: From values, on their way forward.
        backward: From gradients, on their way back.
        parameters: From the module's own parameters.
        edits: Changes of what passes.
    """

    forward: tuple[str, ...] = ()
    backward: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    edits: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.has_readings or bool(self.edits)

    @property
    def has_readings(self) -> bool:
        """Whether anything is read there."""
        return bool(self.forward or self.backward or self.parameters)


@dataclass(frozen=True)
class Box:
    """One node of the diagram.

    Attributes:
        kind: What it is.
        label: Its last name, or the operation's.
        class_name: The module's class.
        path: The module's dotted name.
        scope: The modules that it stands in, from the outside in.
        marks: What is read and changed there.
        notes: Lines for the tooltip.
    """

    kind: Kind
    label: str
    class_name: str = ""
    path: str = ""
    scope: tuple[str, ...] = ()
    marks: Marks = field(default_factory=Marks)
    notes: tuple[str, ...] = ()


def boxes(graph: nx.DiGraph) -> Iterator[tuple[str, Box]]:
    """The graph's nodes with their boxes."""
    return cast(Any, iter(graph.nodes(data="box")))
