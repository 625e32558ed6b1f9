"""Mixtures of experts whose routers no longer share tokens out."""

from __future__ import annotations

from collections.abc import Iterator

from taiyi_fx.findings.blocks import in_blocks, named
from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.idle import at_work, idle_experts
from taiyi_fx.findings.facts.lasting import lasting, since
from taiyi_fx.findings.facts.robust import median
from taiyi_fx.findings.facts.watched import Watched
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
    dead = {one.module: one for one in evidence.of_quantity("DeadExperts")}
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
    idle, gradients = idle_experts(evidence), evidence.weight_gradients
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
