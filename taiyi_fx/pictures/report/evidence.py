"""The quantities in which a finding is seen best, of those that a run has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from taiyi_fx.findings import Finding
from taiyi_fx.findings.facts.telling import Telling
from taiyi_fx.records.record import Series

Tellings: TypeAlias = Mapping[Series, Telling]
"""How much series of numbers tell, by the module and the quantity of each."""

_SHOWN_BY: Mapping[str, tuple[str, ...]] = {
    "rank_collapse": ("OutputVariation",),
    "moving_statistics": ("MeanTID", "VarTID"),
}
"""The quantities that show a kind better than the one by which its rule found it."""

_STANDING_STILL = ("no_update", "hidden_layers", "detached", "missing_gradient")
"""The kinds that a step of exactly zero shows."""


def evidence_of(found: Finding, telling: Tellings) -> str:
    """The quantity that shows a finding best: that of its rule, or one that its kind names."""
    for wanted in _SHOWN_BY.get(found.kind, ()):
        for module, quantity in telling:
            if quantity == wanted and is_within(module, found.module):
                return quantity
    if found.kind in _STANDING_STILL:
        for (module, quantity), how in telling.items():
            is_step = quantity.partition(".")[0] == "UpdateRatio"
            if is_step and how.last == 0 and is_within(module, found.module):
                return quantity
    return found.quantity


def opening_of(found: Finding, telling: Tellings) -> str:
    """The quantity that a page opens on for a finding; empty where none of its module is of use.

    In place of the loss, which is in sight all the time, it is what tells most of the module.
    """
    quantity = evidence_of(found, telling)
    if not is_loss(quantity):
        return quantity
    scores = {
        one: how.score
        for (module, one), how in telling.items()
        if found.module and is_within(module, found.module)
    }
    return max(scores, key=scores.__getitem__, default="")


def is_within(module: str, outer: str) -> bool:
    """True for a module itself and for those in it; of the model as a whole, for itself alone."""
    return module == outer or (outer != "" and module.startswith(f"{outer}."))


def is_loss(quantity: str) -> bool:
    """True for a number that is logged as a loss, by its name."""
    return "loss" in quantity.lower()
