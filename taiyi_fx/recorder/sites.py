"""The sites of a recorder: the output of every module, and the gradient of it."""

from __future__ import annotations

from torch import nn

from taiyi_fx.passes.ir import CALL_PORTS, Plan, Reading, Site, Target
from taiyi_fx.passes.module_tree import named_modules
from taiyi_fx.reductions.summary import Summary

RECORDED = (Reading(Site("output"), Summary()), Reading(Site("output_grad"), Summary()))
"""The readings of each site."""


def recorded_modules(model: nn.Module) -> list[str]:
    """Names of the modules that can be called; a list of modules, for one, cannot."""
    return [
        name
        for name, module in named_modules(model)
        if type(module).forward is not nn.Module.forward
    ]


def with_sites(plan: Plan, model: nn.Module) -> Plan:
    """A plan with the readings of a recorder, at modules and at the functions that it has."""
    functions = [name for name, target in plan.items() if target.at(*CALL_PORTS)]
    made = dict(plan)
    for name in dict.fromkeys([*recorded_modules(model), *functions]):
        target = plan.get(name, Target(name, frozenset()))
        made[name] = Target(name, target.readings | {*RECORDED}, target.changes)
    return made
