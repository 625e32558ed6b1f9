"""Weights that begin at nothing among siblings that do not."""

import numpy as np
import pytest

from taiyi_fx.findings import Attributes
from taiyi_fx.findings.rules.values.odd_starts import odd_starts
from tests.findings.given import evidence, knowing

NAMES = [f"h.{i}.up" for i in range(5)]


def of(*sizes, names=NAMES, steps=None):
    known = {(name, "ParameterRMS.weight"): size for name, size in zip(names, sizes, strict=False)}
    known |= {(name, "WeightNorm"): 10 * size for (name, _), size in known.items()}
    return evidence(known, steps)


@pytest.mark.parametrize(("size", "words"), [(0.0, "begin at exactly 0"), (1e-3, "at 0.001")])
def test_one_among_others_is_named_though_it_grows_at_once(size, words):
    (found,) = odd_starts(of(0.1, 0.1, np.linspace(size, 0.1, 40), 0.11))
    assert (found.kind, found.module, found.severity) == ("odd_start", "h.2.up", "warning")
    assert words in found.text
    assert "3 others like it at 0.1" in found.text


@pytest.mark.parametrize(
    "sizes",
    [(0.0, 0.0, 0.0, 0.0), (0.1, 0.0, 0.0, 0.1), (0.1, 0.1, 0.1, 0.0), (0.1, 0.004, 0.1), (0.0, 1)],
    ids=["all", "two of them", "the last", "another width", "too few"],
)
def test_those_that_begin_so_on_purpose_are_none(sizes):
    assert [*odd_starts(of(*sizes))] == []


def test_a_window_of_later_steps_tells_no_beginning():
    assert [*odd_starts(of(0.1, 0.0, 0.1, steps=range(60, 100)))] == []


def test_gains_among_layers_of_a_sequence_are_not_compared_with_matrices():
    known = of(1.0, 0.01, 1.0, 0.01, names="0123")  # each of 100 elements
    norms = {(name, "WeightNorm"): np.sqrt(10) for name in "02"}  # but for gains, of 10
    mixed = {(one.module, one.quantity): one.values for one in known.series} | norms
    assert [*odd_starts(evidence(mixed))] == []


@pytest.mark.parametrize(
    ("sizes", "module"),
    [
        ((0.1, 0.35, 0.11, 0.1), "h.1.up"),
        ((0.1, 0.03, 0.1, 0.1), "h.1.up"),
        ((0.1,) * 3 + (0.9,), "h.3.up"),
    ],
)
def test_one_of_another_size_than_those_of_its_shape_is_named(sizes, module):
    counts = {(name, "WeightNorm"): 10 * size for name, size in zip(NAMES, sizes, strict=False)}
    sizes = {(n, "ParameterRMS.weight"): x for n, x in zip(NAMES, sizes, strict=False)}
    assert [found.module for found in odd_starts(evidence(sizes | counts))] == [module]


@pytest.mark.parametrize(
    "sizes",
    [(0.1, 0.15, 0.2, 0.35), (0.1, 0.1, 0.1, 0.03), (0.1, 0.1, 0.1, 0.25), (0.1, 0.1, 0.35)],
    ids=["by depth", "the last is small", "near", "too few"],
)
def test_sizes_that_are_meant_are_none(sizes):
    assert [*odd_starts(of(*sizes))] == []


def test_a_bias_far_from_nothing_is_named_where_others_begin_near_it():
    names = {(name, "ParameterRMS.bias"): 0.1 for name in NAMES[:4]}
    (found,) = odd_starts(evidence(names | {("h.2.up", "ParameterRMS.bias"): 5.0}))
    assert found.module == "h.2.up"
    assert "of the bias of 'h.2.up' begin at 5" in found.text
    for one in (0.5, 0.1):
        assert [*odd_starts(evidence(names | {("h.2.up", "ParameterRMS.bias"): one}))] == []
    assert [*odd_starts(evidence(dict.fromkeys(names, 5.0)))] == []


def test_weights_are_compared_with_those_of_modules_of_one_class():
    """In MobileNet's first block a convolution stands where other blocks have a norm."""
    sizes = (1.0, 0.1, 1.0, 1.0, 1.0)
    numbers = {(name, "ParameterRMS.weight"): x for name, x in zip(NAMES, sizes, strict=False)}
    numbers |= {(name, "WeightNorm"): 9 * x for name, x in zip(NAMES, sizes, strict=False)}
    numbers |= {(name, "ParameterRMS.bias"): x for name, x in zip(NAMES, sizes, strict=False)}
    numbers |= {(NAMES[1], "ParameterRMS.bias"): 20.0}
    known = evidence(numbers)
    assert [found.module for found in odd_starts(known)] == [NAMES[1]]
    kinds = {name: Attributes("Conv2d" if name == NAMES[1] else "Norm", {}) for name in NAMES}
    assert [*odd_starts(knowing(known, attributes=kinds))] == []
