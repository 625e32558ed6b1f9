"""Settings of single layers that nobody means: dropouts of all, norms that do not normalise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.of_layers import LayerSettings
from taiyi_fx.findings.facts.robust import median
from taiyi_fx.findings.facts.watched import Watched, grouped, names_of
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind

_MOST_DROPPED = 0.9
_EPSILON = 0.01
"""More than any norm's usual one, which is 0.001 at most."""
_MOMENTUM = 0.9
_FEW = 3
"""Others of a role that are all of one class."""
_FROZEN = 0.5
"""The share of the modules with weights that is frozen where a backbone is."""

HEAVY_DROPOUT = Kind(
    "heavy_dropout",
    "warning",
    "Its argument is the share that is set to zero, not the one that is kept: 0.1 to 0.5 is usual",
)
LARGE_EPSILON = Kind(
    "large_epsilon",
    "warning",
    "Look at its eps, which is there to avoid a division by zero: 1e-5 is usual",
)
LARGE_MOMENTUM = Kind(
    "large_momentum",
    "warning",
    "In torch, momentum is the weight of the latest batch: 0.1 is usual, and what other libraries "
    "call a momentum of 0.99 is 0.01",
)
MOVING_STATISTICS = Kind(
    "moving_statistics",
    "note",  # many tune a model so, and it adapts to the new data by it
    "To keep the backbone as it is, call eval() on its BatchNorms after each model.train(): "
    "requires_grad_(False) keeps their weights alone",
)

ODD_LAYER = Kind(
    "odd_layer",
    "warning",
    "Look at how the model is built: one layer among many that is of another class, or left out",
)


def odd_layers(evidence: Evidence) -> Iterator[Finding]:
    """Layers with settings that no model is meant to have."""
    known = [*_known(evidence)]
    dropping = [s for s, own in known if own.drops >= _MOST_DROPPED]
    if dropping:
        share = evidence.model.settings[dropping[0].name].drops
        yield _of(HEAVY_DROPOUT, dropping, f"sets {share:.3g} of what passes it to zero", share)
    yield from _epsilons([(s, own.epsilon) for s, own in known], evidence)
    latest = [s for s, own in known if own.momentum >= _MOMENTUM]
    if latest:
        share = evidence.model.settings[latest[0].name].momentum
        why = f"has a momentum of {share:.3g}: its running statistics are those of the last batch"
        yield _of(LARGE_MOMENTUM, latest, why, share)
    yield from _of_other_class(known)
    yield from _moving([s for s, own in known if own.is_moving], evidence)


def _of_other_class(known: Sequence[tuple[Watched, LayerSettings]]) -> Iterator[Finding]:
    """The one activation or norm among others whose class is not that of all of these.

    Not the first or the last of them, which may stand elsewhere in a model on purpose.
    """
    layers = [(site, own.kind) for site, own in known if own.kind]
    for group in grouped(layers, lambda one: _family(*one)).values():
        group.sort(key=lambda one: number_in(one[0].name))
        for i in range(1, len(group) - 1):
            site, kind = group[i]
            others = {other for j, (_, other) in enumerate(group) if j != i}
            if len(group) > _FEW and len(others) == 1 and not others & {kind, "Identity"}:
                text = (
                    f"{site.name!r} is of class {kind}, where {len(group) - 1} others of its role "
                    f"are of class {others.pop()}"
                )
                yield ODD_LAYER.at(site, 0, text, "a layer like the others")


def _family(site: Watched, kind: str) -> tuple[str, bool]:
    """The role of a layer, and of one of any role whether it is a norm."""
    return site.role, site.is_of_any_role and "Norm" in kind


def number_in(name: str) -> list[int]:
    """The numbers in a module's name, by which siblings are in order."""
    return [int(part) for part in name.split(".") if part.isdecimal()]


def _known(evidence: Evidence) -> Iterator[tuple[Watched, LayerSettings]]:
    """The layers with settings, in the order of the model, each with a series that stands for it.

    Of one without numbers, as its forward is not read, it is the first of all.
    """
    own = {s.name: s for s in reversed([*evidence.of_quantity("OutputRMS")])}
    place = evidence.modules
    for name in sorted(evidence.model.settings, key=lambda name: place.get(name, len(place))):
        site = own.get(name) or next(iter(evidence.series), None)
        if site is not None:
            yield site._replace(module=name), evidence.model.settings[name]


def _epsilons(known: Sequence[tuple[Watched, float]], evidence: Evidence) -> Iterator[Finding]:
    given = {s.module: median(s.values) for s in evidence.of_quantity("InputRMS")}
    hidden = [
        (s, epsilon)
        for s, epsilon in known
        if epsilon >= _EPSILON and given.get(s.module, float("inf")) ** 2 < epsilon
    ]
    if hidden:
        first, epsilon = hidden[0]
        size = given[first.module]
        why = f"adds {epsilon:.3g} to a variance of {size**2:.2g} at most, and so hardly normalises"
        yield _of(LARGE_EPSILON, [s for s, _ in hidden], why, epsilon)


def _moving(moving: Sequence[Watched], evidence: Evidence) -> Iterator[Finding]:
    """BatchNorms of a frozen backbone: where norms alone are frozen, statistics are to move.

    Nor is what follows the weights that are trained a backbone, as a momentum encoder does.
    """
    weights = evidence.parameters.weights
    following = {name for name, s in weights.items() if (s.values != s.values[0]).any()}
    frozen = [name for name in weights if name in evidence.model.frozen - following]
    moving = [s for s in moving if s.name not in following]
    if moving and _FROZEN * len(weights) <= len(frozen) < len(weights):
        first = moving[0]
        text = (
            f"{names_of(moving)}: frozen, but in training mode, so the running statistics go on to "
            "follow the batches, and what the frozen layers compute in evaluation changes"
        )
        yield MOVING_STATISTICS.at(first, 0, text, "evaluation mode")


def _of(kind: Kind, odd: Sequence[Watched], why: str, value: float) -> Finding:
    first, more = odd[0], len(odd) - 1
    text = f"{first.name!r} {why}" + (f"; and {more} more like it" if more else "")
    return kind.at(first, 0, text, value=value)
