"""Marks: the quantities taken and the edits made at each module."""

from __future__ import annotations

from collections.abc import Sequence

from taiyi_fx.config.subscriptions import Subscription
from taiyi_fx.outline.items import SIDES, Mark, Marks, Side
from taiyi_fx.passes.ir import GRADIENT_PORTS, VALUE_PORTS, Change, Plan


class MarksOfModules:
    """The marks of each module.

    Args:
        subscriptions: The quantities taken.
        plan: The readings and edits.
    """

    def __init__(self, subscriptions: Sequence[Subscription], plan: Plan) -> None:
        self._plan = plan
        self._found: dict[str, dict[Side, list[Mark]]] = {}
        for subscription in subscriptions:
            sides = self._found.setdefault(subscription.module, {})
            sides.setdefault(_side(subscription), []).append(_mark(subscription))

    @property
    def modules(self) -> list[str]:
        """Names of the modules with quantities."""
        return list(self._found)

    def at(self, name: str, call: int) -> Marks:
        """The marks of a call; quantities of parameters stand at the first call only."""
        found = self._found.get(name, {})
        sides = {side: tuple(found.get(side, ())) for side in SIDES}
        if call:
            sides["parameters"] = ()
        target = self._plan.get(name)
        edits = map(_edit, target.changes) if target else ()
        return Marks(**sides, edits=tuple(edits))


def _side(subscription: Subscription) -> Side:
    ports = {reading.site.port for reading in subscription.readings.values()}
    if ports.intersection(GRADIENT_PORTS):
        return "backward"
    return "forward" if ports.intersection((*VALUE_PORTS, "call", "span")) else "parameters"


def _mark(subscription: Subscription) -> Mark:
    schedules = ", ".join(map(str, subscription.schedules))
    always = schedules in ("linear(0, 0)", "linear(1, 0)")
    return Mark(subscription.label, "" if always else schedules)


def _edit(change: Change) -> str:
    side, _, is_grad = str(change.site.port).partition("_")
    function = change.function
    name = getattr(function, "__name__", type(function).__name__).strip("<>")
    pick = change.site.pick
    picked = (pick[1] or pick[0]) if isinstance(pick, tuple) else pick
    where = f"{side} {'gradient' if is_grad else 'value'}"
    return f"{where}{'' if picked is None else f' [{picked}]'} · {name}"
