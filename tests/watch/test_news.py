"""Each finding is told once, when it is certain."""

import pytest

from taiyi_fx.watch.news import QUIET, News
from tests.watch.given import finding


def news():
    return News(lambda series: "Grad" in series[1])


def test_a_finding_is_told_when_it_is_seen_again_and_then_no_more():
    told = news()
    assert told.of([finding()], 8) == []
    assert told.has_candidates
    assert told.of([finding()], 12) == [finding()]
    assert not told.has_candidates
    assert told.of([finding()], 16) == told.of([finding()], 500) == []


def test_what_code_shows_need_not_last_where_it_does_not_act():
    told, certain = news(), finding("shifted_targets")
    both = [certain, finding()]
    assert told.of(both, 8, lambda one: False) == []
    assert told.of(both, 12, lambda one: False) == [certain]


def test_one_that_goes_away_is_not_told():
    told = news()
    assert told.of([finding()], 8) == told.of([], 12) == told.of([finding()], 16) == []


def test_a_nan_is_told_at_once_also_beneath_its_cause():
    end = finding("non_finite")
    assert news().of([end], 3) == [end]
    cause = finding(consequences=(end,))
    assert news().of([cause], 3) == [cause]


def test_a_nan_in_gradients_alone_is_told_when_the_next_step_shows_that_it_was_no_overflow():
    end = finding("non_finite", quantity="WeightGradNorm", step=3)
    told = news()
    assert told.of([end], 3) == []
    assert told.of([end], 4) == [end]


def test_of_one_kind_there_is_one_in_a_hundred_steps():
    told = news()
    both = [finding("non_finite"), finding("non_finite", module="other")]
    assert told.of(both[:1], 3) == both[:1]
    assert told.of(both, 4) == []
    assert told.of(both, 3 + QUIET) == both[1:]


def test_one_that_becomes_worse_is_told_again():
    told = news()
    told.of([finding(severity="warning")], 8)
    assert told.of([finding(severity="warning")], 12)
    worse = finding(severity="alert", consequences=(finding("non_finite"),))
    assert told.of([worse], 13) == [worse]


def test_at_the_last_look_a_finding_is_told_although_it_was_not_seen_before():
    told = news()
    assert told.of([finding()], 8, is_last=True) == [finding()]
    assert told.of([finding()], 8, is_last=True) == []


def test_gradients_alone_that_are_not_finite_at_the_last_step_stay_untold():
    end = finding("non_finite", quantity="WeightGradNorm", step=3)
    assert news().of([end], 3, is_last=True) == []
    assert news().of([end], 4, is_last=True) == [end]


def test_what_was_seen_for_the_first_time_is_a_candidate():
    told = news()
    assert not told.has_candidates
    told.of([finding()], 8)
    assert told.has_candidates
    told.of([finding()], 12)
    assert not told.has_candidates
    told.of([finding(), finding(module="other")], 16)
    assert told.has_candidates
    told.of([finding("non_finite")], 20)  # told at once
    assert not told.has_candidates


@pytest.mark.parametrize(
    ("first", "then", "is_told"),
    [(8, 16, False), (8, 79, False), (8, 80, True), (100, 263, False), (100, 264, True)],
)
def test_what_is_not_urgent_has_to_last(first, then, is_told):
    told, found = news(), [finding(severity="warning")]
    assert told.of(found, first, lambda one: False) == []
    assert bool(told.of(found, then, lambda one: False)) == is_told


def test_what_comes_back_begins_anew_and_late_ones_and_spikes_do_not_wait_for_long():
    told, found = news(), [finding(severity="warning")]
    for step, seen in ((8, found), (40, []), (72, found), (120, found)):
        assert told.of(seen, step, lambda one: False) == []
    late = news()
    assert late.of(found, 10_000, lambda one: False) == []
    assert late.of(found, 10_192, lambda one: False) == found
    spike = [finding("loss_spike", severity="warning")]
    assert late.of(spike, 10_200, lambda one: False) == []
    assert late.of(spike, 10_204, lambda one: False) == spike


def test_what_came_to_follow_from_a_told_one_is_not_told_when_it_stands_alone():
    told = news()
    other = finding("wild_output", module="other")
    assert told.of([finding(), finding()], 8) == []
    assert told.of([finding()], 12) == [finding()]
    assert told.of([finding(consequences=(other,))], 16) == []
    assert told.of([other], 200) == told.of([other], 400) == []
