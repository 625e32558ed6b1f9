"""Outputs of modules: exactly zero, or of a wild size."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.lasting import STEPS, ends, since
from taiyi_fx.findings.facts.robust import median
from taiyi_fx.findings.facts.watched import Watched, at_common_steps
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind

_LARGE = 100.0
_BETWEEN = 30.0
_FIRST, _TENFOLD = 3, 10.0
"""Numbers that say how it began, and the factor by which it has grown since."""
_AT_ONCE = 2
"""Steps that are one moment."""

ZERO_OUTPUT = Kind(
    "zero_output",
    "alert",
    "Nothing passes it: look at its bias, its threshold, its dropout and the scale of what it is "
    "given",
)
UNFED = Kind(
    "zero_output",
    "alert",
    "Look at what lies between the two: an activation that is dead as all before it is below 0, a "
    "multiplication by zero, a mask that hides all",
)
WILD_OUTPUT = Kind(
    "wild_output",
    "warning",
    "Look at how it is initialised, and at the scale of what it is given",
)

_NOTHING, _LITTLE = 1e-6, 0.1
"""The share of its size that rounding leaves of a mean of what adds up to zero, at first; and the
largest later.
"""
_CENTRED = (
    "Look at what lies between the two: a mean over the axes along which a norm has just centred "
    "is 0 for each sample, whatever it is given; take the mean first, or another norm"
)
_GROWS = (
    "Look for what rewards its size: a term of the loss of the wrong sign or without a bound, a "
    "learning rate that is too large, or a norm that is missing"
)


def zero_outputs(evidence: Evidence) -> Iterator[Finding]:
    """The first module whose output is exactly zero; those behind it may follow from it."""
    for one in evidence.of_quantity("OutputRMS"):
        is_zero = ends(one.values == 0) and not _is_more_elsewhere(one, evidence)
        if is_zero and not _begins_at_zero(one.module, evidence):
            i = since(one.values == 0)
            text = f"step {one.steps[i]}: the output of {one.module!r} is exactly 0 from here on"
            yield ZERO_OUTPUT.at(one, i, text, "above 0")
    yield from _zero_inputs(evidence)
    yield from _next_to_nothing(evidence)


def _zero_inputs(evidence: Evidence) -> Iterator[Finding]:
    """The first module that is given exactly zero, though the one before returns something."""
    returned = [*evidence.of_quantity("OutputRMS")]
    place, given = evidence.modules, evidence.of_quantity("InputRMS")
    for one in given:
        before = [s for s in returned if place[s.module] < place[one.module]]
        is_zero = ends(one.values == 0) and not _is_more_elsewhere(one, evidence)
        if is_zero and before and not ends(before[-1].values == 0):
            i = since(one.values == 0)
            text = (
                f"step {one.steps[i]}: what {one.module!r} is given is exactly 0 from here on, "
                f"though {before[-1].module!r} before it returns {before[-1].values[-1]:.3g}"
            )
            text += evidence.made_by(one.module)
            yield UNFED.at(one, i, text, "above 0")
            return


def _next_to_nothing(evidence: Evidence) -> Iterator[Finding]:
    """The first module that is given next to nothing of what the one module before it returns.

    As the mean of what a norm has centred over the same axes. Not where branches begin at next to
    nothing on purpose.
    """
    if evidence.parameters.has_layer_scales or evidence.parameters.beginning_at_zero:
        return
    returned = evidence.by_module("OutputRMS")
    for one in evidence.of_quantity("InputRMS"):
        before = [*evidence.flow.modules_before(one.module, returned.keys())]
        if len(before) != 1 or len(one.values) < STEPS:
            continue
        given, made = at_common_steps([one, returned[before[0]]])
        if not len(given.values) or given.steps[0] or not given.values[0]:
            continue
        # A bias of the norm may make a little more of it later.
        factors = given.values / made.values
        if factors[0] <= _NOTHING and (factors <= _LITTLE).all():
            text = (
                f"what {one.module!r} is given begins at {given.values[0]:.2g}, next to nothing, "
                f"though {before[0]!r} before it returns {made.values[0]:.3g}"
            )
            text += evidence.made_by(one.module)
            yield UNFED.at(one, 0, text, f"near {made.values[0]:.2g}", advice=_CENTRED)
            return


def _is_more_elsewhere(one: Watched, evidence: Evidence) -> bool:
    """True if it is not zero in another call of the module, as where a state begins at zero."""
    every = (s for s in evidence.of_quantity(one.quantity) if s.name == one.name)
    return any(not ends(s.values == 0) for s in every if s.module != one.module)


def wild_outputs(evidence: Evidence) -> Iterator[Finding]:
    """The first module, by step and then in the order of the model, whose output is far from 1."""
    every = [(s, median(s.values)) for s in evidence.of_quantity("OutputRMS")]
    wild = [(s, value) for s, value in every if np.isfinite(value) and value >= _LARGE]
    steps = [int(s.steps[(s.values >= _LARGE).argmax()]) for s, _ in wild]
    # What one hands on makes those behind it as large, and some of them a step before.
    at_once = min(steps, default=0) + _AT_ONCE
    order = np.argsort([max(step, at_once) for step in steps], kind="stable")
    for one, value in (wild[i] for i in order):
        i = int(np.flatnonzero(one.values >= _LARGE)[0])
        yield (_grown if _has_grown(one) else _wild)(one, i, value)


def _has_grown(one: Watched) -> bool:
    """True for an output that began with a usual size."""
    return median(one.values[:_FIRST]) <= _LARGE / _TENFOLD


def _wild(one: Watched, i: int, value: float) -> Finding:
    text = (
        f"the root mean square of the output of {one.module!r} is {value:.3g}, the first of such a "
        "size in the model"
    )
    return WILD_OUTPUT.at(one, i, text, "near 1", value=value)


def _grown(one: Watched, i: int, value: float) -> Finding:
    text = (
        f"the root mean square of the output of {one.module!r} grows from {one.values[0]:.3g} to "
        f"{one.values[-1]:.3g}, the first to reach {_LARGE:.3g} in the model, at step "
        f"{one.steps[i]}"
    )
    expected = f"near {one.values[0]:.3g}, as in the beginning"
    return WILD_OUTPUT.at(one, i, text, expected, value=value, advice=_GROWS)


def wild_between(evidence: Evidence) -> Iterator[Finding]:
    """The first module that is given far larger numbers than any module before it returns."""
    sizes = {s.module: median(s.values[:STEPS]) for s in evidence.of_quantity("OutputRMS")}
    place, given = evidence.modules, evidence.of_quantity("InputRMS")
    for one in given:
        value = median(one.values[:STEPS])
        before = [size for module, size in sizes.items() if place[module] < place[one.module]]
        if before and np.isfinite(value) and value >= _BETWEEN * max(1.0, *before):
            text = (
                f"the root mean square of what {one.module!r} is given is {value:.3g}, and no "
                f"module before it returns more than {max(before):.3g}"
            )
            text += evidence.made_by(one.module)
            yield WILD_OUTPUT.at(one, 0, text, "near 1", value=value)


def _begins_at_zero(module: str, evidence: Evidence) -> bool:
    """True for a module whose weights are zero, as of a branch that is to begin as nothing.

    Without a gradient it stays nothing.
    """
    own = evidence.parameters.weights.get(module)
    is_zero = own is not None and float(own.values[-1]) == 0
    return is_zero and module in evidence.parameters.weight_gradients
