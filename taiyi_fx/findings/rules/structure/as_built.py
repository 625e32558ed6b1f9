"""Modules that are hidden, frozen or repeated as nobody may have meant."""

from __future__ import annotations

from collections.abc import Iterator

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind

HIDDEN_LAYERS = Kind(
    "hidden_layers",
    "warning",
    "Keep them in a torch.nn.ModuleList or ModuleDict, and build the optimizer after that: of a "
    "list, parameters() has nothing, nor has to() or state_dict(). If they are meant to stay as "
    "they are, freeze them by requires_grad_(False)",
)


def hidden_layers(evidence: Evidence) -> Iterator[Finding]:
    """Modules that a list of Python keeps: they get gradients, and nothing trains them.

    A list of one is how a module is hidden on purpose, as a network whose features a loss compares.
    """
    for (module, attribute), count in evidence.optimizer.hidden.items():
        of = f"of {module!r} " if module else ""
        text = (
            f"the list {attribute!r} {of}keeps {count} module{'s' * (count > 1)} that torch does "
            "not see: gradients reach their parameters, which no optimizer has"
        )
        given = {"module": module, "severity": "warning" if count > 1 else "note"}
        yield HIDDEN_LAYERS.at(evidence.series[0], -1, text, "a ModuleList", **given)


FROZEN_ADAPTERS = Kind(
    "frozen_adapters",
    "warning",
    "Freeze the model before adapters are put in, or call requires_grad_(True) for them; peft's "
    "from_pretrained takes is_trainable=True",
)


def frozen_adapters(evidence: Evidence) -> Iterator[Finding]:
    """Adapters of which none is trained, in a model of which something else is."""
    names = evidence.model.frozen_adapters
    if names and evidence.series:
        more = f" and {len(names) - 1} more" if names[1:] else ""
        text = (
            f"no adapter is trained: those of {names[0]!r}{more} do not require gradients, though "
            "other parameters do"
        )
        yield FROZEN_ADAPTERS.at(evidence.series[0], 0, text, "trained ones", module=names[0])


IDLE_SWITCH = Kind(
    "idle_switch",
    "warning",
    "Call module.requires_grad_(True) or (False), which reaches all its parameters; and build the "
    "optimizer after that, if it is given those alone that require a gradient",
)


def idle_switches(evidence: Evidence) -> Iterator[Finding]:
    """Attributes that are to freeze or to train something, and that nothing reads."""
    every = [*evidence.model.idle_switches.items()]
    if not every or not evidence.series:
        return
    name, told = every[0]
    what = "its parameters are" if name in evidence.model.attributes else "it is"
    how = "frozen" if told.endswith("True") else "trained"
    text = f"{name!r} has an attribute {told} of its own, which does nothing: {what} {how}"
    yield IDLE_SWITCH.at(evidence.series[0], 0, text, module=name)


_DIFFERENT = ("expert", "experts", "heads")
"""The ends of names of lists whose entries are to come to differ: a router chooses among them, or
each has a task of its own.
"""
SHARED_ENTRIES = Kind(
    "shared_entries",
    "note",
    "Nothing is wrong where they are meant to share their weights; if they should differ, make "
    "each anew: [layer] * n repeats one",
)


def shared_entries(evidence: Evidence) -> Iterator[Finding]:
    """Each list of modules that holds one module several times."""
    first = next(iter(evidence.series), None)
    if first is None:
        return
    for name, count in evidence.model.repeated.items():
        where = repr(name) if name else "the model"
        text = f"{count} entries of {where} are one module, with the same weights"
        others = {"module": name, "quantity": "", "value": float(count)}
        if name.rpartition(".")[2].lower().endswith(_DIFFERENT):
            others["severity"] = "warning"
        yield SHARED_ENTRIES.at(first, 0, text, "1", **others)


SAME_MASK = Kind(
    "same_mask",
    "warning",
    "Turn the mask round in every other one, 1 - mask: what no module changes stays as it is given",
)


def same_masks(evidence: Evidence) -> Iterator[Finding]:
    """Masks of couplings that all leave the same features as they are."""
    first = next(iter(evidence.series), None)
    if first is None:
        return
    for name, count in evidence.model.same_masks.items():
        kind = evidence.model.attributes[name].kind.rpartition(".")[2]
        text = (
            f"all {count} modules of class {kind} have the same mask of 0 and 1, {name!r} the first"
        )
        others = {"module": name, "quantity": "", "value": float(count)}
        yield SAME_MASK.at(first, 0, text, "masks that take turns", **others)
