"""Terms of a loss without a gradient, by their numbers beside those of the loss."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.lasting import STEPS
from taiyi_fx.findings.facts.robust import Numbers
from taiyi_fx.findings.facts.watched import Watched, at_common_steps
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind

_ROUNDING = 1e-4
"""The share of a loss by which a sum may be off, as of three numbers of single precision."""
_VARIES = 0.01
"""The share of its mean by which a term deviates that is no constant on purpose."""

CONSTANT_TERM = Kind(
    "constant_term",
    "warning",
    "Compute it of what the model returns by functions that have a slope: without a comparison, "
    "argmax, round, item(), detach() or numpy() on the way",
)


def constant_terms(evidence: Evidence) -> Iterator[Finding]:
    """The logged losses without a gradient that another loss is the sum of with a third one.

    Where autograd shows that something without a gradient is added, and no other term with one: of
    what is detached to be logged alone it shows one.
    """
    graphs = {loss.quantity: (loss, graph) for loss, graph in evidence.logged.graphs}
    trained = [loss for loss, graph in graphs.values() if graph.has_gradient]
    others = [loss for loss, graph in graphs.values() if not graph.has_gradient]
    terms = {loss.quantity: graph.terms for loss, graph in graphs.values()}
    sums = [loss for loss in trained if terms[loss.quantity].has_constant]
    for whole, part, term in product(sums, trained, others):
        is_all = terms[whole.quantity].trained == terms[part.quantity].trained
        if whole is not part and is_all and (factor := _factor(whole, part, term)):
            times = "" if abs(factor - 1) < _ROUNDING else f"{factor:.3g} times "
            text = (
                f"{whole.quantity!r} is {part.quantity!r} and {times}{term.quantity!r} at all "
                f"steps, and {term.quantity!r} has no gradient: no weight feels it"
            )
            yield CONSTANT_TERM.at(term, 0, text, "a term with a gradient", module="")
            return


def _factor(whole: Watched, part: Watched, term: Watched) -> float:
    """The factor by which a term makes up the difference of two losses; 0 if it does not."""
    whole, part, term = at_common_steps([whole, part, term])
    if len(whole.steps) < STEPS or not _varies(term.values):
        return 0.0
    rest = whole.values - part.values
    factor = float(rest @ term.values / (term.values @ term.values))
    is_sum = np.abs(rest - factor * term.values) <= _ROUNDING * np.abs(whole.values)
    return factor if is_sum.all() and np.abs(factor * term.values).max() > 0 else 0.0


def _varies(values: Numbers) -> bool:
    return bool(np.std(values) > _VARIES * np.abs(np.mean(values)) > 0)
