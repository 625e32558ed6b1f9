"""Modules of one role that should be alike: the one whose numbers are of another size.

A wild layer makes all behind it wild, so that it is no outlier among them. The factor by which a
module changes what it is given stays its own: those factors are compared, too.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from taiyi_fx.findings.facts.chain import (
    REPEATED,
    InRole,
    beside_their_roles,
    beside_values,
    handed_over,
    made,
    not_cut_off,
)
from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.lasting import STEPS
from taiyi_fx.findings.facts.robust import log10, median, medians, spreads
from taiyi_fx.findings.facts.watched import Values, Watched, at_common_steps, grouped
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind
from taiyi_fx.findings.rules.values.parted import Parting, first_to_part

_FEW = 3
"""Siblings below which none is the odd one out: of sizes. Of factors two are enough."""
_FACTOR = 1.3
"""Powers of ten by which an outlier differs from the median of its siblings: a factor of 20."""
_OF_THREE = 2.0
"""And where there are just two others: their widths and kernels may make a factor of 50."""
_OF_STREAM = 0.8
"""And that of a residual stream from one norm to the next: it grows little by little."""
_BROKEN = 2.5
"""And so many that nothing can be learned through it."""
_SIGMAS = 6.0
_LITTLE = 0.4
_MANY_SIGMAS = 20.0
"""Where siblings are all but equal, as what a dropout passes, a factor of 2.5 is one."""
_SHARE = 0.6
"""The share of the steps at which it does."""
OUTLIER = Kind(
    "outlier",
    "warning",
    "Look at how this module is initialised, and at what scales what it is given",
)
_CHANGED = (
    "Look at what changes from step to step between the two: a gate, a buffer, a scale or a weight"
)


class _Bounds(NamedTuple):
    """The bounds beyond which one is odd.

    Attributes:
        few: Siblings below which none is.
        of_equals: Powers of ten that are enough among siblings that are all but equal.
        powers: Powers of ten by which one differs from the median of its siblings.
        sigmas: Robust deviations by which it does.
    """

    few: int = _FEW
    of_equals: float = np.inf
    powers: float = _FACTOR
    sigmas: float = _SIGMAS


class _Now(NamedTuple):
    """The state that a training has come to.

    Attributes:
        fallen: The powers of ten by which a loss has fallen.
        usual: The size of what half of all modules return.
    """

    fallen: float
    usual: float


def outliers(evidence: Evidence) -> Iterator[Finding]:
    """The lasting outliers among modules of one role, in the order of causes.

    Weights make outputs, and those make gradients.
    """
    every_output = evidence.of_quantity("OutputRMS")
    outputs = [one for one in every_output if one.module not in evidence.returning_biases]
    # Gradients are made from the last module to the first.
    gradients = [*evidence.of_quantity("OutputGradRMS")][::-1]
    of_weights = [
        # Of gains before what divides by their size, as the next norm does, none is left.
        one
        for one in [*evidence.of_quantity("WeightGradNorm")][::-1]
        if not evidence.parameters.is_vector(one.module)
    ]
    inputs = [*evidence.of_quantity("InputRMS")]
    # Between norms a residual stream grows; what they return does not show it. Some are given what
    # a layer returns, as a batch norm is by a convolution.
    plain = {
        s.module for one, s in evidence.handed_on if not evidence.parameters.is_vector(one.name)
    }
    # The first is of data.
    stream = [s for s in inputs if s.module in evidence.norms and s.module not in plain][1:]
    widths = {
        name: own.sizes[0][1]
        for name, own in evidence.model.attributes.items()
        if [part for part, _ in own.sizes] == [""]
    }
    of_stream = [*beside_their_roles(_of_one_stream(stream, evidence), _FEW)]
    before = {one.module: norm.module for norm, one in pairwise(stream)}
    ratios = [
        one
        for one in evidence.of_quantity("UpdateRatio.weight")
        if not evidence.parameters.began_at_zero(one.module)
    ]
    # Of what began at nothing a factor is of any size, and what comes next is given a sum.
    apart = evidence.norms | evidence.parameters.beginning_at_zero
    every = (
        (_with_roles(evidence.of_quantity("WeightNorm")), _Bounds()),
        (_with_roles(evidence.of_quantity("WeightSpectralNorm")), _Bounds()),
        (_with_roles(evidence.of_quantity("AttentionLogitMax")), _Bounds()),
        (_of_first_calls(made(outputs, apart)), _Bounds(few=_FEW - 1)),
        (
            _of_many(_of_first_calls(handed_over(outputs, inputs, evidence.norms, widths))),
            _Bounds(of_equals=_LITTLE),
        ),
        (
            _of_many(_of_plain(made(outputs, evidence.parameters.beginning_at_zero), evidence)),
            _Bounds(of_equals=_LITTLE),
        ),
        (
            (one for one in of_stream if one[1] == REPEATED),
            _Bounds(powers=_OF_STREAM, sigmas=_SIGMAS / 2),
        ),
        (((one, "stream") for one, _ in of_stream), _Bounds(sigmas=_SIGMAS / 2)),
        (_of_first_calls(made(inputs, evidence.norms)), _Bounds(few=_FEW - 1)),
        (_with_roles(outputs), _Bounds()),
        (
            _of_first_calls(not_cut_off(beside_values(evidence.gains, outputs, inputs))),
            _Bounds(few=_FEW - 1),
        ),
        (_of_branches(_within_chains(gradients), evidence), _Bounds()),
        (_with_roles(of_weights), _Bounds()),
        (_of_alike_sizes(ratios, evidence), _Bounds()),
    )
    now = _Now(_fallen(evidence), _usual_output(evidence))
    told = set[str]()
    for found in (one for series, bounds in every for one in _among(evidence, series, bounds, now)):
        is_of_stream = found.quantity == "InputRMS" and found.module in before
        if is_of_stream and _is_of_another_stream(found.module, before, evidence):
            continue
        if found.module not in told:
            told.add(found.module)
            yield found


def _of_many(factors: Iterable[InRole]) -> Iterator[InRole]:
    """Those of some steps: of few, all are equal by chance."""
    return ((one, role) for one, role in factors if len(one.steps) >= STEPS)


def _of_first_calls(factors: Iterable[InRole]) -> Iterator[InRole]:
    """Those of first calls: what a later one is given comes from elsewhere, as the state of an
    equation or another level of a pyramid.
    """
    return ((one, role) for one, role in factors if not one.call)


def _of_one_stream(stream: Sequence[Watched], evidence: Evidence) -> Iterator[InRole]:
    """The factors from norm to norm, but where other rows come in, as a token of a class does."""
    for before, one in pairwise(stream):
        shapes = {evidence.flow.shape_before(s.module) for s in (before, one)} - {""}
        if len(shapes) < 2:
            yield from made([before, one])


def _is_of_another_stream(norm: str, before: Mapping[str, str], evidence: Evidence) -> bool:
    """True for the first two norms of a stream that the one before leads to no more.

    As those of a decoder, behind those of an encoder: the first is given data, and the second what
    the first makes of them, whatever their size.
    """
    pair = (norm, before[norm])
    return any(one in before and not evidence.is_behind(one, before[one]) for one in pair)


def _of_plain(factors: Iterable[InRole], evidence: Evidence) -> Iterator[InRole]:
    """Those of modules of torch without weights, such as dropout.

    A norm makes of anything the same, and of a sum over neighbours nobody knows.
    """
    for one, role in factors:
        own = evidence.model.attributes.get(one.name)
        is_of_torch = own is None or own.kind.startswith("torch.nn.")
        if is_of_torch and one.name not in evidence.parameters.weights:
            yield one, role


def _within_chains(gradients: Iterable[Watched]) -> Iterator[Watched]:
    """Those but of the last of each numbered chain: it is given its gradient from elsewhere.

    Args:
        gradients: The sizes, from the last module on.
    """
    begun: set[tuple[str, str]] = set()
    for one in gradients:
        around, _, last = one.name.rpartition(".")
        chain = around, one.call
        if chain in begun or not last.isdecimal():
            yield one
        begun.add(chain)


def _of_branches(series: Iterable[Watched], evidence: Evidence) -> Iterator[InRole]:
    """In roles, but those of branches that began at nothing by themselves."""
    for one in series:
        yield one, f"{one.role} in branches" if one.module in evidence.in_branches else one.role


def _of_alike_sizes(ratios: Sequence[Watched], evidence: Evidence) -> Iterator[InRole]:
    """Those of weights that began as large as their siblings, within a factor of ten.

    Adam's steps are as large for all weights: beside a larger weight they are a smaller share, as
    in SIREN's first layer, which begins 40 times as large as the others.
    """
    sizes = {
        one.module: float(one.values[0])
        for one in evidence.of_quantity("ParameterRMS.weight")
        if one.values[0] > 0
    }
    usual: dict[str, list[float]] = {}
    for one in ratios:
        if one.module in sizes:
            usual.setdefault(one.role, []).append(sizes[one.module])
    for one in ratios:
        size = sizes.get(one.module)
        if size is None or abs(np.log10(size / median(usual[one.role]))) < 1:
            yield one, one.role


def _with_roles(series: Iterable[Watched]) -> Iterator[InRole]:
    return ((one, one.role) for one in series)


def _among(
    evidence: Evidence, every: Iterable[InRole], bounds: _Bounds, now: _Now
) -> Iterator[Finding]:
    known = [*every]
    place = {module: i for i, module in enumerate(dict.fromkeys(one.module for one, _ in known))}

    def siblings(of: InRole) -> Hashable:
        one, role = of
        return role, evidence.kinds[one.module] if one.is_of_any_role else None

    groups = ([one for one, _ in group] for group in grouped(known, siblings).values())
    parted = (part for group in groups for part in _by_place(group))
    found = [one for group in parted for one in _of_group(group, bounds, now)]
    yield from sorted(found, key=lambda one: place[one.module])


def _by_place(group: list[Watched]) -> Iterator[list[Watched]]:
    """The siblings by their last number, as in ``h.*.mlp.2``, if there are several of each."""
    parts = grouped(group, lambda one: one.module.rpartition(".")[2])
    is_split = len(parts) > 1 and min(len(part) for part in parts.values()) > _FEW
    yield from parts.values() if is_split else [group]


def _fallen(evidence: Evidence) -> float:
    """The powers of ten by which a loss has fallen: what is behind it has smaller gradients."""
    ends = [(median(s.values[:STEPS]), median(s.values[-STEPS:])) for s in evidence.logged.losses]
    return max((float(np.log10(a / b)) for a, b in ends if a > b > 0), default=0.0)


def _usual_output(evidence: Evidence) -> float:
    """The size of what half of all modules return now."""
    every = [one.values[-1] for one in evidence.of_quantity("OutputRMS")]
    return median(np.array(every)) if every else 0.0


def _is_little(leaving: Parting) -> bool:
    """True where few have stayed, for what is not far from them."""
    return len(leaving.stayed) <= _FEW and abs(leaving.powers) < _OF_THREE


def _is_learning(leaving: Parting, one: Watched, now: _Now) -> bool:
    """True for gradients that shrink with the loss, and outputs that grow to what is usual."""
    if one.direction == "backward":
        return -now.fallen <= leaving.powers < 0
    is_output = one.quantity == "OutputRMS" and not one.shown
    return is_output and leaving.powers > 0 and float(one.values[-1]) <= now.usual


def _of_group(group: list[Watched], bounds: _Bounds, now: _Now) -> Iterator[Finding]:
    group = [one for one in group if len(one.values) and (one.values != 0).all()]
    if len(group) <= bounds.few:
        return
    group = at_common_steps(group)
    if not len(group[0].steps):
        return
    table = np.stack([log10(one.values) for one in group])
    distances, width = table - medians(table), spreads(table)
    powers = bounds.powers if len(group) > _FEW else max(bounds.powers, _OF_THREE)
    is_far = np.abs(distances) > np.maximum(powers, bounds.sigmas * width)
    if len(group) > _FEW:
        is_far |= np.abs(distances) > np.maximum(bounds.of_equals, _MANY_SIGMAS * width)
    lasts = (is_far.mean(1) >= _SHARE) & is_far[:, -1]
    # What is odd from the first step on is, though a training may make up for it.
    begins = is_far[:, :STEPS].all(1) & (is_far.shape[1] >= STEPS) & (group[0].steps[0] == 0)
    leaving = first_to_part(table)
    if leaving and (_is_little(leaving) or _is_learning(leaving, group[leaving.row], now)):
        leaving = None
    if leaving is not None:
        yield _parting(group[leaving.row], leaving)
    for i in np.flatnonzero(lasts | begins).tolist():
        if leaving is None or i not in leaving.stayed:
            yield _finding(group[i], distances[i], is_far[i], len(group) - 1)


def _parting(site: Watched, leaving: Parting) -> Finding:
    word = "grows" if leaving.powers > 0 else "shrinks"
    text = (
        f"from step {site.steps[leaving.column]} on {site.title} {word}, by a factor of "
        f"{np.power(10.0, abs(leaving.powers)):.3g} until now, where that of "
        f"{len(leaving.stayed)} others like it stays as it was"
    )
    expected = f"near {site.values[0]:.3g}, as in the beginning"
    severity = "alert" if abs(leaving.powers) > _BROKEN else "warning"
    others = {"severity": severity, "advice": _CHANGED}
    return OUTLIER.at(site, leaving.column, text, expected, **others)


def _finding(site: Watched, distance: Values, is_far: NDArray[np.bool_], others: int) -> Finding:
    i, powers = int(is_far.argmax()), median(distance[is_far])
    factor, value = np.power(10.0, powers), float(site.values[i])
    shown = f"{factor:.3g} times" if factor > 1 else f"1/{1 / factor:.3g} of"
    text = (
        f"from step {site.steps[i]} on {site.title} is {value:.3g}, {shown} the median of "
        f"{others} others like it"
    )
    expected = f"{value / factor:.3g}, as of its siblings"
    severity = "alert" if abs(powers) > _BROKEN else "warning"
    return OUTLIER.at(site, i, text, expected, severity=severity)
