"""Small models, each with one thing that real code does and that is hard for a compiler."""

from tests.hard_models import (
    classes,
    contexts,
    control_flow,
    dtypes,
    held,
    hooks,
    in_place,
    layers,
    machinery,
    signatures,
    state,
    tied,
)
from tests.hard_models.case import Case, D, cases, quietly

__all__ = [
    "Case",
    "D",
    "cases",
    "classes",
    "contexts",
    "control_flow",
    "dtypes",
    "held",
    "hooks",
    "in_place",
    "layers",
    "machinery",
    "quietly",
    "signatures",
    "state",
    "tied",
]
