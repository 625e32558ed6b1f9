"""Mixtures of experts whose routers do not share tokens out, and tokens that no expert takes."""

from __future__ import annotations

from collections.abc import Iterator

from taiyi_fx.findings.blocks import in_blocks, named
from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.idle import at_work, idle_experts
from taiyi_fx.findings.facts.lasting import lasting, since
from taiyi_fx.findings.facts.robust import median
from taiyi_fx.findings.facts.watched import Watched, at_common_steps
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind

_FIRST = 5
"""Numbers from which the usual one is known: routers begin nearly even."""
_FALL = 0.5
"""Of the entropy: of 64 experts as many as 8 even ones are left, of 8 fewer than 3."""
_MOST = 0.75
"""A share of dead experts of which no batch of few tokens is the reason."""
_FEW, _RISE, _RISE_OF_MANY = 0.05, 0.1, 0.25
"""Where more are without a token in the beginning, batches are small, and shares vary by chance."""
_NEVER = 64
"""Steps in which even a router that begins unevenly gives each expert a token."""

ROUTER_COLLAPSE = Kind(
    "router_collapse",
    "alert",
    "Add a loss or a bias that balances the experts, or a stronger one; lower its learning "
    "rate; look at the scale of what it is given",
)
DEAD_EXPERTS = Kind(
    "dead_experts",
    "warning",
    "Without tokens an expert has no gradient and stays as it is: balance the experts by a loss or "
    "a bias, add noise to the router, or begin with a lower learning rate",
)


def router_collapses(evidence: Evidence) -> Iterator[Finding]:
    """Routers that send nearly all tokens to a few experts."""
    dead = evidence.by_module("DeadExperts")
    seen: set[str] = set()
    for one in evidence.of_quantity("RouterEntropy"):
        usual = median(one.values[:_FIRST])
        is_so = one.values <= _FALL * usual
        if usual > 0 and lasting(is_so):
            i, value = since(is_so), float(one.values[-1])
            seen.add(one.module)
            share = dead.get(one.module)
            rest = "" if share is None else f"; {share.values[-1]:.0%} of them have none"
            text = (
                f"step {one.steps[i]}: the tokens of {one.module!r} go to few of its experts from "
                f"here on: the entropy of their load is {value:.3g}, where it was {usual:.3g}{rest}"
            )
            expected = f"near {usual:.3g}, as in the beginning"
            yield ROUTER_COLLAPSE.at(one, i, text, expected, value=value)
    for one in dead.values():
        if one.module not in seen and lasting(one.values >= _MOST):
            yield _dead(ROUTER_COLLAPSE, one, _MOST)


def dead_experts(evidence: Evidence) -> Iterator[Finding]:
    """Routers by which more experts get no token than in the beginning, and experts without any."""
    collapsed = {found.module for found in router_collapses(evidence)}
    for one in evidence.of_quantity("DeadExperts"):
        usual = median(one.values[:_FIRST])
        share = usual + (_RISE if usual <= _FEW else _RISE_OF_MANY)
        if one.module not in collapsed and lasting(one.values >= share):
            yield _dead(DEAD_EXPERTS, one, share)
    yield from _never_chosen(evidence)


def _never_chosen(evidence: Evidence) -> Iterator[Finding]:
    """Experts that no token ever came to."""
    idle, gradients = idle_experts(evidence), evidence.parameters.weight_gradients
    never = [
        one
        for one in gradients.values()
        if len(one.values) >= _NEVER and not len(at_work(one, idle).values)
    ]
    for one, name in in_blocks(never, gradients):
        text = f"{named(one, name)} got no token in any of {len(one.values)} steps"
        yield DEAD_EXPERTS.at(one, 0, text, "a token now and then", module=name)


def _dead(kind: Kind, one: Watched, share: float) -> Finding:
    i, value = since(one.values >= share), float(one.values[-1])
    text = (
        f"step {one.steps[i]}: {value:.0%} of the experts of {one.module!r} get no token from "
        "here on"
    )
    return kind.at(one, i, text, "0, or nearly", value=value)


_TOKENS, _TIMES = 2 / 3, 2.5
"""Shares of all tokens at one expert, and times its fair share: one more than `MaxVio` of arXiv
2408.15664. In healthy trainings the busiest of eight has 1.6 to 2 times its share in the end, 0.4
to 0.5 of the tokens; of many experts that specialise (arXiv 2409.02060), none has most of them."""
_LONG = 64
"""Steps that it lasts: routers begin unevenly, and are balanced within some dozens."""
_DROPPED, _HALF = 0.2, 0.5
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
    imbalances = evidence.by_module("RouterLoad.imbalance")
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
            severity = "warning" if share >= _HALF else "note"
            expected = "a few percent at most"
            yield DROPPED_TOKENS.at(one, i, text, expected, value=share, severity=severity)
