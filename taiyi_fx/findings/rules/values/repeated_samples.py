"""Samples of one batch that are copies of others, to the last bit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.given_inputs import Repeats
from taiyi_fx.findings.facts.loss_graph import LossGraph
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind

_FEW = 3
"""Batches that have to have copies, of which the first may be one of padding or of a warm-up."""
_EARLY = 5
"""Looks before these: a memory of states may begin with fewer than a batch has."""
_COPIES = 0.4
"""Copies for each sample of its own: fewer come of drawing with replacement."""
_TIMES = 2
"""Samples of all these batches for those of one, above which there are more to come."""

REPEATED_SAMPLES = Kind(
    "repeated_samples",
    "warning",
    "Look at how the batch is made: a buffer that keeps references to an array which is changed in "
    "place afterwards (keep array.copy()), indices that repeat, a cache that hands out one sample",
)
_DOUBLED = (
    "Draw each view by a random state of its own: both are made by the same seed, or one is handed "
    "out twice"
)


def repeated_samples(evidence: Evidence) -> Iterator[Finding]:
    """Batches of which many samples are copies, or all are there twice in a model without dropout.

    The latter is a note, as a model may draw by itself, unless its loss compares rows, as views.
    """
    looks = [one for one in evidence.inputs.repeats if one.different > 2]
    if len(looks) < _FEW or not evidence.series:
        return
    if all(map(_is_doubled, looks)) and not evidence.model.has_dropout:
        last = looks[-1]
        text = (
            f"each sample of the batch is there twice, to the last bit ({last.different} of "
            f"{last.samples} are different), and the model has no dropout: the second is answered "
            "as the first"
        )
        severity = "warning" if any(map(_compares_rows, evidence.logged.known_graphs)) else "note"
        others = {"module": "", "value": float(last.different), "advice": _DOUBLED}
        others |= {"severity": severity}
        yield REPEATED_SAMPLES.at(evidence.series[0], 0, text, "two different views", **others)
        return
    later = looks[_EARLY:]
    copied = [one for one in later if _has_copies(one)]
    is_odd = any(one.samples % one.different for one in copied)  # else each is there as often
    is_often = len(copied) >= _FEW and 2 * len(copied) >= len(later)
    if is_odd and is_often and _come_anew(looks, copied):
        first = copied[0]
        text = (
            f"only {first.different} of the {first.samples} samples of a batch are different from "
            f"each other, to the last bit, and likewise in {len(copied)} of the {len(later)} "
            "batches that were looked at"
        )
        others = {"module": "", "value": float(first.different)}
        yield REPEATED_SAMPLES.at(evidence.series[0], 0, text, "different samples", **others)


def repeated_views(evidence: Evidence) -> Iterator[Finding]:
    """Losses that contrast what a model says to one batch with what it says to the same again."""
    for loss, graph in evidence.logged.graphs:
        if graph.same_calls and _compares_rows(graph):
            text = (
                f"for {loss.quantity!r} the model is run more than once on the very same values, "
                f"to the last bit, from {graph.same_calls[0]!r} on, and the loss compares the "
                "results, which are the same"
            )
            others = {"module": "", "advice": _DOUBLED}
            yield REPEATED_SAMPLES.at(loss, 0, text, "two different views", **others)


def _compares_rows(graph: LossGraph) -> bool:
    """True for a loss that chooses among products of rows, or pulls rows together."""
    return graph.pulled_alone is not None or (graph.logits is not None and not graph.logits.module)


def _come_anew(looks: Sequence[Repeats], copied: Sequence[Repeats]) -> bool:
    """True if other batches have other samples: there are not just so many, as states of a game."""
    every = frozenset[int]().union(*(one.codes for one in looks))
    return len(every) >= _TIMES * max(one.different for one in copied)


def _is_doubled(one: Repeats) -> bool:
    return one.is_doubled and 2 * one.different == one.samples


def _has_copies(one: Repeats) -> bool:
    """True for samples of measured numbers, of which many are copies."""
    return 2 * one.continuous > one.samples > (1 + _COPIES) * one.different
