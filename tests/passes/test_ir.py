"""The compiler's shared words: sites, readings, targets and what a reduction says of itself."""

from dataclasses import dataclass

import pytest
import torch

from taiyi_fx.passes.ir import (
    Change,
    Foldable,
    Reading,
    Reduction,
    Site,
    Target,
    capabilities,
    fast_path,
    finishes_as_is,
)
from taiyi_fx.reductions import Count, Norm, SquareSum


def test_equal_readings_are_one():
    assert {Reading(Site("input"), Norm()), Reading(Site("input"), Norm())} == {
        Reading(Site("input"), Norm())
    }
    assert Reading(Site("input"), Norm()) != Reading(Site("input", 1), Norm())
    assert str(Reading(Site("input", "mask"), Norm())) == "input['mask'].Norm"


def test_reductions_are_known_by_their_methods():
    assert isinstance(Norm(), Reduction)
    assert isinstance(Norm(), Foldable)
    assert not isinstance(object(), Foldable)


def test_a_target_has_calls_to_look_at_only_where_something_happens_at_them():
    weight = Reading(Site("parameter", "weight"), Norm())
    output = Reading(Site("output"), Norm())
    assert not Target("fc", frozenset({weight})).is_at_calls
    assert Target("fc", frozenset({weight, output})).at("output") == {output}
    assert Target("fc", frozenset({weight, output})).is_at_calls
    assert Target("fc", frozenset(), (Change(Site("output"), torch.neg),)).is_at_calls


def test_what_a_reduction_does_not_say_is_as_usual():
    @dataclass(frozen=True)
    class Mine:
        is_costly = True

    assert capabilities(Mine()).is_costly
    assert capabilities(Mine()).has_fixed_shape
    assert not capabilities(Mine()).takes_whole


def test_a_finish_of_its_own_is_not_that_of_the_class_it_is_derived_from():
    class Doubled(Norm):
        def finish(self, state):
            return 2 * super().finish(state)

    class Same(Norm):
        pass

    assert finishes_as_is(Norm())
    assert finishes_as_is(Same())
    assert not finishes_as_is(Doubled())


@pytest.mark.parametrize("reduction", [Norm(), SquareSum(), Count()], ids=str)
def test_what_finishes_as_is_returns_the_part_itself(reduction):
    part = torch.tensor([1.0, 2.0], dtype=torch.float64)
    assert finishes_as_is(reduction)
    assert reduction.finish((part,)) is part


@pytest.mark.parametrize("name", ["measure_scalar", "measure_many"])
def test_a_fast_path_belongs_to_the_measure_beside_it(name):
    @dataclass(frozen=True)
    class Halved(Norm):
        def measure(self, x):
            return super().measure(x / 2)

    assert fast_path(Norm(), name) is not None
    assert fast_path(Halved(), name) is None
