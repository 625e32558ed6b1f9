"""Models compiled for a few readings, by the compiler alone."""

from __future__ import annotations

import torch
from torch import nn

from taiyi_fx.passes.capture.captured import TraceTargets
from taiyi_fx.passes.capture.trace import trace
from taiyi_fx.passes.ir import Reading, Site, Target
from taiyi_fx.passes.runtime.build import build
from taiyi_fx.reductions import Norm

OUTPUT, GRADIENT = Reading(Site("output"), Norm()), Reading(Site("output_grad"), Norm())


class Python(nn.Module):
    """Stays Python; its layers are called from it."""

    def __init__(self):
        super().__init__()
        self.fc, self.head = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        with torch.enable_grad():
            return self.head(self.fc(x).relu())


def plan_of(*names):
    return {name: Target(name, frozenset({OUTPUT, GRADIENT})) for name in names}


def compiled(model, *names, record_eval=False):
    capture = trace(model, TraceTargets(names, evaluation=record_eval))
    return build(model, capture, plan_of(*names), record_eval=record_eval, is_rewritten=False)


def due(*names):
    return frozenset((name, reading) for name in names for reading in (OUTPUT, GRADIENT))


def run(made, x):
    """A forward of the model in its session, as the instrumented object begins it."""
    return made.session(made.root, (x,), {})


def found(made, name, call=0, mode="train"):
    """What was read of a call, by port."""
    made.table.board.measure()
    made.table.board.held.settle()
    slots = made.table.at(mode, name, call)
    return {r.site.port: None if s.state is None else float(s.state[0]) for r, s in slots.items()}
