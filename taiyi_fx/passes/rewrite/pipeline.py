"""The passes in order, with a lint and a rule after each; a failure names its pass."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import fx

from taiyi_fx.passes.capture.marks import is_mark
from taiyi_fx.passes.note import add_note
from taiyi_fx.passes.rewrite.context import Context
from taiyi_fx.passes.rewrite.emit import emit
from taiyi_fx.passes.rewrite.fuse_probes import fuse_probes
from taiyi_fx.passes.rewrite.insert_probes import insert_probes, is_probe
from taiyi_fx.passes.rewrite.lower_probes import lower_probes
from taiyi_fx.passes.rewrite.specialize import is_not_due, specialize

Pass = Callable[[fx.Graph, Context], fx.Graph]

PROBE: tuple[Pass, ...] = (insert_probes, fuse_probes)
"""From a marked graph to one with a probe for every planned reading, once for each mode."""
SPECIALIZE: tuple[Pass, ...] = (specialize, lower_probes)
"""From there to the graph that runs, once for each set of due readings."""

Rule = tuple[str, Callable[[fx.Node, Context], bool]]
NOT_LEFT_BY: dict[Pass, Rule] = {
    insert_probes: ("a mark", lambda node, _: is_mark(node)),
    specialize: ("a probe of readings that are not due", is_not_due),
    lower_probes: ("a probe that was not lowered", lambda node, _: is_probe(node)),
}
"""The nodes that may not exist after a pass, beside those that torch's own lint finds."""


def probe_graph(marked: fx.Graph, context: Context) -> fx.Graph:
    """A marked graph with a probe for every planned reading; the marked one stays as it is."""
    return run_passes(PROBE, copy.deepcopy(marked), context)


def build_due(
    specialized: fx.Graph, context: Context, forwards: Mapping[str, Callable[..., Any]]
) -> Callable[..., Any]:
    """A function of root and inputs that runs a graph with probes for the due readings.

    Args:
        specialized: The graph; left as it is.
        context: The passes' context, with the due readings.
        forwards: The forward of each module that the graph calls, by name.
    """
    return emit(run_passes((lower_probes,), copy.deepcopy(specialized), context), forwards)


def run_passes(passes: Sequence[Pass], graph: fx.Graph, context: Context) -> fx.Graph:
    """Applies passes in order; after each the graph is linted, and checked by its rule."""
    for apply in passes:
        rule = NOT_LEFT_BY.get(apply)
        check = None if rule is None else functools.partial(_check, rule, context)
        graph = run_pass(apply, graph, context, check=check)
    return graph


def _check(rule: Rule, context: Context, graph: fx.Graph) -> None:
    what, is_wrong = rule
    for node in graph.nodes:
        if is_wrong(node, context):
            raise AssertionError(f"{node.format_node()} is {what}")


def run_pass(
    apply: Callable[..., fx.Graph],
    graph: fx.Graph,
    *args: Any,
    check: Callable[[fx.Graph], None] | None = None,
) -> fx.Graph:
    """Applies a pass and lints what it made.

    Args:
        apply: The pass.
        graph: Its input.
        args: Its other arguments.
        check: Raises if the graph that it made breaks a rule.

    Raises:
        TypeError: The pass did not return a graph.
        Exception: Any that the pass, the lint or the check raised. All have a note that names the
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
