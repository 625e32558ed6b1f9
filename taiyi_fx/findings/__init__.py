"""Rules over the numbers of a training: its faults, since when, and what to do."""

from taiyi_fx.findings.facts.attributes import Attributes, attributes_of
from taiyi_fx.findings.facts.autograd import is_released, reading_saved
from taiyi_fx.findings.facts.empty import of_elements
from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.forwards import OUTSIDE, Forward
from taiyi_fx.findings.facts.loss_graph import LossGraph, loss_graph_of
from taiyi_fx.findings.facts.not_finite import NotFinite, not_finite_of
from taiyi_fx.findings.facts.of_layers import LayerSettings, settings_of
from taiyi_fx.findings.facts.of_model import (
    batch_axes_of,
    decays_of,
    evaluates,
    frozen_adapters_of,
    frozen_of,
    groups_of,
    hidden_in,
    hooks_of,
    left_out_of,
    owners_of,
    repeated_in,
    same_masks_in,
    shrinkage_of,
    undecaying_moments_of,
)
from taiyi_fx.findings.facts.of_optimizer import GroupSettings, group_settings_of, step_counts_of
from taiyi_fx.findings.facts.regression import Regression, RegressionNotes, regression_of
from taiyi_fx.findings.facts.slips import Slip, mentions_hooks, slips_of, slips_of_script
from taiyi_fx.findings.facts.squashed import Squashed, classes_of, squashed_by
from taiyi_fx.findings.facts.targets import TargetNotes, Targets, targets_of
from taiyi_fx.findings.facts.watched import Watched
from taiyi_fx.findings.find import find
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.listed import Findings
from taiyi_fx.findings.rules.values.non_finite import first_step

__all__ = [
    "OUTSIDE",
    "Attributes",
    "Evidence",
    "Finding",
    "Findings",
    "Forward",
    "GroupSettings",
    "LayerSettings",
    "LossGraph",
    "NotFinite",
    "Regression",
    "RegressionNotes",
    "Slip",
    "Squashed",
    "TargetNotes",
    "Targets",
    "Watched",
    "attributes_of",
    "batch_axes_of",
    "classes_of",
    "decays_of",
    "evaluates",
    "find",
    "first_step",
    "frozen_adapters_of",
    "frozen_of",
    "group_settings_of",
    "groups_of",
    "hidden_in",
    "hooks_of",
    "is_released",
    "left_out_of",
    "loss_graph_of",
    "mentions_hooks",
    "not_finite_of",
    "of_elements",
    "owners_of",
    "reading_saved",
    "regression_of",
    "repeated_in",
    "same_masks_in",
    "settings_of",
    "shrinkage_of",
    "slips_of",
    "slips_of_script",
    "squashed_by",
    "step_counts_of",
    "targets_of",
    "undecaying_moments_of",
]
