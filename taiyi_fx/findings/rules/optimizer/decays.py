"""Weight decay that takes so much of the weights at each step that nothing stays learnt."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from taiyi_fx.findings.blocks import in_blocks, named
from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.robust import median
from taiyi_fx.findings.facts.watched import Watched, at_common_steps
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind

_SHARE = 0.005
"""Of a weight at each step, which is half of it in 140: some 1e-5 to 1e-3 are usual."""
_KEPT = 0.7
"""Of its first size, above which a weight holds out against decay."""
_UNPULLED = 1e6
"""Times its first gradient, above which a weight has none to speak of, decay or not."""
_MOST = 0.5
"""The share of the weights of which it is the model's decay."""

LARGE_DECAY = Kind(
    "large_decay",
    "warning",
    "Look at the optimizer's weight_decay: what it takes away at a step is its product with the "
    "learning rate, 1e-4 or less as a rule",
)
_WITHIN = (
    "Take AdamW, which makes weights smaller beside the step, or a decay of 1e-4 or less: in Adam "
    "it is divided by the size of the gradients, as these are"
)


def large_decays(evidence: Evidence) -> Iterator[Finding]:
    """Weights of which decay takes half a percent or more at each step, or that it makes larger."""
    grown = [
        s
        for module, s in evidence.parameters.weights.items()
        if evidence.optimizer.decays.get(module, 0.0) < 0
    ]
    if grown:
        site, decay = grown[0], evidence.optimizer.decays[grown[0].module]
        name = "" if len(grown) >= _MOST * len(evidence.parameters.weights) else site.module
        subject = "half of all weights and more" if not name else repr(name)
        text = f"the weight decay of {subject} is {decay:.3g}, below 0: it makes them grow"
        others = {"module": name, "value": decay, "severity": "alert"}
        yield LARGE_DECAY.at(site, 0, text, "0 or more", **others)
        return
    rates = _rates(evidence)
    shares = {
        s.module: rates[s.module] * evidence.optimizer.shrinkage[s.module]
        for s in evidence.parameters.weights.values()
        if s.module in evidence.optimizer.shrinkage and s.module in rates
    }
    odd = [
        s for module, s in evidence.parameters.weights.items() if shares.get(module, 0.0) >= _SHARE
    ]
    if not odd:
        yield from _outweighing(evidence)
        return
    if len(odd) >= _MOST * len(evidence.parameters.weights):
        yield _finding(odd[0], "", "half of all weights", shares[odd[0].module], evidence)
        return
    for site, name in in_blocks(odd, evidence.parameters.weights):
        yield _finding(site, name, named(site, name), shares[site.module], evidence)


def _outweighing(evidence: Evidence) -> Iterator[Finding]:
    """Decay that Adam's rule takes for the most of each gradient, by which the weights fade."""
    times: dict[str, float] = {}
    for module in _within_gradients(evidence):
        decay = evidence.optimizer.decays.get(module, 0.0)
        known = [
            of[module]
            for of in (evidence.parameters.weights, evidence.parameters.weight_gradients)
            if module in of
        ]
        if len(known) < 2 or decay <= 0:
            continue
        norm, slope = at_common_steps(known)
        if len(norm.values) and norm.values[-1] < _KEPT * norm.values[0]:
            if norm.values[0] > _UNPULLED * slope.values[0]:
                continue  # it vanished before any decay
            ratios = decay * norm.values / np.maximum(slope.values, np.finfo(float).tiny)
            times[module] = median(ratios)
    odd = [name for name, ratio in times.items() if ratio >= 1]
    if len(odd) > _MOST * len(evidence.parameters.weights):
        site = evidence.parameters.weights[odd[0]]
        decay = evidence.optimizer.decays[site.module]
        text = (
            f"the weight decay of half of all weights, {decay:.3g}, is added to the gradient, and "
            f"is {median([times[name] for name in odd]):.2g} times as large as the loss's: steps "
            "go towards 0"
        )
        others = {"module": "", "value": decay, "advice": _WITHIN}
        yield LARGE_DECAY.at(site, 0, text, "a small part of the gradient", **others)


def _within_gradients(evidence: Evidence) -> list[str]:
    """The modules whose decay Adam adds to the gradient, and not to the weights, as AdamW does."""
    known = (group for group in evidence.optimizer.group_settings if group.rule == "adam")
    every = dict.fromkeys(module for group in known for module in group.modules)
    return [module for module in every if module not in evidence.optimizer.shrinkage]


def _finding(site: Watched, module: str, subject: str, share: float, evidence: Evidence) -> Finding:
    decay = evidence.optimizer.decays[site.module]
    text = (
        f"the weight decay of {subject}, {decay:.3g}, takes {share:.2g} of them away at each step: "
        f"what was learnt is halved in {0.69 / share:.0f} steps"
    )
    return LARGE_DECAY.at(site, 0, text, f"below {_SHARE} of a weight", module=module, value=share)


def _rates(evidence: Evidence) -> dict[str, float]:
    """The usual learning rate of each group: the one of now may be the end of a schedule."""
    recorded = {s.quantity: median(s.values) for s in evidence.rates}
    whole = recorded.get("LearningRate")
    return {
        module: recorded.get(f"LearningRate.group{group}", now if whole is None else whole)
        for module, (group, now) in evidence.optimizer.groups.items()
    }
