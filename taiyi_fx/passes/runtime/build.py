"""Model and plan to an instrumented model: trace, install, verify."""

from __future__ import annotations

from dataclasses import dataclass

from torch import fx, nn

from taiyi_fx.passes.capture.captured import Capture
from taiyi_fx.passes.ir import Plan
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
        installation: Puts probes on the model's forwards and takes them off.
        session: Surrounds each forward of the instrumented model.
        capture: What became graphs, and what stayed Python and why.
        shown: The graph of the forward in the model's mode, to look at, run and edit.
        parts: The same for each part that a graph stands in for, by name.
        findings: What its probes will never see, by module.
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
    model: nn.Module, capture: Capture, plan: Plan, *, record_eval: bool, is_rewritten: bool
) -> Instrumented:
    """Instruments a traced model for all readings of a plan; none is due yet.

    Args:
        model: The model.
        capture: What became of it.
        plan: What is to be read and changed.
        record_eval: Whether forwards in evaluation mode are read too.
        is_rewritten: Whether passes of the user's own made the graphs, so that they run always.
    """
    table = SlotTable(plan)
    installation = Installation(
        model, capture, table, record_eval=record_eval, is_rewritten=is_rewritten
    )
    probed = {
        name: dispatcher.graphs[0].probed_graph("train")
        for name, dispatcher in installation.dispatchers.items()
        if dispatcher.graphs
    }
    findings = verify_probes(model, probed, plan, capture.python)
    session, shown = Session(installation, capture.python.keys()), ShownGraph(installation)
    return Instrumented(model, table, installation, session, capture, shown, probed, findings)
