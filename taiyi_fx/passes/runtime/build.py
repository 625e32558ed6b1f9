"""Model and plan to an instrumented model: trace, install, verify."""

from __future__ import annotations

from dataclasses import dataclass

from torch import fx, nn

from taiyi_fx.passes.capture.captured import Capture
from taiyi_fx.passes.ir import Plan, Target
from taiyi_fx.passes.probes.table import SlotTable
from taiyi_fx.passes.rewrite.verify_probes import verify_probes
from taiyi_fx.passes.runtime.install import Installation
from taiyi_fx.passes.runtime.session import Session
from taiyi_fx.passes.runtime.shown_graph import ShownGraph


@dataclass(frozen=True)
class Instrumented:
    """An instrumented model and what belongs to it.

    Attributes:
        root: The model.
        table: The slots that its probes fold into.
        installation: Installs and removes the overrides of the model's forwards.
        session: Surrounds each forward of the instrumented model.
        capture: The graphs, and the forwards that stayed Python, with the reasons.
        shown: The graph of the forward in the model's mode, to print, run and edit.
        parts: The same for each part that a graph stands in for, by name.
        findings: The reasons why probes will never see something, by module.
    """

    root: nn.Module
    table: SlotTable
    installation: Installation
    session: Session
    capture: Capture
    shown: ShownGraph
    parts: dict[str, fx.Graph]
    findings: dict[str, str]


def build(
    model: nn.Module,
    capture: Capture,
    plan: Plan,
    *,
    record_eval: bool,
    is_rewritten: bool,
    asked: Plan | None = None,
) -> Instrumented:
    """Instruments a traced model for all readings of a plan; none is due yet.

    Args:
        model: The model.
        capture: The model's graphs.
        plan: The planned readings and changes.
        record_eval: True if forwards in evaluation mode are read too.
        is_rewritten: True if the user's own passes made the graphs, which then run at each call.
        asked: Those readings of the plan that somebody asked for by name, if not all: of others
            nothing is said where they will see nothing.
    """
    # Graphs have marks at all calls of a function, also where nothing is asked of them.
    sites = {site: Target(site, frozenset()) for site in capture.functions}
    table = SlotTable({**sites, **plan})
    installation = Installation(
        model, capture, table, record_eval=record_eval, is_rewritten=is_rewritten
    )
    probed = {
        name: dispatcher.graphs[0].probed_graph("train")
        for name, dispatcher in installation.dispatchers.items()
        if dispatcher.graphs
    }
    findings = verify_probes(model, probed, plan if asked is None else asked, capture.python)
    session, shown = Session(installation, capture.python.keys()), ShownGraph(installation)
    return Instrumented(model, table, installation, session, capture, shown, probed, findings)
