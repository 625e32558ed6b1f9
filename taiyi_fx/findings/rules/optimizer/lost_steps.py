"""Steps of SGD that are next to nothing beside its learning rate and gradients."""

from __future__ import annotations

from collections.abc import Iterator

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.robust import median
from taiyi_fx.findings.facts.watched import Watched
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind

_LITTLE = 1e-3
"""The share of its step that is left: to clip gradients of usual size leaves more."""
_FEW = 8
_MOST = 0.5
"""The share of the weights of which it is so."""

LOST_STEPS = Kind(
    "lost_steps",
    "alert",
    "Look at what makes gradients smaller between backward and the optimizer's step: with a "
    "GradScaler, call scaler.unscale_(optimizer) before clip_grad_norm_, which else takes scaled "
    "gradients for huge ones; and look at the bound that they are clipped to",
)


def lost_steps(evidence: Evidence) -> Iterator[Finding]:
    """Weights whose steps are a thousandth of what SGD makes of gradients as they were read."""
    shares = {
        s.module: share
        for s in evidence.steps_of_weights
        if (share := _share(s, evidence)) is not None
    }
    lost = [module for module, share in shares.items() if share <= _LITTLE]
    if lost and len(lost) > _MOST * len(shares):
        usual = median([shares[module] for module in lost])
        site = next(s for s in evidence.steps_of_weights if s.module == lost[0])
        text = (
            f"the optimizer moves {len(lost)} of {len(shares)} weights by {usual:.2g} times what "
            "its learning rate and their gradients make, as these were after backward"
        )
        yield LOST_STEPS.at(site, 0, text, "about 1 of it", module="", value=usual)


def _share(s: Watched, evidence: Evidence) -> float | None:
    """The size of a weight's steps, less its decay, beside its rate times the gradients before."""
    number, _ = evidence.optimizer.groups.get(s.module, (-1, 0.0))
    size, gradient = (
        evidence.parameters.weights.get(s.module),
        evidence.parameters.weight_gradients.get(s.module),
    )
    is_known = (
        0 <= number < len(evidence.optimizer.group_settings) and s.quantity == "UpdateRatio.weight"
    )
    if not is_known or evidence.optimizer.group_settings[number].rule != "sgd":
        return None
    if size is None or gradient is None or not (rates := _rates(number, evidence)):
        return None
    at_size, at_gradient = _by_step(size), _by_step(gradient)
    # Of a decay a step has as much as all steps before have, by momentum.
    decay = evidence.optimizer.shrinkage.get(s.module, 0.0)
    shares = [
        max(ratio - decay * rates[step - 1], 0.0)
        * at_size[step - 1]
        / (rates[step - 1] * at_gradient[step - 1])
        for step, ratio in zip(s.steps.tolist(), s.values.tolist(), strict=True)
        if rates.get(step - 1) and at_gradient.get(step - 1) and at_size.get(step - 1)
    ]
    if len(shares) < _FEW or not s.values.all():
        return None
    return median(shares)


def _rates(number: int, evidence: Evidence) -> dict[int, float]:
    """The learning rate of a group by step."""
    series = [*evidence.of_quantity(f"LearningRate.group{number}")]
    series = series or [*evidence.of_quantity("LearningRate")]
    return {step: rate for one in series for step, rate in _by_step(one).items()}


def _by_step(one: Watched) -> dict[int, float]:
    return dict(zip(one.steps.tolist(), one.values.tolist(), strict=True))
