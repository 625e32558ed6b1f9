"""Each finding is told once, when it is certain."""

from taiyi_fx.watch.news import QUIET, News
from tests.watch.given import finding


def news():
    return News(lambda series: "Grad" in series[1])


def test_a_finding_is_told_when_it_is_seen_again_and_then_no_more():
    told = news()
    assert told.of([finding()], 8) == []
    assert told.is_waiting
    assert told.of([finding()], 12) == [finding()]
    assert not told.is_waiting
    assert told.of([finding()], 16) == told.of([finding()], 500) == []


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


def test_notes_are_no_news():
    told = news()
    assert told.of([finding(severity="note")], 8) == told.of([finding(severity="note")], 9) == []
