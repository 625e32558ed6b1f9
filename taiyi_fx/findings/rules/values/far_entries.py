"""Entries of a table that have one value far from all others, as a code for what is missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind

_FAR = 50.0
"""Deviations of all others: of numbers that are measured none lies so far, several times over."""
_FEW = 2
"""Forwards in which it has to be the same value."""

FAR_ENTRY = Kind(
    "far_entry",
    "warning",
    "Replace it before the data are scaled, as by the median, with an entry beside it that says "
    "where: it is a code for what is missing, such as -999, and takes all others' spread away",
)


def far_entries(evidence: Evidence) -> Iterator[Finding]:
    """The first input of which an entry has one value far from all others, in some samples."""
    for name, looks in evidence.inputs.far.items():
        far = [one for one in looks if one.distance >= _FAR]
        places = Counter((one.entry, one.value) for one in far)
        (place, count), *_ = places.most_common(1) or [((0, 0.0), 0)]
        if count >= _FEW and 2 * len(far) > len(looks) and evidence.series:
            one = next(x for x in far if (x.entry, x.value) == place)
            text = (
                f"entry {one.entry} of the input {name!r} is {one.value:.5g} in {one.share:.0%} of "
                f"the samples, {one.distance:.3g} deviations from the next value of all others"
            )
            others = {"module": "", "value": one.value}
            yield FAR_ENTRY.at(evidence.series[0], 0, text, f"within {_FAR:g} of these", **others)
            return
