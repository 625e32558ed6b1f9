"""Rules over the numbers of a training: its faults, since when, and what to do."""

from taiyi_fx.findings.certain import CERTAIN
from taiyi_fx.findings.facts.attributes import Attributes
from taiyi_fx.findings.facts.autograd import is_released, reading_saved
from taiyi_fx.findings.facts.empty import of_elements
from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.flow import Flow
from taiyi_fx.findings.facts.forwards import OUTSIDE, Forward
from taiyi_fx.findings.facts.given_inputs import (
    Distribution,
    FarEntry,
    GivenInputs,
    Interleaving,
    Repeats,
    ShownTokens,
)
from taiyi_fx.findings.facts.loss_facts import LossFacts
from taiyi_fx.findings.facts.loss_graph import LossGraph, loss_graph_of
from taiyi_fx.findings.facts.model_facts import ModelFacts
from taiyi_fx.findings.facts.not_finite import MadeBy, NotFinite, not_finite_of
from taiyi_fx.findings.facts.of_layers import LayerSettings
from taiyi_fx.findings.facts.of_model import owners_of
from taiyi_fx.findings.facts.of_optimizer import GroupSettings
from taiyi_fx.findings.facts.optimizer_facts import OptimizerFacts
from taiyi_fx.findings.facts.regression import Regression, RegressionNotes, regression_of
from taiyi_fx.findings.facts.source.of_classes import mentions_hooks, slips_of
from taiyi_fx.findings.facts.source.of_loop import slips_of_loop
from taiyi_fx.findings.facts.source.running import code_of_loop
from taiyi_fx.findings.facts.source.slip import Slip
from taiyi_fx.findings.facts.squashed import Squashed, classes_of, squashed_by
from taiyi_fx.findings.facts.targets import TargetNotes, Targets, targets_of
from taiyi_fx.findings.facts.watched import Watched
from taiyi_fx.findings.find import find
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.listed import Findings
from taiyi_fx.findings.rules.values.non_finite import first_step

__all__ = [
    "CERTAIN",
    "OUTSIDE",
    "Attributes",
    "Distribution",
    "Evidence",
    "FarEntry",
    "Finding",
    "Findings",
    "Flow",
    "Forward",
    "GivenInputs",
    "GroupSettings",
    "Interleaving",
    "LayerSettings",
    "LossFacts",
    "LossGraph",
    "MadeBy",
    "ModelFacts",
    "NotFinite",
    "OptimizerFacts",
    "Regression",
    "RegressionNotes",
    "Repeats",
    "ShownTokens",
    "Slip",
    "Squashed",
    "TargetNotes",
    "Targets",
    "Watched",
    "classes_of",
    "code_of_loop",
    "find",
    "first_step",
    "is_released",
    "loss_graph_of",
    "mentions_hooks",
    "not_finite_of",
    "of_elements",
    "owners_of",
    "reading_saved",
    "regression_of",
    "slips_of",
    "slips_of_loop",
    "squashed_by",
    "targets_of",
]
