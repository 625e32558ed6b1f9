"""A diagram as an HTML page: boxes open and close, and records are shown as in a report."""

from __future__ import annotations

from taiyi_fx.monitor import Monitor
from taiyi_fx.pictures.report.contents import contents
from taiyi_fx.pictures.report.header import Graph, header, run_entry
from taiyi_fx.pictures.report.page import assemble
from taiyi_fx.pictures.report.readout import MonitorReadout


def page(graph: Graph, monitor: Monitor, *, values: bool) -> str:
    """The text of a page, which loads nothing.

    Args:
        graph: The graph and its first view.
        monitor: The source of records.
        values: True to show records; waits for those that are still being computed.
    """
    readout = MonitorReadout(monitor)
    name = monitor.info.model.rpartition(".")[2]
    if not values:
        entry = run_entry(name, readout.about(), [], [], 0)
        return assemble(header(name, [entry], graph._replace(is_alone=True), None), []).text
    found = contents(name, readout)
    texts = ((chunk.entry["id"], chunk.text()) for chunk in found.chunks)
    return assemble(header(name, [found.entry], graph, None), texts).text
