"""The passes in order, with a lint after each; a failure names its pass."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

from torch import fx, nn

from taiyi_fx.passes.emit import emit
from taiyi_fx.passes.fuse_probes import fuse_probes
from taiyi_fx.passes.insert_probes import insert_probes
from taiyi_fx.passes.ir import Due, Mode
from taiyi_fx.passes.lower_probes import lower_probes
from taiyi_fx.passes.note import add_note
from taiyi_fx.passes.slots import Board, SlotTable
from taiyi_fx.passes.specialize import specialize


def probe_graph(
    marked: fx.Graph,
    part: nn.Module,
    table: SlotTable,
    mode: Mode | None,
    starts: Mapping[str, int],
) -> fx.Graph:
    """A marked graph with a probe for every planned reading; the marked one stays as it is.

    Args:
        marked: A traced graph.
        part: The module that its nodes name modules from.
        table: Takes the readings.
        mode: How they are kept; None makes no probes, only the edits.
        starts: How often targets were called before it in the same forward.
    """
    graph = run_pass(insert_probes, copy.deepcopy(marked), part, table, mode, starts)
    return run_pass(fuse_probes, graph, part)


def compile_due(
    probed: fx.Graph,
    due: Due,
    part: nn.Module,
    forwards: Mapping[str, Callable[..., Any]],
    board: Board | None,
) -> Callable[..., Any]:
    """A function of root and inputs that runs a probed graph and makes only the due readings.

    Args:
        probed: A graph with probes.
        due: What is due.
        part: The module that its nodes name modules from.
        forwards: The forward of each module that the graph calls, by name.
        board: That of the probes' slots, if the function is to be compiled.
    """
    graph = run_pass(specialize, probed, due, part)
    if board is not None:
        graph = run_pass(lower_probes, graph, board)
    return emit(graph, forwards)


def run_pass(
    apply: Callable[..., fx.Graph],
    graph: fx.Graph,
    *args: Any,
    check: Callable[[fx.Graph], None] | None = None,
) -> fx.Graph:
    """Applies a pass and lints what it made.

    Args:
        apply: The pass.
        graph: What it is given.
        args: What it is given besides.
        check: What else has to hold of the graph that it made.

    Raises:
        TypeError: The pass returned no graph.
        Exception: Whatever the pass, the lint or the check raised. All have a note that names the
            pass.
    """
    try:
        made = apply(graph, *args)
        if not isinstance(made, fx.Graph):
            raise TypeError(f"a pass returns the graph to go on with, not {made!r}")
        made.lint()
        if check is not None:
            check(made)
    except Exception as error:
        add_note(error, f"in the pass {_named(apply)}")
        raise
    return made


def _named(apply: Callable[..., fx.Graph]) -> str:
    owner = getattr(apply, "__module__", None) or type(apply).__module__
    return f"{getattr(apply, '__name__', repr(apply))} of {owner.partition('.')[0]}"
