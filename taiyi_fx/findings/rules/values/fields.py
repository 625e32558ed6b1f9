"""Fields of categories whose indices collide in one embedding."""

from __future__ import annotations

from collections.abc import Iterator

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind

_SHOWN = 5

OVERLAPPING_FIELDS = Kind(
    "overlapping_fields",
    "warning",
    "Add to each field the number of categories of those before it: x + offsets, where offsets is "
    "torch.tensor([0, *cumsum(field_sizes)[:-1]]); or give each field an embedding of its own",
)


def overlapping_fields(evidence: Evidence) -> Iterator[Finding]:
    """Embeddings with a row for each category of all fields, of which all use the first ones."""
    for loss, graph in evidence.logged.graphs:
        for one in graph.overlapping_fields[-1:]:  # nodes come from the loss back
            shown = ", ".join(map(str, one.sizes[:_SHOWN])) + ", ..." * (len(one.sizes) > _SHOWN)
            text = (
                f"{one.module!r} has {one.rows} rows, about as many as the {len(one.sizes)} fields "
                f"that it is given have categories together ({shown}), and is asked for the first "
                f"{max(one.sizes)} alone: categories of different fields have the same row"
            )
            yield OVERLAPPING_FIELDS.at(
                loss, 0, text, "rows of each field's own", module=one.module, value=float(one.rows)
            )
