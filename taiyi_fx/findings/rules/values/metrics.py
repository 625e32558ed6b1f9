"""Numbers of the user's own that are not finite and are no loss."""

from __future__ import annotations

from collections.abc import Iterator

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind

UNDEFINED_METRIC = Kind(
    "undefined_metric",
    "note",
    "Look at how it is computed of the batch of this step: an area under a curve has no value of "
    "one class alone, nor has a mean of no elements. If it is a loss, log it by a name with `loss`",
)


def undefined_metrics(evidence: Evidence) -> Iterator[Finding]:
    """Logged numbers that are NaN or Inf: a metric may have no value for some batches."""
    for one in evidence.logged.metrics:
        bad = one.is_bad
        if bad.any():
            i, many = int(bad.argmax()), int(bad.sum())
            more = f", as are {many} of its {len(bad)} numbers" if many > 1 else ""
            text = f"step {one.steps[i]}: {one.title}, which you log, is {one.values[i]:.3g}{more}"
            yield UNDEFINED_METRIC.at(one, i, text, "finite")
