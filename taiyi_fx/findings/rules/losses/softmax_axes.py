"""Softmaxes over the wrong axis: that of the samples, one of one element, or none of the keys."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import accumulate
from operator import mul

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.softmaxes import OddSoftmax
from taiyi_fx.findings.facts.watched import Watched, role_of
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind

_OVER = re.compile(
    r"a softmax over axis (-?\d+) of a tensor of shape (\([\d, ]*\)) is no attention"
)
_ASKED = "AttentionEntropy"

_OF_SAMPLES = (
    "Take it over the axis of what one sample chooses among, mostly the last: over the first, what "
    "the model makes of a sample depends on the others in its batch, and of one sample alone it is "
    "always 1"
)
_OF_ONE = (
    "Take it over the axis of what is chosen among; of a single logit take a sigmoid, with "
    "binary_cross_entropy_with_logits"
)
_OF_PLACES = (
    "Take it over the classes, softmax(dim=1), if each place is to choose one of them; over all "
    "places, flatten(2).softmax(-1), if each map is to choose a place"
)
_OF_BEST = (
    "Take the softmax over all that there is to choose from, and then the share of the one that is "
    "chosen, probs.topk(1): so it tells how sure the choice is, and the router gets a gradient"
)

SOFTMAX_AXIS = Kind(
    "softmax_axis",
    "note",
    "The weights that each query gives to its keys have to add up to 1: take the softmax over the "
    "axis that their product with values sums over",
)


NORMALISED_SAMPLES = Kind(
    "normalised_samples",
    "warning",
    "Take it along the features, F.normalize(x, dim=-1): along the samples, what the model makes "
    "of one depends on how many others are in its batch, and on what they are",
)


def normalised_samples(evidence: Evidence) -> Iterator[Finding]:
    """Tensors of samples that are divided by their size along these."""
    for loss, graph in evidence.logged.graphs:
        for one in graph.over_samples:
            size = one.given[0]  # or half of them, of two views that the model is given together
            if any(_is_number_of_samples(n, evidence) for n in (size, 2 * size)):
                text = (
                    f"on the way to {loss.quantity!r}, {one.source}, of shape {one.given}, is "
                    "divided by its size along axis 0, that of the samples"
                )
                yield NORMALISED_SAMPLES.at(loss, 0, text, "another axis", module=one.module)
                break


def softmax_axes(evidence: Evidence) -> Iterator[Finding]:
    """Softmaxes over the samples, one element, or a row of places; of attention, over an axis that
    is not summed over, or not the last.
    """
    for loss, graph in evidence.logged.graphs:
        for one in graph.softmaxes:
            is_odd = one.is_of_one or one.is_of_places
            if is_odd or _is_number_of_samples(one.shape[one.axis], evidence):
                yield _of_others(loss, one)
                break
        for one in graph.unsummed[-1:]:
            yield _of_attention(loss, one)
    yield from _of_scores(evidence)


def _is_number_of_samples(size: int, evidence: Evidence) -> bool:
    """True for as many as the first axes of what the model is given have together."""
    shapes = (evidence.flow.shape_before(module) for module in evidence.flow.order)
    given = next((shape for shape in shapes if shape), "")
    sizes = [int(n) for n in given.split("×") if n.isdecimal()]
    return size in accumulate(sizes[:-1] or sizes, mul)


def _of_others(loss: Watched, one: OddSoftmax) -> Finding:
    of = "the best of " * one.is_of_best
    of += f"what {one.module!r} makes" if one.module else "computed numbers"
    text = f"on the way to {loss.quantity!r}, a softmax of {of}, of shape {one.shape}, is over "
    if one.is_of_one:
        text += f"axis {one.axis}, which has one element: it is 1, whatever it is given"
    elif one.is_of_places:
        text += f"axis {one.axis}, a row or a column of its maps: the classes of a place are axis 1"
    else:
        text += "axis 0, that of the samples"
    found = SOFTMAX_AXIS.at(loss, 0, text, "another axis", module=one.module, severity="warning")
    found = replace(found, value=float(one.shape[one.axis]))
    of_one = _OF_BEST if one.is_of_best else _OF_ONE
    others = _OF_PLACES if one.is_of_places else _OF_SAMPLES
    return replace(found, advice=of_one if one.is_of_one else others)


def _of_attention(loss: Watched, one: OddSoftmax) -> Finding:
    of = f"behind {one.module!r}" if one.module else "of computed numbers"
    text = (
        f"on the way to {loss.quantity!r}, a softmax {of}, of shape {one.shape}, is over axis "
        f"{one.axis}, and its product with values sums over another: the weights that a query "
        "gives do not add up to 1"
    )
    return SOFTMAX_AXIS.at(
        loss, 0, text, "one axis", module=one.module, value=float(one.axis), severity="warning"
    )


def _of_scores(evidence: Evidence) -> Iterator[Finding]:
    """Modules that take the softmax of products over an axis that is not the last.

    A warning where siblings take it over the last axis; else the layout may be another.
    """
    first = next(iter(evidence.series), None)
    right = {role_of(s.module) for s in evidence.of_quantity(_ASKED)}
    told = set[str]()
    for (module, quantity), reason in sorted(evidence.reasons.items()):
        over = _OVER.search(reason) if quantity == _ASKED else None
        role = role_of(module)
        if over is None or first is None or role in told:
            continue
        is_odd = role in right
        if not is_odd:
            told.add(role)
        text = (
            f"the softmax in {module!r} is over axis {over[1]} of scores of shape {over[2]}, and "
            + ("that of others like it over the last" if is_odd else "not over the last")
        )
        severity = "warning" if is_odd else "note"
        facts = {"module": module, "quantity": _ASKED, "severity": severity}
        yield SOFTMAX_AXIS.at(first, 0, text, "the last axis", value=float(over[1]), **facts)
