"""Models that begin far above the loss of a guess."""

from dataclasses import replace

import numpy as np
import pytest

from taiyi_fx.findings.rules.losses.first_guesses import wild_starts
from tests.findings.given import evidence

FALLS = 50 * np.exp(-np.arange(40) / 5) + 2


def of(size=9.0, before=1.0, loss=FALLS):
    return evidence(
        {("h", "OutputRMS"): before, ("head", "OutputRMS"): size, ("", "loss"): np.array(loss)}
    )


def test_a_head_of_large_first_outputs_is_named_with_the_loss_that_they_make():
    (found,) = wild_starts(of())
    assert (found.kind, found.module, found.severity) == ("wild_start", "head", "warning")
    assert "begins at 9 in size, and 'loss' at 52" in found.text


@pytest.mark.parametrize(
    "changed",
    [{"size": 3.0}, {"before": 4.0}, {"loss": FALLS / 10}, {"loss": np.full(40, 50.0)}],
    ids=["usual", "made before it", "a guess", "of another size"],
)
def test_usual_outputs_and_losses_of_another_size_are_none(changed):
    assert [*wild_starts(of(**changed))] == []


def test_with_few_classes_a_wild_start_begins_lower():
    known = replace(of(loss=FALLS / 8), classes={"loss": 5})
    (found,) = wild_starts(known)
    assert "a guess among 5 classes costs 1.61" in found.text
    assert [*wild_starts(replace(of(loss=FALLS / 14), classes={"loss": 5}))] == []
