"""One function as it is interpreted."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import MutableMapping
from dataclasses import dataclass, replace
from typing import Any

from taiyi_fx.passes.capture.graph_writer import GraphWriter
from taiyi_fx.passes.capture.values import Value


@dataclass
class Frame:
    """A call of a function that is being interpreted: its variables, and the line it is at.

    Attributes:
        writer: Writes the graph.
        function: The function.
        local: Its variables.
        line: The line that is evaluated now.
    """

    writer: GraphWriter
    function: Any  # a function, which as a field's type would be taken for a method
    local: MutableMapping[str, Value]
    line: int = 0

    def nested(self) -> Frame:
        """A copy with additional variables of its own, for a comprehension."""
        return replace(self, local=ChainMap({}, self.local))
