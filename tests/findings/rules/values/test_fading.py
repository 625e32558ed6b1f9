"""Outputs that come to nothing, or to next to the same for all samples."""

import numpy as np
import pytest

from taiyi_fx.findings import Evidence, LossGraph
from taiyi_fx.findings.rules.values.fading import faded_outputs
from tests.findings.given import evidence, knowing

SELDOM = [0, 4, 16, 64, 256]
STEPS = np.arange(257)


def known(shares, sizes=1.0):
    of_rows = evidence({("mu", "OutputVariation"): shares}, SELDOM)
    numbers = {("mu", "OutputRMS"): np.broadcast_to(sizes, 257), ("out", "OutputRMS"): 1.0}
    return Evidence.of([*of_rows.series, *evidence(numbers).series])


def test_an_output_that_comes_to_be_the_same_for_all_samples_is_a_warning():
    (found,) = faded_outputs(known([0.9, 0.8, 0.5, 1e-4, 1e-5]))
    assert (found.kind, found.module, found.severity) == ("faded_output", "mu", "warning")
    assert found.text == (
        "what 'mu' returns for one sample and for another differs by 0.0032 at step 256, and did "
        "by 0.95 at first"
    )


def test_an_offset_that_grows_makes_none_of_it():
    """As of a regression whose targets lie far from zero: the share falls, and no deviation."""
    assert [*faded_outputs(known([0.9, 0.5, 1e-2, 1e-4, 1e-4], np.linspace(1, 100, 257)))] == []


@pytest.mark.parametrize(
    "shares",
    [[0.9, 0.8, 0.5, 0.4, 0.1], [0.9, 0.8, 0.5, 1e-4, 0.1], [0.9, 0.8, 1e-5, 1e-5]],
    ids=["less", "comes back", "too soon"],
)
def test_others_are_none(shares):
    steps = SELDOM[: len(shares)]
    of_rows = evidence({("mu", "OutputVariation"): shares}, steps)
    assert [*faded_outputs(Evidence.of([*of_rows.series, *known([0.9] * 5).series[1:]]))] == []


@pytest.mark.parametrize(("gradients", "count"), [({"mu": 1.0}, 1), ({}, 0)])
def test_a_layer_that_is_trained_and_comes_to_nothing_is_a_note(gradients, count):
    sizes = 0.001 + 0.2 * np.exp(-STEPS / 5)
    known_sizes = evidence({("mu", "OutputRMS"): sizes})
    pulls = evidence({(name, "WeightGradNorm"): np.full(257, x) for name, x in gradients.items()})
    found = [*faded_outputs(Evidence.of([*known_sizes.series, *pulls.series]))]
    assert [(one.module, one.severity) for one in found] == [("mu", "note")] * count
    assert all("falls from 0.2 to 0.001" in one.text for one in found)


@pytest.mark.parametrize(
    ("known", "mean", "since", "severity"),
    [
        ({"logvar"}, 1e-3, 50, "warning"),
        ({"logvar"}, 1e-3, 180, "note"),
        (set(), 1e-3, 50, "note"),
        ({"logvar"}, 0.3, 50, "note"),
    ],
    ids=["a prior", "not for long", "not known", "of another mean"],
)
def test_a_code_that_comes_to_be_the_prior_is_a_warning(known, mean, since, severity):
    numbers = {("", "loss"): 1.0, ("", "kl_loss"): np.full(260, 7e-5)}
    for name, last in (("mu", mean), ("logvar", 1e-3)):
        size = np.where(np.arange(260) < since, 0.1, last)
        numbers |= {(name, "OutputRMS"): size, (name, "WeightGradNorm"): 1.0}
    graphs = {"loss": LossGraph(log_variances=frozenset(known))}
    (found,) = faded_outputs(knowing(evidence(numbers), loss_graphs=graphs))
    assert found.severity == severity
    is_told = known and mean < 0.05
    assert ("divergence from the prior outweighs" in found.advice) == bool(is_told)
    assert found.text.endswith("; 'kl_loss' is 7e-05") == bool(is_told)
