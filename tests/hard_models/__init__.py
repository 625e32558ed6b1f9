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

SHORT = tuple(case.name for case in cases()[::20])
"""Those of a short zoo; tests/test_any_model.py has all of them."""

__all__ = [
    "SHORT",
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
