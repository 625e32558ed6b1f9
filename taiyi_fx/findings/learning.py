"""Parameters that do not learn though their siblings do: no gradient, or no update."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from taiyi_fx.findings.evidence import Evidence, Watched
from taiyi_fx.findings.finding import Finding

_STEPS = 8
"""Due steps that a silence has to last."""


def zero_gradients(evidence: Evidence) -> Iterator[Finding]:
    """Modules whose gradient is exactly zero while others have one."""
    every = [s for s in evidence.weight_gradients if len(s.values) >= _STEPS]
    silent = [s for s in every if _lasts(s.values == 0)]
    if not silent or len(silent) == len(every):
        return
    # What is dead cuts off what lies before it: the last one is where it begins.
    site = max(silent, key=lambda s: evidence.modules[s.module])
    step = _since(site, site.values == 0)
    yield Finding(
        kind="zero_gradient",
        severity="alert",
        module=site.module,
        quantity=site.quantity,
        step=step,
        value=0.0,
        expected="above 0",
        text=f"step {step}: the gradient of {site.module!r} is exactly 0 from here on"
        + (f", and that of {len(silent) - 1} modules before it" if len(silent) > 1 else ""),
        advice="Nothing that it computes reaches the loss: look for a detach, a dead activation "
        "behind it, a multiplication by zero, or an output that is not used",
    )


def no_update(evidence: Evidence) -> Iterator[Finding]:
    """Modules that have a gradient and never change, while others do."""
    gradients = {s.module: s for s in evidence.weight_gradients}
    every = [s for s in evidence.weights if len(s.values) >= _STEPS]
    pulls = {s.module: _size(gradients.get(s.module)) / max(_size(s), 1e-30) for s in every}
    # Float32 rounds a small step away; but not where others move that are pulled less.
    least = min((pulls[s.module] for s in every if not _is_still(s)), default=0.0)
    still = [s for s in every if _is_still(s) and pulls[s.module] > least / 2]
    if not still:
        return
    if len(still) == len([s for s in every if s.module in gradients]):
        yield _of_all(still[0])
        return
    for site in still:
        yield Finding(
            kind="no_update",
            severity="alert",
            module=site.module,
            quantity=site.quantity,
            step=int(site.steps[0]),
            value=float(site.values[-1]),
            expected="a change at each step",
            text=f"{site.module!r} never changes, though it has a gradient and others change",
            advice="It is not among the parameters that the optimizer was given, or in a group "
            "whose learning rate is 0; to freeze it on purpose call requires_grad_(False)",
        )


def missing_gradients(evidence: Evidence) -> Iterator[Finding]:
    """Modules without a gradient among siblings that have one; not where all before it lack one."""
    with_gradient = {s.module for s in evidence.weight_gradients}
    every = [s for s in evidence.weights if len(s.values) >= _STEPS]
    for role in dict.fromkeys(s.role for s in every):
        siblings = [s for s in every if s.role == role]
        has = [s.module in with_gradient for s in siblings]
        # A frozen beginning is deliberate, and so is all of a role, as the base of an adapter.
        first = has.index(True) if True in has else len(has)
        lacking = [s for s, so in zip(siblings[first:], has[first:], strict=True) if not so]
        if len(lacking) >= 0.4 * len(siblings):
            continue
        for site in lacking:
            yield Finding(
                kind="missing_gradient",
                severity="warning",
                module=site.module,
                quantity=site.quantity,
                step=int(site.steps[0]),
                value=float(site.values[-1]),
                expected="a gradient, as its siblings have",
                text=f"{site.module!r} has no gradient, where {sum(has)} siblings of it have one",
                advice="It is frozen (requires_grad is False), never called, or cut off by "
                "detach or torch.no_grad",
            )


def _of_all(site: Watched) -> Finding:
    return Finding(
        kind="no_update",
        severity="alert",
        module="",
        quantity=site.quantity,
        step=int(site.steps[0]),
        value=float(site.values[-1]),
        expected="a change at each step",
        text="no parameter changes, though all have gradients",
        advice="The learning rate is 0 or far too small, optimizer.step() is not called, or the "
        "optimizer was given the parameters of another model",
    )


def _is_still(s: Watched) -> bool:
    return bool((s.values == s.values[0]).all())


def _size(s: Watched | None) -> float:
    return 0.0 if s is None else float(np.median(s.values))


def _lasts(is_so: np.ndarray) -> bool:
    """True if it is so at the end, and at most of the steps of the last half."""
    last = is_so[-max(_STEPS, len(is_so) // 2) :]
    return bool(is_so[-_STEPS:].all() and last.mean() > 0.9)


def _since(s: Watched, is_so: np.ndarray) -> int:
    others = np.flatnonzero(~is_so)
    return int(s.steps[others[-1] + 1 if len(others) else 0])
