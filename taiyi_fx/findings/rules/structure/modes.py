"""Trainings that go on in evaluation mode."""

from __future__ import annotations

from collections.abc import Iterator

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.lasting import STEPS
from taiyi_fx.findings.facts.watched import names_of
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind

EVALUATION_MODE = Kind(
    "evaluation_mode",
    "warning",
    "Call model.train() after each evaluation, and after loading a model that comes in evaluation "
    "mode",
)
UNFED_NORM = Kind(
    "evaluation_mode",
    "warning",
    "Load the trained model before its BatchNorms are put into evaluation mode and frozen; of a "
    "model that is trained from the start leave them in training mode",
)


def unfed_norms(evidence: Evidence) -> Iterator[Finding]:
    """BatchNorms in evaluation mode that normalise by nothing, while weights of the model change.

    As where a backbone is frozen that was never trained, or before it was loaded.
    """
    own = {s.name: s for s in reversed([*evidence.of_quantity("OutputRMS")])}
    unfed = [s for name, s in own.items() if _is_unfed(name, evidence)][::-1]
    moving = (s for s in evidence.of_each("UpdateRatio") if len(s.values) >= STEPS)
    if unfed and any((s.values > 0).any() for s in moving):
        text = (
            f"{names_of(unfed)}: in evaluation mode with a running mean of 0 and a variance of 1, "
            "as they were made: no batch has ever passed, and nothing is normalised"
        )
        yield UNFED_NORM.at(unfed[0], 0, text, "statistics of data")


def _is_unfed(name: str, evidence: Evidence) -> bool:
    return name in evidence.model.settings and evidence.model.settings[name].is_unfed


def evaluation_modes(evidence: Evidence) -> Iterator[Finding]:
    """A training whose weights go on changing while no forward is in training mode.

    Where it is so from the start it may be on purpose, as of a model that is tuned as it was.
    """
    forwards = [int(s.steps[-1]) for s in evidence.series if s.direction == "forward"]
    last = max(forwards, default=-1)
    moving = [
        s for s in evidence.of_each("UpdateRatio") if (s.values[s.steps > last + 1] > 0).any()
    ]
    if not evidence.model.evaluates or not moving:
        return
    site = max(moving, key=lambda s: int((s.steps > last).sum()))
    if int((site.steps > last).sum()) < STEPS:
        return
    i = int((site.steps <= last).sum())
    since = f"from step {site.steps[i]} on" if forwards else "at all steps"
    text = (
        f"{since} weights change while the model is in evaluation mode, in which "
        f"{evidence.model.evaluates} acts otherwise than in training"
    )
    severity = "warning" if forwards else "note"
    yield EVALUATION_MODE.at(site, i, text, "training mode", module="", severity=severity)
