"""Weights that leave the size that they began with."""

import numpy as np
import pytest

from taiyi_fx.findings import Attributes
from taiyi_fx.findings.rules.values.drift import drift
from tests.findings.given import evidence, knowing


def weights(odd):
    numbers = {(f"h.{i}", "WeightNorm"): 1 + np.arange(40) / 1000 for i in range(6)}
    return evidence({**numbers, ("h.2", "WeightNorm"): odd})


@pytest.mark.parametrize(
    ("odd", "step"),
    [
        (1.1 ** np.arange(40.0), 8),
        (0.9 ** np.arange(40.0), 7),
        (np.where(np.arange(40) < 30, 1.0, 1e18), 30),
    ],
    ids=["grows", "shrinks", "jumps"],
)
def test_a_weight_that_leaves_its_size_is_named_with_the_step(odd, step):
    (found,) = drift(weights(odd))
    assert (found.module, found.severity, found.step) == ("h.2", "alert", step)


def test_a_weight_that_fades_to_less_than_half_while_its_siblings_do_not_is_a_warning():
    (found,) = drift(weights(np.linspace(1, 0.4, 40)))
    assert (found.module, found.severity) == ("h.2", "warning")


@pytest.mark.parametrize(
    "odd", [1 + np.arange(40) / 20, np.arange(40.0), np.where(np.arange(40) == 9, 50.0, 1.0)],
    ids=["a little", "from zero", "and comes back"],
)  # fmt: skip
def test_others_do_not(odd):
    assert [*drift(weights(odd))] == []


@pytest.mark.parametrize(
    ("first", "last", "is_told"), [(0.014, 0.17, False), (0.014, 2.0, True), (0.1, 0.7, True)]
)
def test_a_weight_that_begins_smaller_than_others_may_become_like_them(first, last, is_told):
    """As the embedding of a category, which begins with elements of 0.01."""
    numbers = {}
    for i in range(6):
        rms = np.geomspace(first, last, 40) if i == 2 else np.full(40, 0.1)
        numbers[f"h.{i}", "ParameterRMS.weight"] = rms
        numbers[f"h.{i}", "WeightNorm"] = 4 * rms
    assert [found.module for found in drift(evidence(numbers))] == ["h.2"] * is_told


@pytest.mark.parametrize(("given", "is_told"), [(2, False), (32, True)])
def test_a_weight_may_grow_to_the_size_that_its_few_inputs_ask_for(given, is_told):
    """As that of an LSTM of 2 inputs and 32 units, whose elements begin at 0.1."""
    numbers = {(f"h.{i}", "WeightNorm"): 1 + np.arange(40) / 1000 for i in range(6)}
    rms = np.geomspace(0.1, 0.7, 40)
    numbers["lstm", "ParameterRMS.weight_ih_l0"] = rms
    numbers["lstm", "ParameterNorm.weight_ih_l0"] = rms * np.sqrt(128 * given)
    own = Attributes("torch.nn.modules.rnn.LSTM", {}, numbers={"input_size": given})
    known = knowing(evidence(numbers), attributes={"lstm": own})
    assert [found.module for found in drift(known)] == ["lstm"] * is_told


def test_where_all_move_none_drifts():
    numbers = {(f"h.{i}", "WeightNorm"): 1.08 ** np.arange(40.0) for i in range(6)}
    assert [*drift(evidence(numbers))] == []


def test_where_all_grow_a_hundredfold_it_is_the_model_s():
    numbers = {(f"h.{i}", "WeightNorm"): 1.15 ** np.arange(40.0) for i in range(6)}
    (found,) = drift(evidence(numbers))
    assert (found.kind, found.module, found.severity) == ("drift", "", "alert")
    assert 10 < found.step < 30


def test_where_all_shrink_it_is_the_decay_of_the_model():
    numbers = {(f"h.{i}", "WeightNorm"): 0.9 ** np.arange(40.0) for i in range(6)}
    (found,) = drift(evidence(numbers))
    assert (found.kind, found.module, found.severity) == ("drift", "", "alert")


@pytest.mark.parametrize(
    ("rate", "severity"), [(1e-3, "alert"), (1e-2, "note"), (1e-1, "alert"), (1e-4, "alert")]
)
def test_a_head_that_is_trained_faster_on_purpose_is_a_note(rate, severity):
    groups = {f"h.{i}": (0, 1e-3) for i in range(6)} | {"h.2": (1, rate)}
    (found,) = drift(knowing(weights(np.linspace(1, 5, 40)), groups=groups))
    assert (found.module, found.severity) == ("h.2", severity)


@pytest.mark.parametrize(("called", "severity"), [(True, "note"), (False, "alert")])
def test_a_head_is_the_last_that_is_called(called, severity):
    """Positions whose weight is read in a forward stand behind all layers."""
    numbers = {(f"h.{i}", "WeightNorm"): 1.0 for i in range(5)}
    numbers |= {("head", "WeightNorm"): np.linspace(1, 5, 40), ("places", "WeightNorm"): 1.0}
    names = [*(f"h.{i}" for i in range(5)), "head", *(["places"] * (not called))]
    numbers |= {(name, "OutputRMS"): 1.0 for name in names}
    (found,) = drift(knowing(evidence(numbers), groups=dict.fromkeys(names, (0, 1e-3))))
    assert (found.module, found.severity) == ("head", severity)


def test_one_that_shrinks_is_none_of_these():
    groups = {f"h.{i}": (0, 1e-3) for i in range(6)} | {"h.2": (1, 1e-2)}
    (found,) = drift(knowing(weights(np.linspace(1, 0.2, 40)), groups=groups))
    assert found.severity == "alert"


@pytest.mark.parametrize(("steps", "count"), [(2, 1), (200, 0)])
def test_where_all_come_down_to_half_within_few_steps_it_is_a_warning_of_the_model(steps, count):
    numbers = {(f"h.{i}", "WeightNorm"): 0.97 ** np.arange(40.0) for i in range(6)}
    found = [*drift(evidence(numbers, steps * np.arange(40)))]
    assert [(one.module, one.severity) for one in found] == [("", "warning")] * count


@pytest.mark.parametrize(("gradient", "count"), [(None, 0), (1.0, 1)])
def test_a_weight_that_is_frozen_and_written_by_the_model_is_none(gradient, count):
    """As a codebook that an average writes; one that had gradients was trained."""
    numbers = {(name, "WeightNorm"): 1.0 for name in "abcd"}
    numbers["b", "WeightNorm"] = np.geomspace(1, 16, 40)
    if gradient:
        numbers["b", "WeightGradNorm"] = gradient
    known = knowing(evidence(numbers), frozen=frozenset("b"))
    assert len([*drift(known)]) == count


def test_a_weight_of_another_name_grows_up_as_well():
    """As `weights1` of a Fourier operator, whose elements begin at 0.001."""
    numbers = {(name, "WeightNorm"): 6.4 for name in "abcd"}
    numbers |= {(name, "ParameterRMS.weight"): 0.1 for name in "abcd"}
    numbers |= {("e", "ParameterNorm.weights1"): np.geomspace(0.1, 1.6, 40)}
    numbers |= {("e", "ParameterRMS.weights1"): np.geomspace(0.001, 0.016, 40)}
    assert [*drift(evidence(numbers))] == []
