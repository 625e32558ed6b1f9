"""Values that grow from module to module of a chain."""

import numpy as np
import pytest

from taiyi_fx.findings.rules.values.growing_values import growing_values
from tests.findings.given import evidence, knowing

FALLS = 400 * np.exp(-np.arange(40) / 5) + 1
CHAIN = (0.6, 1.3, 5.2, 27.0)


def of(sizes=CHAIN, given=None, loss=FALLS):
    given = sizes if given is None else given
    return evidence(
        {(f"convs.{i}.lin", "OutputRMS"): x for i, x in enumerate(sizes)}
        | {(f"convs.{i}.lin", "InputRMS"): x for i, x in enumerate(given)}
        | {("", "loss"): np.array(loss)}
    )


def test_a_chain_that_grows_is_named_with_what_lies_between():
    known = knowing(of(given=(1.0, 2.0, 9.0, 60.0)), before_module=lambda _: ["matmul", "relu"])
    (found,) = growing_values(known)
    assert (found.kind, found.module) == ("growing_values", "convs.1.lin")
    assert "about 3.6 times" in found.text
    assert found.text.endswith("they grow between these modules, in matmul, relu")


def test_one_that_grows_by_its_modules_does_not_accuse_what_lies_between():
    (found,) = growing_values(of(given=(0.2, 0.6, 1.3, 5.2)))
    assert "between" not in found.text


@pytest.mark.parametrize(
    "changed",
    [
        {"sizes": (0.6, 0.8, 5.2, 27.0)},
        {"sizes": (0.6, 1.0, 1.6, 27.0)},
        {"sizes": (1.0, 1.6, 2.6, 4.1)},
        {"sizes": (1.0, 30.0)},
        {"sizes": (0.0, 1.3, 5.2, 27.0)},
        {"loss": FALLS / 100},
        {"loss": np.full(40, 400.0)},
    ],
    ids=["not each", "one alone", "a little", "two", "nothing", "a guess", "of another size"],
)
def test_other_chains_are_none(changed):
    assert [*growing_values(of(**changed))] == []


def test_the_first_of_a_chain_may_grow_by_another_factor():
    assert len([*growing_values(of((0.6, 1.9, 15.0, 180.0, 2600.0, 26000.0)))]) == 1


def test_one_whose_loss_goes_wild_at_once_is_named_too():
    (found,) = growing_values(of(loss=[400, 1e8, 1e20]))
    assert found.module == "convs.1.lin"
    assert [*growing_values(of(loss=[400, 600, 500]))] == []
