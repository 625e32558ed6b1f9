"""The watch over records that grow."""

import math
import warnings

import pytest

from taiyi_fx import MonitorWarning, Records
from taiyi_fx.findings import find
from taiyi_fx.watch import Reaction, Watch, WatchOptions
from tests.watch.given import block, describe, finding, training

OUTLIER = [(4, 0, 90.0)]
"""The layer, since when, and its output."""


def watched(
    records,
    *on_finding,
    severity="warning",
    strict=False,
    may_overflow=False,
    watch=None,
    find=find,
):
    """The reactions to each step of some records."""
    watch = watch or Watch(describe, WatchOptions(on_finding, severity), strict=strict)
    growing, found = Records(), {}
    blocks = list(records.blocks())
    for step in sorted({each.step for each in blocks}):
        growing.extend([each for each in blocks if each.step == step])
        found[step] = watch.after(step, growing, find, may_overflow=may_overflow), watch.should_skip
    return found


def events(found):
    return [(step, e.kind, e.module) for step, (r, _) in found.items() for e in r.events]


def test_a_healthy_training_is_left_alone():
    told = []
    found = watched(training([2 / (1 + i / 50) for i in range(300)]), told.append, "stop", "skip")
    assert told == events(found) == []
    assert not any(r.stops or r.raises_cadence or skips for r, skips in found.values())


def test_an_outlier_is_told_once_when_it_was_seen_twice():
    told = []
    with pytest.warns(MonitorWarning, match="OutputRMS of 'layer.4' to that of 'layer.3'"):
        found = watched(training([1.0] * 100, OUTLIER), told.append, "stop")
    assert [(one.kind, one.module) for one in told] == [("outlier", "layer.4")]
    assert events(found) == [(11, "finding", "layer.4")]
    assert [step for step, (r, _) in found.items() if r.stops] == [11]
    # As it was seen first, to be sure soon; and as it was told.
    assert [step for step, (r, _) in found.items() if r.raises_cadence] == [7, 11]


def test_below_the_severity_it_is_warned_of_and_raises_the_cadence_alone():
    told = []
    with pytest.warns(MonitorWarning, match="warning outlier"):
        found = watched(training([1.0] * 150, OUTLIER), told.append, "stop", severity="alert")
    assert told == []
    ((step, *_),) = events(found)
    assert found[step][0].raises_cadence
    assert not found[step][0].stops


@pytest.mark.parametrize("severity", ["alert", "warning", "note"])
def test_notes_are_told_to_those_who_ask_for_them(severity):
    def find_one(evidence):
        return [finding(severity="note")]

    told = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = watched(training([1.0] * 50), told.append, severity=severity, find=find_one)
    assert len(told) == len(events(found)) == len(caught) == (severity == "note")


def find_large(evidence):
    """A finding of each module whose latest number is large."""
    large = (one for one in evidence.series if one.values[-1] > 50)
    return [finding(module=one.module, quantity=one.quantity) for one in large]


def ended(records, *on_finding, find=find):
    """The watch over some records, and the events of its last look."""
    watch = Watch(describe, WatchOptions(on_finding, "warning"))
    before = watched(records, watch=watch, find=find)
    return before, watch.at_end(records, find).events, watch


def test_what_no_look_has_seen_twice_is_told_at_the_end_once():
    told = []
    records = training([1.0] * 60, [(4, 33, 90.0)])
    with pytest.warns(MonitorWarning, match="alert outlier: it is 9"):
        before, at_end, watch = ended(records, told.append, "stop", find=find_large)
    assert events(before) == []
    assert [(e.step, e.kind, e.module) for e in at_end] == [(59, "finding", "layer.4")]
    assert [one.module for one in told] == ["layer.4"]
    assert watch.at_end(records, find_large) == Reaction()


def test_the_end_of_a_healthy_training_and_of_a_few_steps_tells_nothing():
    assert ended(training([2 / (1 + i / 50) for i in range(300)]))[1] == ()
    assert ended(training([1.0] * 7, OUTLIER))[1] == ()


def test_an_end_at_gradients_that_a_scaler_may_skip_tells_nothing():
    records = Records()
    for step in range(30):
        gradient = math.inf if step == 29 else 1.0
        records.extend([block(step, "OutputRMS", [1.0]), block(step, "WeightGradNorm", [gradient])])
    assert ended(records)[1] == ()


@pytest.mark.filterwarnings("ignore::taiyi_fx.MonitorWarning")
def test_rare_numbers_are_looked_at_as_often_as_steps_pass():
    """A fault that shows at step 500 in numbers of each 20th step is told within 140 steps."""
    records = Records(
        b for b in training([1.0] * 900, [(4, 500, 90.0)]).blocks() if b.step % 20 == 0
    )
    watch = Watch(describe, WatchOptions())
    ((step, *_),) = events(watched(records, find=find_large, watch=watch))
    assert step <= 640


@pytest.mark.filterwarnings("ignore::taiyi_fx.MonitorWarning")
def test_a_number_that_is_far_above_all_before_is_looked_at_at_once():
    found = watched(training([1.0] * 60, [(4, 40, 9e4)]), find=find_large)
    assert min(step for step, (r, _) in found.items() if r.raises_cadence) == 40
    assert events(found)[0][0] <= 44


@pytest.mark.filterwarnings("ignore::taiyi_fx.MonitorWarning")
def test_a_nan_of_the_loss_is_told_at_its_step():
    losses = [1.0] * 40 + [math.nan] * 5
    found = watched(training(losses), "skip")
    assert [step for step, *_ in events(found)] == [40]
    assert [step for step, (_, skips) in found.items() if skips] == [40, 41, 42, 43, 44]


def test_a_spike_of_the_loss_raises_the_cadence():
    losses = [1 + 0.01 * (i % 7) for i in range(100)]
    losses[70] = 3.0
    found = watched(training(losses))
    assert [step for step, (r, _) in found.items() if r.raises_cadence] == [70]


def test_gradients_that_overflow_under_a_scaler_are_nothing_odd():
    records = Records()
    for step in range(30):
        gradient = math.inf if step == 9 else 1.0
        records.extend([block(step, "OutputRMS", [1.0]), block(step, "WeightGradNorm", [gradient])])
    scaled = watched(records, "skip", may_overflow=True)
    assert events(scaled) == []
    assert not any(r.raises_cadence or skips for r, skips in scaled.values())
    alone = watched(records, "skip")
    assert events(alone) == []  # the next step shows that nothing came of it
    assert [step for step, (_, skips) in alone.items() if skips] == [9]


def test_an_error_of_a_function_is_warned_of_once_by_name_and_the_others_are_called():
    told = []

    def broken(one):
        raise KeyError("no")

    def two(records, **more):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            watched(records, broken, told.append, **more)
        return [str(w.message) for w in caught if "broken" in str(w.message)]

    (text,) = two(training([1.0] * 300, [*OUTLIER, (7, 150, 90.0)]))
    assert "on_finding: " in text
    assert "failed: KeyError: 'no'" in text
    assert told
    with pytest.warns(MonitorWarning), pytest.raises(KeyError):
        watched(training([1.0] * 50, OUTLIER), broken, strict=True)


def test_an_error_of_a_rule_is_warned_of_once_by_name():
    def rule(evidence):
        raise IndexError("too few")

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        watched(training([1.0] * 200), find=rule)
    assert [str(w.message) for w in caught] == [
        "looking for findings: tests.watch.test_watch.rule failed: IndexError: too few"
    ]
    with pytest.raises(IndexError):
        watched(training([1.0] * 50), strict=True, find=rule)


def test_evaluations_and_tensors_are_left_out():
    records = Records([])
    for step in range(20):
        records.extend([block(step, "loss", [math.nan], mode="eval")])
    assert events(watched(records)) == []


def test_after_it_was_cleared_a_finding_is_told_again():
    watch = Watch(describe, WatchOptions(severity="alert"))
    records = training([1.0] * 50, OUTLIER)
    first = events(watched(records, watch=watch))
    watch.clear()
    assert events(watched(records, watch=watch)) == first


def test_what_was_told_and_is_not_found_any_more_is_remembered_until_it_is_cleared():
    watch = Watch(describe, WatchOptions([], "warning"))
    with pytest.warns(MonitorWarning, match="layer.4"):
        watched(training([1.0] * 100, OUTLIER), watch=watch)
    assert watch.gone([]).endswith("speak against it: warning outlier (step 11)")
    assert watch.gone([finding("outlier", module="layer.2")]) == ""
    inner = finding("drift", consequences=(finding("outlier", module="layer.4"),))
    assert watch.gone([inner]) == ""
    watch.clear()
    assert watch.gone([]) == ""


@pytest.mark.parametrize(("step", "is_told"), [(3, False), (2, False), (4, True)])
def test_a_nan_that_was_warned_of_with_its_numbers_is_told_again_only_if_it_began_before(
    step, is_told
):
    def find_nan(evidence):
        return [finding("non_finite", module="fc", step=3)]

    watch = Watch(describe, WatchOptions(severity="alert"))
    growing = Records(training([1.0] * 8).blocks())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        watch.after(7, growing, find_nan, lambda: {"non_finite": step}, may_overflow=False)
    assert len(caught) == is_told


def test_what_was_found_twice_is_a_change_of_that_step_alone():
    def find_one(evidence):
        return [finding(severity="warning")]

    watch = Watch(describe, WatchOptions(severity="alert"))
    found = watched(training([1.0] * 60), watch=watch, find=find_one)
    assert [step for step, (r, _) in found.items() if r.is_changed] == [11]
