"""The one module among siblings whose forward is not that of all others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from typing import NamedTuple

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.forwards import OUTSIDE, Forward
from taiyi_fx.findings.facts.watched import grouped, role_of
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind

_FEW = 3
"""Others that are all alike, below which nobody knows what is usual."""
_CUTS = frozenset({"detach()", "data()"})
"""Functions from which no gradient comes back."""
_ADDS = frozenset({"add()", "iadd()"})
_SHOWN = 2
"""Differences in a sentence."""

ODD_FORWARD = Kind(
    "odd_forward",
    "warning",
    "Look at its forward, and at what it is called with: x + f(x) and a function between two "
    "layers are for each block, and a detach() of one alone is mostly left from a trial",
)


class _Odd(NamedTuple):
    """A forward that is not that of its siblings.

    Attributes:
        forward: It.
        usual: That of all siblings.
        siblings: Their number.
    """

    forward: Forward
    usual: Forward
    siblings: int

    @property
    def calls(self) -> dict[str, tuple[int, int]]:
        """How often it calls what it does not call as often as its siblings, and how often they."""
        return self.forward.calls_beside(self.usual)

    @property
    def cuts(self) -> list[str]:
        """The functions by which it alone cuts gradients."""
        return [name for name, (own, usual) in self.calls.items() if name in _CUTS and own > usual]


def odd_forwards(evidence: Evidence) -> Iterator[Finding]:
    """Modules that alone of all of their role, sizes and parts call something else.

    Not the first or the last of them, which may do so on purpose, unless it cuts gradients; nor one
    with settings of its own, which say that it is meant to; nor one that leaves out a layer, as
    those do that are dropped at random.
    """
    parts, known, forwards = _parts_of(evidence), evidence.model.attributes, evidence.flow.forwards

    def alike(name: str) -> Hashable:
        return role_of(name), known[name].sizes, parts[name], forwards[name].is_followed

    groups = grouped(parts, alike)
    sites = {s.name: s for s in reversed(evidence.series)}
    for names in groups.values():
        found = _odd_one(names, parts[names[0]], evidence) if len(names) > _FEW else None
        if found is not None:
            name, odd = found
            site = sites.get(name) or evidence.series[0]
            text = f"{name!r} {_difference(odd)}"
            yield ODD_FORWARD.at(site, 0, text, "what its siblings do", module=name)


def _parts_of(evidence: Evidence) -> dict[str, tuple[str, ...]]:
    """The names of the modules within each module whose forward is known."""
    known = evidence.model.attributes
    found: dict[str, list[str]] = {name: [] for name in known if name in evidence.flow.forwards}
    for module in known:
        parts = module.split(".")
        for i in range(1, len(parts)):
            if (around := ".".join(parts[:i])) in found:
                found[around].append(".".join(parts[i:]))
    return {name: tuple(within) for name, within in found.items()}


def _odd_one(
    names: Sequence[str], within: Sequence[str], evidence: Evidence
) -> tuple[str, _Odd] | None:
    """The odd one of some siblings, if there is one that is not meant to be."""
    own = [evidence.flow.forwards[name] for name in names]
    (usual, siblings), *others = Counter(own).most_common()
    if [count for _, count in others] != [1]:
        return None
    i = own.index(others[0][0])
    odd = _Odd(own[i], usual, siblings)
    is_end = i in (0, len(names) - 1)
    if (is_end and not odd.cuts) or _leaves_out_a_layer(names[i], odd, evidence):
        return None
    return None if _is_built_otherwise(i, names, within, odd, evidence) else (names[i], odd)


def _leaves_out_a_layer(name: str, odd: _Odd, evidence: Evidence) -> bool:
    left_out = (f"{name}.{call}" for call, (own, _) in odd.calls.items() if not own)
    return any(
        evidence.model.attributes[part].sizes
        for part in left_out
        if part in evidence.model.attributes
    )


def _is_built_otherwise(
    i: int, names: Sequence[str], within: Sequence[str], odd: _Odd, evidence: Evidence
) -> bool:
    """True if the odd one, or a part of it, has an attribute or a class that all others have not.

    A class of its own is none that explains why it leaves something out.
    """
    adds_calls = any(own > usual for name, (own, usual) in odd.calls.items() if name not in _CUTS)
    for part in ("", *within):
        every = [evidence.model.attributes[f"{name}.{part}" if part else name] for name in names]
        settings = [{**one.settings, **one.numbers} for one in every]
        if part or adds_calls:
            settings = [own | {"class": one.kind} for own, one in zip(settings, every, strict=True)]
        for key in {key for own in settings for key in own}:
            values = [own.get(key, ...) for own in settings]
            others = {*values[:i], *values[i + 1 :]}
            if len(others) == 1 and values[i] not in others:
                return True
    return False


def _difference(odd: _Odd) -> str:
    """The difference to its siblings, as the end of a sentence."""
    ordered = sorted(odd.calls, key=lambda name: (name not in _CUTS, name not in _ADDS, name))
    every = [_of_call(name, odd) for name in ordered] or [*_of_ways(odd)]
    return " and ".join(every[:_SHOWN])


def _of_call(name: str, odd: _Odd) -> str:
    (own, usual), siblings = odd.calls[name], f"its {odd.siblings} siblings"
    if own < usual and name in _ADDS and (OUTSIDE, name) in odd.usual.ways - odd.forward.ways:
        # Of a function that autograd does not know, as behind detach(), nothing is seen there.
        cut = ", or not so that a gradient passes" if odd.forward.is_followed else ""
        return f"does not add its input{cut}, as {siblings} do"
    if not own:
        return f"does not call {_shown(name)}, as {siblings} do"
    if not usual:
        return f"calls {_shown(name)}, which none of {siblings} does"
    return f"calls {_shown(name)} {_times(own)}, and {siblings} {_times(usual)}"


def _of_ways(odd: _Odd) -> Iterator[str]:
    """The ways between calls that it has not, or else alone has."""
    for source, target in sorted(odd.usual.ways - odd.forward.ways):
        yield f"does not {_way(source, target)}, as its {odd.siblings} siblings do"
    for source, target in sorted(odd.forward.ways - odd.usual.ways):
        yield f"is the only one of {odd.siblings + 1} to {_way(source, target)}"


def _way(source: str, target: str) -> str:
    made = f"what {_shown(source)} makes" if source else "its input"
    return f"give {_shown(target)} {made}" if target else f"return {made}"


def _shown(call: str) -> str:
    """A function in code, a module by its name."""
    return f"`{call.removesuffix('()')}`" if call.endswith("()") else repr(call)


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")
