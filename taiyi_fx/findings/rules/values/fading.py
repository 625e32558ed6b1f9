"""Outputs that come to nothing, or to next to the same for all samples."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.lasting import ends, since
from taiyi_fx.findings.facts.watched import Values, Watched, at_common_steps, names_of
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind

_FIRST, _LAST = 3, 2
"""Numbers of the beginning, and later ones that all have to be small."""
_FADED, _SHRUNK, _MANY = 30.0, 20.0, 32
"""The factors by which the deviation between rows, or the size, has fallen, and numbers of that."""

FADED_OUTPUT = Kind(
    "faded_output",
    "warning",
    "What it is given has no part in what it returns any more: look at what comes before it, for "
    "inputs of a wild scale and activations that are saturated; for a term of the loss that pulls "
    "it to a constant, as a divergence from a prior, a decay, or two outputs that are only to be "
    "equal; and at whether inputs and targets belong together",
)


_PRIOR = (
    "The divergence from the prior outweighs what is to be made from the code: look at whether one "
    "of the two is a mean, and the other a sum; give the divergence a smaller weight, or raise it "
    "from 0 as training goes on"
)
_NOTHING = 0.05
"""Of the logarithm of a variance: that of the prior is 0."""
_LONG = 100
"""Steps for which it lasts, where it may come back: a code is often used after a while."""


def faded_outputs(evidence: Evidence) -> Iterator[Finding]:
    """The first module whose rows come to differ 30 times less than they did in the beginning."""
    sizes = evidence.by_module("OutputRMS")
    faded: list[tuple[Watched, Values]] = []
    for one in evidence.of_quantity("OutputVariation"):
        if one.module in sizes:
            share, size = at_common_steps([one, sizes[one.module]])
            deviation = np.sqrt(np.maximum(share.values, 0)) * size.values
            if _has_faded(deviation):
                faded.append((share, deviation))
    if faded:
        site, deviation = faded[0]
        first = float(deviation[:_FIRST].max())
        text = (
            f"what {site.module!r} returns for one sample and for another differs by "
            f"{deviation[-1]:.2g} at step {site.steps[-1]}, and did by {first:.2g} at first"
        )
        others = [series for series, _ in faded[1:]]
        text += f"; so does what {names_of(others)} return" if others else ""
        yield FADED_OUTPUT.at(site, len(site.steps) - _LAST, text, f"near {first:.2g}")
        return
    if (code := _collapsed_code(evidence)) is not None:
        yield code
        return
    small = [one for one in sizes.values() if _is_trained(one, evidence) and _has_shrunk(one)]
    if small:
        one, first = small[0], float(small[0].values[:_FIRST].max())
        text = (
            f"the root mean square of the output of {one.module!r} falls from {first:.2g} to "
            f"{one.values[-1]:.2g}, next to nothing"
        )
        text += f"; so do those of {names_of(small[1:])}" if small[1:] else ""
        i = since(one.values <= first / _SHRUNK)
        yield FADED_OUTPUT.at(one, i, text, f"near {first:.2g}", severity="note")


def _collapsed_code(evidence: Evidence) -> Finding | None:
    """A code of which mean and logarithm of the variance have come to 0: that of the prior.

    The mean is of the same layer, or of another one of the same size beside it.
    """
    known = {name for _, graph in evidence.logged.graphs for name in graph.log_variances}
    trained = [s for s in evidence.of_quantity("OutputRMS") if _is_trained(s, evidence)]
    for one in (s for s in trained if s.module in known and _is_nothing(s)):
        others = [s for s in trained if s is not one and _stands_beside(s.name, one.name, evidence)]
        if not all(map(_is_nothing, others)):
            continue
        i, last = since(one.values <= _NOTHING), int(one.steps[-1])
        text = (
            f"what {names_of([*others, one])} return{'s' * (not others)} shrinks to "
            f"{one.values[-1]:.2g}, and {one.module!r} is taken for the logarithm of a variance: "
            "a code that is drawn by it is noise, which says nothing of its sample"
            f"{_divergence(evidence)}"
        )
        is_long = last - one.steps[i] >= max(_LONG, (last - one.steps[0]) / 2)
        how = {"severity": "warning" if is_long else "note", "advice": _PRIOR}
        return FADED_OUTPUT.at(one, i, text, f"more than {_NOTHING}", **how)
    return None


def _is_nothing(one: Watched) -> bool:
    return len(one.values) >= _MANY and ends(one.values <= _NOTHING)


def _stands_beside(name: str, other: str, evidence: Evidence) -> bool:
    """True for two layers of one module that return as many features."""
    known = [evidence.model.attributes.get(one) for one in (name, other)]
    sizes = {own.features[1] for own in known if own is not None}
    return name.rpartition(".")[0] == other.rpartition(".")[0] and len(sizes) <= 1


def _divergence(evidence: Evidence) -> str:
    """The end of a sentence on a code: its divergence from the prior, if it is logged."""
    known = (s for s in evidence.logged.losses if "kl" in s.quantity.lower())
    return next((f"; {s.quantity!r} is {s.values[-1]:.2g}" for s in known), "")


def _is_trained(one: Watched, evidence: Evidence) -> bool:
    """True for a layer with a gradient, but before a norm, which makes any size the same."""
    is_known = one.name in evidence.parameters.weight_gradients and one.name not in evidence.norms
    return is_known and one.module not in evidence.before_norms


def _has_shrunk(one: Watched) -> bool:
    first = float(one.values[:_FIRST].max())
    is_small = (one.values > 0) & (one.values <= first / _SHRUNK)
    return len(one.values) >= _MANY and ends(is_small)


def _has_faded(deviation: Values) -> bool:
    if len(deviation) < _FIRST + _LAST or not np.isfinite(deviation).all():
        return False
    first = float(deviation[:_FIRST].max())
    return bool(first > 0 and (deviation[-_LAST:] <= first / _FADED).all())
