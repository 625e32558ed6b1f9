"""Calls whose result is thrown away, and dropouts that know nothing of evaluation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.slips import Slip
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind

DROPPED_RESULT = Kind(
    "dropped_result",
    "warning",
    "It returns another tensor, and leaves the one that it takes as it is: write "
    "x = x.add(y), or x.add_(y)",
)
ALWAYS_DROPPING = Kind(
    "dropout_in_evaluation",
    "warning",
    "Call it with training=self.training, or take nn.Dropout, which model.eval() turns off",
)


def slips(evidence: Evidence) -> Iterator[Finding]:
    """The first call of each kind in the source of the model's modules."""
    every = [(name, slip) for name, known in evidence.slips.items() for slip in known]
    for kind, is_dropout in ((DROPPED_RESULT, False), (ALWAYS_DROPPING, True)):
        known = [(name, slip) for name, slip in every if slip.is_dropout == is_dropout]
        if known and evidence.series:
            module, slip = known[0]
            seen = (
                "sets numbers to zero in evaluation, too, as it is not told whether the model "
                "trains"
                if is_dropout
                else "throws away what it returns"
            )
            text = f"{slip.place}: `{slip.call}` {seen}{_more([one for _, one in known[1:]])}"
            series = next((s for s in evidence.series if s.module == module), evidence.series[0])
            yield kind.at(series, 0, text, module=module)


def _more(others: Sequence[Slip]) -> str:
    places = [slip.place for slip in others]
    return f"; and so {'do' if places[1:] else 'does'} {', '.join(places)}" if places else ""
