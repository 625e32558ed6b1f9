"""Routers whose load is uneven before experts die of it, and tokens that no expert takes."""

from __future__ import annotations

from collections.abc import Iterator

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.lasting import lasting, since
from taiyi_fx.findings.facts.robust import median
from taiyi_fx.findings.facts.watched import at_common_steps
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind
from taiyi_fx.findings.rules.attention.experts import router_collapses

_TOKENS, _TIMES = 2 / 3, 2.5
"""Shares of all tokens at one expert, and times its fair share: one more than `MaxVio` of arXiv
2408.15664. In healthy trainings the busiest of eight has 1.6 to 2 times its share in the end, 0.4
to 0.5 of the tokens; of many experts that specialise (arXiv 2409.02060), none has most of them."""
_LONG = 64
"""Steps that it lasts: routers begin unevenly, and are balanced within some dozens."""
_DROPPED, _MOST = 0.2, 0.5
"""Shares of choices: of Switch less than a hundredth is dropped (arXiv 2101.03961). A second expert
that a threshold leaves out counts as well, so that up to a half may be meant."""

UNBALANCED_ROUTER = Kind(
    "unbalanced_router",
    "warning",
    "Add a loss or a bias that balances the experts, or a stronger one, and look at its sign: the "
    "others get few tokens and die, and where experts are on several ranks all wait for this one",
)
DROPPED_TOKENS = Kind(
    "dropped_tokens",
    "note",
    "No expert computes these, as those chosen are full, or a threshold leaves out the second "
    "choice: balance the experts, or raise the capacity",
)


def unbalanced_routers(evidence: Evidence) -> Iterator[Finding]:
    """Routers that send two of three tokens to one expert, far above its fair share."""
    collapsed = {found.module for found in router_collapses(evidence)}
    imbalances = {s.module: s for s in evidence.of_quantity("RouterLoad.imbalance")}
    for one in evidence.of_quantity("RouterLoad.busiest"):
        if one.module in collapsed or one.module not in imbalances:
            continue
        busiest, imbalance = at_common_steps([one, imbalances[one.module]])
        is_so = (busiest.values >= _TOKENS) & (imbalance.values >= _TIMES)
        i = since(is_so)
        if lasting(is_so) and busiest.steps[-1] - busiest.steps[i] >= _LONG:
            share, times = median(busiest.last_half), median(imbalance.last_half)
            text = (
                f"step {busiest.steps[i]}: {share:.0%} of all tokens come to one expert of "
                f"{one.module!r} from here on, {times:.2g} times its fair share"
            )
            yield UNBALANCED_ROUTER.at(busiest, i, text, f"{share / times:.2g}", value=share)


def dropped_tokens(evidence: Evidence) -> Iterator[Finding]:
    """Routers that drop a fifth of all choices or more; a warning of half of them."""
    for one in evidence.of_quantity("RouterLoad.dropped"):
        is_so = one.values >= _DROPPED
        i = since(is_so)
        if lasting(is_so) and one.steps[-1] - one.steps[i] >= _LONG:
            share = median(one.last_half)
            text = (
                f"step {one.steps[i]}: {one.module!r} drops {share:.0%} of all choices from here "
                "on: no expert computes them"
            )
            severity = "warning" if share >= _MOST else "note"
            expected = "a few percent at most"
            yield DROPPED_TOKENS.at(one, i, text, expected, value=share, severity=severity)
