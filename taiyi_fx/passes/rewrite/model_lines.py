"""The lines of the model's own code in the traceback of an error that a graph's function raised.

A graph runs in place of the model's Python: each operation notes the lines that lead to it, and a
traceback gets these in place of the emitted function's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import FrameType, FunctionType, TracebackType

from torch import fx

from taiyi_fx.passes.capture.graph_writer import LINES

Lines = tuple[tuple[str, str, int], ...]
"""Files, names of functions and lines, from the outermost call to the innermost."""

_GLOBAL = "_lines_of_model"
_PASS_ON = ("taiyi_fx.passes.flow.", "taiyi_fx.passes.rewrite.")
"""The modules whose functions only pass calls on: no error is of their own."""
_MADE = re.compile(r"    (\w+) = ")


def lines_by_number(graph: fx.Graph, source: str) -> dict[str, dict[int, Lines]]:
    """An entry for an emitted function's globals: the model's lines, by the number of its own."""
    noted = {node.name: node.meta[LINES] for node in graph.nodes if LINES in node.meta}
    found: dict[int, Lines] = {}
    for number, line in enumerate(source.splitlines(), 1):
        made = _MADE.match(line)
        if made and made[1] in noted:
            found[number] = noted[made[1]]
    return {_GLOBAL: found}


def with_model_lines(traceback: TracebackType | None) -> TracebackType | None:
    """A traceback with the lines of the model in place of those of emitted functions."""
    entries: list[TracebackType] = []
    while traceback is not None:
        entries.append(traceback)
        traceback = traceback.tb_next
    below: TracebackType | None = None
    for entry in reversed(entries):
        known = entry.tb_frame.f_globals
        noted: Mapping[int, Lines] = known.get(_GLOBAL, {})
        lines = noted.get(entry.tb_lineno)
        if lines is None and not str(known.get("__name__")).startswith(_PASS_ON):
            below = TracebackType(below, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
        for file, name, line in reversed(lines or ()):
            # Without an instruction, whose columns would be marked in the line that is shown.
            below = TracebackType(below, _frame_in(file, name), -1, line)
    return below


def _frame_in(file: str, name: str) -> FrameType:
    """A frame of a function of a file: that of a generator which is never run.

    Unlike one that has run it leads back to no other, so that no cycle keeps what these hold: a
    training that catches its error, as of too little memory, has the memory back at once.
    """
    code = _nothing.__code__.replace(co_filename=file, co_name=name)
    return FunctionType(code, {"__file__": file})().gi_frame


def _nothing() -> Iterator[None]:
    yield
