"""Weights that begin as copies of each other and then part, as tied ones do that no longer are."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from taiyi_fx.findings.facts.evidence import Evidence, is_near
from taiyi_fx.findings.facts.watched import Watched
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind

PARTED_COPIES = Kind(
    "parted_copies",
    "note",
    "If they were to share one weight, tie them anew after loading: load_state_dict(assign=True), "
    "copies and new layers untie them; a stored optimizer has to know it, too",
)


def parted_copies(evidence: Evidence) -> Iterator[Finding]:
    """An embedding and a matrix with the same weight at first, which each of them then changes."""
    known = [
        s
        for s in evidence.parameters.weights.values()
        if s.steps[0] == 0 and not _is_plain(s, evidence)
    ]
    named = _embeddings(evidence)
    embeddings = [s for s in known if s.module in named]
    matrices = [s for s in known if s.module not in named]
    for one, other in product(embeddings, matrices):
        if one.values[0] == other.values[0] and one.values[-1] != other.values[-1]:
            text = (
                f"{one.module!r} and {other.module!r} begin with the same weight, and change it "
                "each for itself"
            )
            yield PARTED_COPIES.at(other, 0, text, "one weight, or two that begin apart")


def _embeddings(evidence: Evidence) -> set[str]:
    """The modules that are given no numbers, or return rows of their weight as they are."""
    given = {s.module for s in evidence.of_quantity("InputRMS")}
    returned = {s.module: s.values[0] for s in evidence.of_quantity("OutputRMS")}
    sizes = {s.module: s.values[0] for s in evidence.of_quantity("ParameterRMS.weight")}
    alike = {m for m in sizes.keys() & returned.keys() if is_near(returned[m], sizes[m])}
    return alike | (evidence.parameters.weights.keys() - given)


def _is_plain(one: Watched, evidence: Evidence) -> bool:
    """True for a gain, and for a weight of zeros or of ones, as an identity has, of any size."""
    square = float(one.values[0]) ** 2
    return evidence.parameters.is_vector(one.module) or abs(square - round(square)) < 1e-6 * square
