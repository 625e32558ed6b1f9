"""Trainings that go on in evaluation mode."""

from __future__ import annotations

from collections.abc import Iterator

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.lasting import STEPS
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind

EVALUATION_MODE = Kind(
    "evaluation_mode",
    "warning",
    "Call model.train() after each evaluation, and after loading a model that comes in evaluation "
    "mode",
)


def evaluation_modes(evidence: Evidence) -> Iterator[Finding]:
    """A training whose weights go on changing while no forward is in training mode.

    Where it is so from the start it may be on purpose, as of a model that is tuned as it was.
    """
    forwards = [int(s.steps[-1]) for s in evidence.series if s.direction == "forward"]
    last = max(forwards, default=-1)
    moving = [
        s for s in evidence.of_each("UpdateRatio") if (s.values[s.steps > last + 1] > 0).any()
    ]
    if not evidence.evaluates or not moving:
        return
    site = max(moving, key=lambda s: int((s.steps > last).sum()))
    if int((site.steps > last).sum()) < STEPS:
        return
    i = int((site.steps <= last).sum())
    since = f"from step {site.steps[i]} on" if forwards else "at all steps"
    text = (
        f"{since} weights change while the model is in evaluation mode, in which "
        f"{evidence.evaluates} acts otherwise than in training"
    )
    severity = "warning" if forwards else "note"
    yield EVALUATION_MODE.at(site, i, text, "training mode", module="", severity=severity)
