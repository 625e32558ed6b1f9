"""Which series of a run tell most."""

import numpy as np
import pytest

from taiyi_fx.findings import Watched
from taiyi_fx.findings.facts.telling import changed_most, telling


def series(module, values, quantity="OutputRMS", unit="", health=""):
    steps = np.arange(len(values))
    return Watched.made(
        (module, quantity), ("forward", health, unit), steps, np.array(values, float)
    )


def of(values, **facts):
    (found,) = telling([series("a", values, **facts)]).values()
    return found


@pytest.mark.parametrize(
    ("values", "facts", "change"),
    [
        ([1, 100], {}, 2),
        ([100, 1], {}, 1),
        ([100, 1], {"health": "lasting"}, 2),
        ([1, 0], {"health": "lasting"}, 6),
        ([0, 0, 1, 10], {}, 1),
        ([0, 0, 1, 10], {"health": "lasting"}, 0),
        ([0.1, 0.6], {"unit": "share"}, 1),
        ([-0.5, 0.5], {"unit": "cosine"}, 2),
        ([-1, 100], {}, 0),
        ([1, 100], {"unit": "elements"}, 0),
        ([1, 100], {"quantity": "loss"}, 0),
        ([1, 100], {"quantity": "AttentionAhead.error"}, 0),
        ([1, 100], {"quantity": "Fingerprint.high"}, 0),
        ([1, 100], {"quantity": "ParameterFingerprint.weight.low"}, 0),
        ([1, 1, 1, 1, 1, 90, 1, 1, 1, 1, 1], {}, 0),
        ([1], {}, 0),
        ([0, 0], {}, 0),
        ([np.nan, np.inf], {}, 0),
        ([np.nan, 1, 10, np.nan], {}, 1),
    ],
)
def test_a_change_is_in_powers_of_ten(values, facts, change):
    assert of(values, **facts).change == pytest.approx(change)


def test_a_change_is_told_from_the_first_number_that_is_not_zero():
    assert of([0, 2, 3, 8])[:2] == (2, 8)


def test_the_numbers_that_are_told_are_those_of_the_change():
    found = of([1, *[5] * 20, *[20] * 4, 1])
    assert (found.first, found.last) == (5, 20)
    assert found.change == pytest.approx(np.log10(4))


def test_hashes_are_not_apart():
    every = [series(f"{i}", [1, x], "Fingerprint.low", "bits") for i, x in enumerate("1119")]
    assert not any(how.score for how in telling(every).values())


def test_one_of_its_siblings_is_apart():
    every = [series(f"h.{i}.fc", [1, 1]) for i in range(4)] + [series("h.4.fc", [100, 100])]
    apart = [how.apart for how in telling(every).values()]
    assert apart == [0, 0, 0, 0, 2]
    assert [how.score for how in telling(every).values()] == [0, 0, 0, 0, 1]
    assert all(how.apart == 0 for how in telling(every[2:]).values())  # two are no yardstick


def test_what_changed_most_is_each_of_another_module_and_quantity():
    every = [
        series("a", [1, 900]),
        series("b", [1, 800]),
        series("a", [1, 700], "OutputAbsMax"),
        series("b", [1, 600], "OutputAbsMax"),
        series("c", [1, 1.5], "WeightNorm"),
    ]
    assert changed_most(telling(every), 3) == [("a", "OutputRMS"), ("b", "OutputAbsMax")]
    assert changed_most(telling(every), 1) == [("a", "OutputRMS")]
