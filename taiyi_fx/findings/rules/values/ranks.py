"""Outputs and weights that have collapsed to one direction, where there were many."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.lasting import lasting, since
from taiyi_fx.findings.facts.robust import median
from taiyi_fx.findings.facts.watched import Values, Watched, at_common_steps, in_roles
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind
from taiyi_fx.findings.rules.losses.loss import guess_of

_ONE = 1.05
_MANY = 2.0
_NEARLY, _KEPT = 1.5, 5.0
"""Directions that are next to one, and those that a module has to be given to have lost them."""
_ONLY, _SEVERAL = 1.25, 2.5
"""The same at the first two numbers, of fewer directions."""
_FEW, _SOON = 2, 3
_LEARNT = 0.2
"""Of a guess's cost, below which the first losses are those of a model that was trained before."""
_SIDES = 2
"""Axes of a batch of rows: with more, some are tokens."""

RANK_COLLAPSE = Kind(
    "rank_collapse",
    "warning",
    "All its units compute the same: look for rows of the weight that are equal or zero at "
    "initialisation, and for a scale of the input that saturates it",
)
_SAME_ROWS = (
    "Look at what it is given, and for a weight of zero or a scale of the input that saturates it"
)
_SAME_INPUT = (
    "Look at what makes its input, where all rows become one: a value that is not used, a mean "
    "over the samples, an index that is always the same"
)
COLLAPSED_WEIGHT = Kind(
    "rank_collapse",
    "warning",
    "One direction has grown over all others, or the others have decayed: look at the learning "
    "rate and the weight decay, and for a gradient that points one way at each step",
)


def rank_collapses(evidence: Evidence) -> Iterator[Finding]:
    """Modules whose outputs, or weights, lie along one direction from the start, or at the end."""
    yield from _without_variance(evidence)
    yield from _of_weights(evidence)
    if _is_trained_already(evidence):
        return  # its classes may have become directions
    of_siblings = [*_among_siblings(evidence)]
    yield from of_siblings
    told = {found.module for found in of_siblings}
    yield from (found for found in _lost_at_once(evidence) if found.module not in told)


def _is_trained_already(evidence: Evidence) -> bool:
    """True if a loss is far below a guess's from its first numbers on, as of a model that goes on.

    The features of a classifier that is trained to the end lie along few directions (Papyan et al.,
    arXiv 2008.08186).
    """
    firsts = [(guess_of(one, evidence)[0], one.values[:_SOON]) for one in evidence.logged.losses]
    return any((values < _LEARNT * guess).all() for guess, values in firsts if guess > 0)


def _among_siblings(evidence: Evidence) -> Iterator[Finding]:
    for quantity in ("ParticipationRatio", "RankMe"):
        every = [group for group in in_roles(evidence.of_quantity(quantity)) if len(group) > _FEW]
        for group, one in ((siblings, s) for siblings in every for s in siblings):
            others = [float(s.values[0]) for s in group if s is not one]
            is_one = one.values <= _ONE
            if _features(one.module, evidence) <= _FEW or _varies_elsewhere(one, group):
                continue
            begins = _begins(one, (1 + median(others)) / 2)
            if median(others) < _MANY or not (begins or lasting(is_one)):
                continue
            i = 0 if begins else since(is_one)
            text = (
                f"step {one.steps[i]}: the output of {one.module!r} varies along one direction, "
                f"those of its {len(others)} siblings along {median(others):.3g}"
            )
            yield RANK_COLLAPSE.at(one, i, text, f"{median(others):.3g}, as of its siblings")


def _lost_at_once(evidence: Evidence) -> Iterator[Finding]:
    """The first of a role that returns one direction or so, where the one before has many."""
    for group in in_roles(evidence.of_quantity("ParticipationRatio")):
        for before, one in pairwise(group if len(group) > _FEW else ()):
            few, many = one.values[:_SOON], before.values[:_SOON]
            features = _features(one.module, evidence)
            if before.name != one.name and _are_lost(few, many, features):
                text = (
                    f"the output of {one.module!r} varies along {few[0]:.3g} directions, that of "
                    f"{before.module!r} before it along {many[0]:.3g}"
                )
                yield RANK_COLLAPSE.at(one, 0, text, f"near {many[0]:.3g}")
                break


def is_given_other_rows(one: Watched, before: Watched | None, evidence: Evidence) -> bool:
    """True for a module that is given other rows than the one before it, as a token of a class."""
    if before is None:
        return False
    rows, others = (evidence.flow.shape_before(s.module).split("×")[:-1] for s in (one, before))
    return bool(rows and others) and rows != others


def _are_tokens(one: Watched, before: Watched | None, evidence: Evidence) -> bool:
    """True for what is given rows of tokens, of as many features as the module before it."""
    known = [
        evidence.flow.shape_before(s.module).split("×") for s in (one, before) if s is not None
    ]
    return {len(shape) > _SIDES for shape in known} == {True} and len({s[-1] for s in known}) == 1


def _are_lost(few: Values, many: Values, features: float) -> bool:
    """True if many directions become next to one; at the first two numbers it may be fewer, if
    there are many features.
    """
    is_lost = features >= _KEPT and (few <= _NEARLY).all() and (many >= _KEPT).all()
    is_at_first = (few[:_FEW] <= _ONLY).all() and (many[:_FEW] >= _SEVERAL).all()
    is_at_first = is_at_first and features >= 2 * _KEPT
    return len(few) >= _FEW and bool(is_lost or is_at_first)


def _of_weights(evidence: Evidence) -> Iterator[Finding]:
    """Weights that had several directions and have one: a matrix of one column always has one."""
    for one in evidence.of_quantity("WeightStableRank"):
        is_one = one.values <= _ONE
        if one.values[0] >= _MANY and lasting(is_one):
            i = since(is_one)
            text = (
                f"step {one.steps[i]}: the weight of {one.module!r} has one direction from here on "
                f"(a stable rank of {one.values[-1]:.3g}), where it had {one.values[0]:.3g}"
            )
            yield COLLAPSED_WEIGHT.at(one, i, text, f"near {one.values[0]:.3g}")


def _begins(one: Watched, few: float) -> bool:
    """True for one direction at first, and not many soon after: a batch of two rows has one."""
    first = one.values[:_SOON]
    return bool(len(first) >= _FEW and first[0] <= _ONE and (first < few).all())


def _varies_elsewhere(one: Watched, group: list[Watched]) -> bool:
    """True if the same module's output has more directions in another of its calls."""
    calls = [s for s in group if s is not one and s.name == one.name]
    return any((s.values[:_SOON] > _ONE).any() for s in calls)


def _features(module: str, evidence: Evidence) -> float:
    """The number of a module's outputs: its own; by its bias; else 1 of a vector."""
    module = module.partition("@")[0]  # a later call of it has the parameters of the first
    own = evidence.model.attributes.get(module)
    channels = None if own is None else own.numbers.get("out_channels")
    if isinstance(channels, int):
        return float(channels)
    if own is not None and own.features[1]:
        return float(own.features[1])
    parts = (evidence.by_module(q) for q in ("ParameterNorm.bias", "ParameterRMS.bias"))
    known = [part[module] for part in parts if module in part]
    if len(known) < _SIDES:
        is_known = (module, "weight") in evidence.parameters.counts
        return 1.0 if is_known and evidence.parameters.is_vector(module) else np.inf
    norm, size = (s.values for s in at_common_steps(known))
    return float((norm[-1] / size[-1]) ** 2) if len(size) and size[-1] > 0 else np.inf


def _without_variance(evidence: Evidence) -> Iterator[Finding]:
    """The first module that returns the same for all rows, where one before or behind does not.

    Not in one of several calls, as the first one may be given a state of zeros; nor of a module
    that is given some of the rows alone, as the token of a class, which begins as one for all.
    """
    sizes = {s.module: median(s.values) for s in evidence.of_quantity("OutputRMS")}
    series = [s for s in evidence.of_quantity("ParticipationRatio") if sizes.get(s.module, 0.0) > 0]
    if all(np.isnan(s.values).any() for s in series):  # as of batches of one row
        return
    places = {s.name: i for i, s in enumerate(series) if not np.isnan(s.values).all()}
    last = max(places.values(), default=-1)
    for i, one in enumerate(series):
        is_same = len(one.values) >= _FEW and np.isnan(one.values).all()
        is_meant = one.name in places or _is_of_one_row(one.module, evidence)
        before = series[i - 1] if i else None
        # Behind a token samples differ again, by what attention gives it.
        is_token = is_given_other_rows(one, before, evidence) and (
            i < last or _are_tokens(one, before, evidence)
        )
        if is_same and not is_meant and not is_token:
            why = _given_one_row(one, evidence)
            text = f"the output of {one.module!r} is the same for all rows of a batch{why}"
            advice = _SAME_INPUT if why else _SAME_ROWS
            yield RANK_COLLAPSE.at(one, 0, text, "above 1", advice=advice)
            return


def _given_one_row(one: Watched, evidence: Evidence) -> str:
    """The ending of a sentence on a module that is given the same for all rows, and by what.

    A linear layer makes them the same of others by a weight of zero alone.
    """
    constants = [f"`{f}` makes of {of!r}" for f, of in evidence.flow.constants_before(one.module)]
    if constants:
        made = " and what ".join(dict.fromkeys(constants))
        return f", as it is given what {made}, of which only the shape is used"
    own, weight = evidence.model.attributes.get(one.name), evidence.parameters.weights.get(one.name)
    if own is None or not own.features[0] or weight is None or not weight.values.all():
        return ""
    inputs = " and ".join(map(repr, evidence.flow.inputs_before(one.module)))
    of_input, by = f"the model's input {inputs}", evidence.operations_before(one.module)
    if inputs and not by:
        return f", as {of_input}, which it is given, is already"
    return ", as what it is given is already" + (
        f", by {by}{f' of {of_input}' if inputs else ''}" if by else ""
    )


def _is_of_one_row(module: str, evidence: Evidence) -> bool:
    """True for what is given one row alone, as a head behind the mean over the only sample is."""
    *rows, _ = evidence.flow.shape_before(module).split("×")
    return bool(rows) and set(rows) == {"1"}
