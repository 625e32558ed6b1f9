"""Lists whose entries are one module, as ``[layer] * n`` makes them."""

from __future__ import annotations

from collections.abc import Iterator

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind

SHARED_ENTRIES = Kind(
    "shared_entries",
    "note",
    "Nothing is wrong where they are meant to share their weights; if they should differ, make "
    "each anew: [layer] * n repeats one",
)


def shared_entries(evidence: Evidence) -> Iterator[Finding]:
    """Each list of modules that holds one module several times."""
    first = next(iter(evidence.series), None)
    if first is None:
        return
    for name, count in evidence.repeated.items():
        where = repr(name) if name else "the model"
        text = f"{count} entries of {where} are one module, with the same weights"
        value = float(count)
        yield SHARED_ENTRIES.at(first, 0, text, "1", module=name, quantity="", value=value)
