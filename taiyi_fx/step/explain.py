"""The reason why a series has no value at a step, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import nn

from taiyi_fx.config.subscriptions import Subscription
from taiyi_fx.quantities.declare import find_quantity, quantity_names
from taiyi_fx.quantities.source import NotApplicable
from taiyi_fx.records.record import Records, Series
from taiyi_fx.schedule import NEVER, is_any_due
from taiyi_fx.suggestion import suggestion

_HORIZON = 100_000


@dataclass(frozen=True)
class Known:
    """The facts that a monitor knows.

    Attributes:
        modules: The model's, by name.
        subscriptions: The configured quantities.
        records: The records so far.
        missing: The reason for each value that was missing when last due.
        next_step: The step to come.
        raised: Steps at which every adaptive schedule is due.
    """

    modules: Mapping[str, nn.Module]
    subscriptions: Sequence[Subscription]
    records: Records
    missing: Mapping[Series, str]
    next_step: int
    raised: range = NEVER


def explain(module: str, quantity: str, known: Known) -> str:
    """A text on a series: its last value, why there is none, or that it is not configured.

    Raises:
        LookupError: There is no such module or quantity.
    """
    name = module.split("@")[0]
    here = [s for s in known.subscriptions if s.module == name]
    asked = [s for s in here if _names(s, quantity)]
    if asked:
        return "\n".join(_of_series(module, s, known) for s in asked)
    steps = _steps(module, quantity, known)
    if steps:  # logged by the user, or of all layers together
        shown = f"{quantity} of {module or 'the model'!r}"
        return f"{shown}: its last value is that of step {max(steps)}"
    return _not_asked(name, quantity, here, known)


def _names(subscription: Subscription, quantity: str) -> bool:
    # Parts of a value, such as RankMe.N, are explained by the quantity; and a quantity by all of
    # its series, such as UpdateRatio.weight.
    is_part = quantity.startswith(f"{subscription.label}.")
    return is_part or quantity in (subscription.label, subscription.quantity.name)


def _of_series(module: str, asked: Subscription, known: Known) -> str:
    steps = _steps(module, asked.label, known)
    last = f"its last value is that of step {max(steps)}" if steps else "it has no value yet"
    shown = f"{asked.label} of {module or 'the model'!r}"
    why = known.missing.get((module, asked.label))
    horizon = range(known.next_step, known.next_step + _HORIZON)
    due = next((s for s in horizon if is_any_due(asked.schedules, s, known.raised)), None)
    then = f"it is next due at step {due}" if due is not None else "it is not due any more"
    then = f"on {', '.join(map(str, asked.schedules))} {then}"
    if why is not None:
        return f"{shown}: it had none when it was last due: {why}; {last}; {then}"
    return f"{shown}: {last}; {then}"


def _steps(module: str, label: str, known: Known) -> set[int]:
    """The steps at which a series, or a part of it, has a value."""
    return {
        record.step
        for record in known.records.select(module=module)
        if record.quantity == label or record.quantity.startswith(f"{label}.")
    }


def _not_asked(name: str, quantity: str, here: Sequence[Subscription], known: Known) -> str:
    of_functions = {s.module: None for s in known.subscriptions}
    names = list({**known.modules, **of_functions})
    if name not in names:
        raise LookupError(f"the model has no module {name!r}.{suggestion(name, names)}")
    found = find_quantity(quantity)
    if found is None:
        labels = [*dict.fromkeys(s.label for s in here), *quantity_names()]
        raise LookupError(f"no quantity is named {quantity!r}.{suggestion(quantity, labels)}")
    text = f"{quantity} is not configured for {name or 'the model'!r}: no key there lists it"
    try:
        if name in known.modules:
            found.for_each(known.modules[name], {})
    except NotApplicable as lacking:
        kind = type(known.modules[name]).__name__
        text += f"; it is not available there, as {name or 'the model'!r} ({kind}) {lacking}"
    return text
