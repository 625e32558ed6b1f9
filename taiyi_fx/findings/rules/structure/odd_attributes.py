"""The one module among siblings of its class and sizes that has other settings or parameters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from taiyi_fx.findings.facts.attributes import Attributes
from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.watched import grouped, role_of
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.rules.structure.layers import ODD_LAYER, number_in

_FEW = 3
"""Others that are all alike, below which nobody knows what is usual."""
_TIMES = 3.0
"""Between settings that are numbers: so much they may differ from block to block."""
_ADVICE = "Look at how the model is built, and at what changes its modules afterwards"


def odd_attributes(evidence: Evidence) -> Iterator[Finding]:
    """Modules with a setting, a mode or parameters that are not those of all their siblings.

    Not the first or the last of them, which may be made otherwise on purpose, but for a weight that
    is no parameter. Those of other sizes are no siblings: settings often follow from sizes, as
    whether a block has a shortcut.
    """
    known = evidence.model.attributes
    groups = grouped(known, lambda name: (role_of(name), known[name].kind, known[name].sizes))
    sites = {s.name: s for s in reversed(evidence.series)}
    first = next(iter(evidence.series), None)
    if first is None:
        return
    for names in groups.values():
        names.sort(key=number_in)
        for name, what in _odd_ones(names, known) if len(names) > _FEW else ():
            site = sites.get(name, first)
            text = f"{name!r} {what} of {len(names) - 1} others of its role, class and sizes"
            found = {"module": name, "advice": _ADVICE}
            yield ODD_LAYER.at(site, 0, text, "a layer like the others", **found)


def _odd_ones(names: Sequence[str], known: Mapping[str, Attributes]) -> Iterator[tuple[str, str]]:
    """The odd ones, each with the beginning of a sentence on what it is."""
    for setting in dict.fromkeys(key for name in names for key in known[name].settings):
        own = [known[name].settings.get(setting) for name in names]
        (usual, _), *others = Counter(own).most_common()
        if len(others) != 1 or others[0][1] != 1:
            continue
        odd = others[0][0]
        i = own.index(odd)
        is_end = i in (0, len(names) - 1)
        if _lacks_weight(setting, odd, usual) or (not is_end and _differ(odd, usual)):
            yield names[i], _shown(setting, odd, usual)


def _lacks_weight(setting: str, own: object, usual: object) -> bool:
    """True for parameters without the weight that others have, which nobody leaves out."""
    if setting != "parameters":
        return False
    has, usually = ({*str(names).split(", ")} for names in (own, usual))
    return "weight" in usually - has


def _differ(own: float | bool | str | None, usual: float | bool | str | None) -> bool:
    if type(own) is float and type(usual) is float:
        least, most = sorted((abs(own), abs(usual)))
        return own != usual and most > _TIMES * least
    return own != usual


def _shown(setting: str, own: object, usual: object) -> str:
    if setting == "parameters":
        return f"has the parameters {own or 'none'!s}, and not {usual or 'none'!s}, as those"
    if setting == "training":
        return f"is in {'training' if own else 'evaluation'} mode, unlike those"
    return f"has {setting}={own!r}, and not {usual!r}, which is that"
