"""Graphs to look at after a pass, and what to look at."""

import torch

from taiyi_fx.passes.capture.captured import TraceTargets
from taiyi_fx.passes.capture.trace import trace
from taiyi_fx.passes.ir import Change, Reading, Site, Target
from taiyi_fx.passes.probes.table import SlotTable
from taiyi_fx.passes.rewrite.context import Context
from taiyi_fx.passes.rewrite.emit import emit
from taiyi_fx.passes.rewrite.insert_probes import is_probe
from taiyi_fx.passes.rewrite.pipeline import PROBE, run_passes
from taiyi_fx.reductions import Norm

VALUE, GRADIENT = ("input", "output"), ("input_grad", "output_grad")


def plan(*names, ports=VALUE + GRADIENT):
    readings = frozenset(Reading(Site(port), Norm()) for port in ports)
    return {name: Target(name, readings) for name in names}


def probed(model, names, ports=VALUE + GRADIENT, fuse=True):
    table = SlotTable(plan(*names, ports=ports))
    (captured, *_) = trace(model, TraceTargets(names)).graphs[""]
    passes = PROBE if fuse else PROBE[:1]
    return run_passes(passes, captured.graph, Context(model, table)), table


def edited(model, at):
    """The graph of two modules that are read, the second of which has an edit too."""
    plans = plan("0", "1")
    plans["1"] = Target("1", plans["1"].readings, (Change(Site(at), torch.neg),))
    table = SlotTable(plans)
    (captured, *_) = trace(model, TraceTargets(plans.keys())).graphs[""]
    return run_passes(PROBE, captured.graph, Context(model, table)), table


def probes(graph):
    return {n.target.__name__: sorted(f"{s.module}.{s.reading.site}" for s in n.target.slots) for n in graph.nodes if is_probe(n) and n.target.slots}  # fmt: skip


def ran(graph, model, x):
    forwards = {n: m.forward for n, m in model.named_modules()}
    return emit(graph, forwards)(model, x)
