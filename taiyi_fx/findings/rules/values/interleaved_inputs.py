"""Images and signals whose channels came last, and are read as if they came first."""

from __future__ import annotations

from collections.abc import Iterator

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.given_inputs import Interleaving
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.rules.losses.mixed_axes import TORN_VIEW

_FEW = 2
"""Batches that have to be so."""
_NEARER = 0.85
"""The difference of the numbers as far apart as channels, over that of neighbours: of pictures one
pixel further is nearer than three, and of noise it is alike."""
_ACROSS = 2.0
"""And over itself where one channel ends and another begins, which of signals with a period of so
many steps is the difference of two channels."""


def interleaved_inputs(evidence: Evidence) -> Iterator[Finding]:
    """The first input whose neighbours are like channels, and numbers further on like pixels."""
    for is_training, inputs in evidence.inputs.interleaving.items():
        for name, looks in inputs.items():
            if len(looks) < _FEW or not all(map(_is_torn, looks)) or not evidence.series:
                continue
            one, mode = looks[-1], "" if is_training else " of evaluation"
            channels, *places = one.shape
            text = (
                f"in the input {name!r}{mode}, of shape (n, {', '.join(map(str, one.shape))}), "
                f"numbers {channels} places apart differ by {one.next_but_channels:.3g}, and "
                f"neighbours by {one.next:.3g}: as if it were ({', '.join(map(str, places))}, "
                f"{channels}) in memory, and viewed with channels first"
            )
            yield TORN_VIEW.at(evidence.series[0], 0, text, "a permute", module="")
            return


def _is_torn(one: Interleaving) -> bool:
    far = one.next_but_channels
    return far < _NEARER * one.next and one.across < _ACROSS * far
