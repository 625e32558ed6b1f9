"""The tracker makes records of steps, and says what was tracked in vain."""

import gc
import math
import sys
import threading
import warnings
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import hypothesis
import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from torch import nn

import taiyi_fx
from taiyi_fx import MonitorWarning
from taiyi_fx.passes.runtime.rehearsal import STAGE
from taiyi_fx.step.postponed import Postponed
from taiyi_fx.step.statistics import Scale
from taiyi_fx.writers import CSV
from tests.examples import tried
from tests.step.given import Given

CFG = {"0": ["InputMean", ["OutputRMS", "adaptive(50, 1)"]]}


@pytest.fixture
def given():
    return Given(CFG)


def forward(given, step):
    given.model(torch.full((2, 3), float(step))).sum().backward()


def labels(given, step):
    return [s.label for s, _ in given.monitor._tracker.steps.due_at(step).asked]


def test_a_tracked_step_is_recorded_and_the_next_one_prepared(given):
    tracker = given.monitor._tracker
    for step in range(3):
        forward(given, step)
        assert tracker.track(step, Scale())
    assert tracker.steps.next == 3
    found = [(r.step, r.value) for r in tracker.finish() if r.quantity == "InputMean"]
    assert found == [(0, 0.0), (1, 1.0), (2, 2.0)]


def test_a_step_that_fails_is_dropped_by_name_and_the_next_one_is_recorded(given, monkeypatch):
    tracker = given.monitor._tracker
    collect = tracker._collector.collect

    def fails_at_first(due, step, *rest, **options):
        if step == 0:
            raise MemoryError("no more")
        return collect(due, step, *rest, **options)

    monkeypatch.setattr(tracker._collector, "collect", fails_at_first)
    forward(given, 0)
    with pytest.warns(MonitorWarning, match="step 0 is dropped: MemoryError: no more"):
        assert not tracker.track(0, Scale())
    forward(given, 1)
    assert tracker.track(1, Scale())
    assert [r.step for r in tracker.finish() if r.quantity == "InputMean"] == [1]


def test_a_wish_reads_each_of_the_next_steps_and_an_end_is_one(given):
    tracker = given.monitor._tracker
    assert [labels(given, step) for step in (1, 2)] == [["InputMean"]] * 2
    tracker.wish(0, reads_densely=True, ends=False)
    assert [labels(given, step) for step in (1, 20)] == [["InputMean", "OutputRMS"]] * 2
    assert labels(given, 21) == ["InputMean"]
    assert not tracker.steps.cadence.is_end
    tracker.wish(0, reads_densely=False, ends=True)
    assert tracker.steps.cadence.is_end


def test_forwards_that_were_never_tracked_are_told_and_others_are_not(given):
    tracker = given.monitor._tracker
    tracker.warn_if_never_tracked()  # a warning would be an error
    forward(given, 0)
    with pytest.warns(MonitorWarning, match="track was never called"):
        tracker.warn_if_never_tracked()
    tracker.begin()
    tracker.warn_if_never_tracked()


def test_a_rank_surely_records_where_no_other_may_be_joined(given):
    assert given.monitor._tracker.surely_records  # torch.distributed is not initialised
    assert given.monitor._tracker.is_alone
    assert given.monitor._tracker.writer is None


def trained(steps, monkeypatch, **options):
    """A monitor all of whose steps are recorded as late as can be."""
    monkeypatch.setattr(Postponed, "are_due", False)
    given = Given({"0": ["InputMean"]}, **options)
    for step in range(steps):
        forward(given, step)
        given.monitor.track(step)
    return given.monitor


def waiting(monitor):
    return len([*monitor._tracker._queue._waiting[0]])


def test_who_asks_for_records_gets_those_of_postponed_steps(monkeypatch):
    monitor = trained(3, monkeypatch)
    assert waiting(monitor) == 3
    assert [(r.step, r.value) for r in monitor.records] == [(0, 0.0), (1, 1.0), (2, 2.0)]
    assert waiting(monitor) == 0


@pytest.mark.parametrize(
    "ask",
    [
        lambda monitor: monitor.tick_epoch(),
        repr,
        lambda monitor: monitor.findings,
        lambda monitor: monitor.explain("0", "InputMean"),
        lambda monitor: monitor.start_at(7),
        lambda monitor: monitor.close(),
        lambda monitor: setattr(monitor, "on_finding", print),
    ],
)
def test_nothing_that_a_monitor_tells_leaves_out_postponed_steps(ask, monkeypatch):
    monitor = trained(3, monkeypatch)
    ask(monitor)
    assert waiting(monitor) == 0


def test_a_writer_that_is_added_gets_no_earlier_steps(monkeypatch, tmp_path):
    monitor = trained(3, monkeypatch)
    monitor.add_writer(CSV(tmp_path / "numbers.csv"))
    monitor.close()
    assert "InputMean" not in (tmp_path / "numbers.csv").read_text(encoding="utf-8")


@pytest.mark.parametrize("options", [{"strict": True}, {"on_finding": print}])
def test_no_step_is_postponed_where_something_follows_from_its_numbers(options, monkeypatch):
    assert waiting(trained(3, monkeypatch, **options)) == 0


def test_no_step_is_postponed_where_findings_change_what_is_due(monkeypatch):
    monkeypatch.setattr(Postponed, "are_due", False)
    given = Given(CFG)
    forward(given, 0)
    given.monitor.track(0)
    assert waiting(given.monitor) == 0


def test_no_step_is_postponed_while_a_value_is_missing(monkeypatch):
    monkeypatch.setattr(Postponed, "are_due", False)
    given = Given({"0": ["InputMean"]})
    with pytest.warns(MonitorWarning, match="InputMean"):
        given.monitor.track(0)
    forward(given, 1)
    given.monitor.track(1)
    assert waiting(given.monitor) == 0
    assert not given.monitor.missing


def test_a_finding_in_postponed_steps_leaves_the_next_step_the_next(monkeypatch):
    monkeypatch.setattr(Postponed, "are_due", False)
    given = Given({"0": ["InputMean"]})
    for step in range(40):
        forward(given, step)
        given.monitor.log("loss", math.nan if step == 30 else 1.0)
        given.monitor.track(step)
    assert waiting(given.monitor) == 40
    _ = given.monitor.records
    assert given.monitor.next_step == 40


PACKAGE = str(Path(taiyi_fx.__file__).parent)


def calls_of(action):
    """The calls of Python functions of the package that an action makes, by their names."""
    found: Counter[str] = Counter()

    def profile(frame, event, arg):
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            found[frame.f_code.co_qualname] += 1

    gc.collect()
    gc.disable()  # what other tests left would be finalized by calls that are counted
    sys.setprofile(profile)
    try:
        action()
    finally:
        sys.setprofile(None)
        gc.enable()
    return found


NORMS = ["InputSndNorm", "OutputGradSndNorm", "WeightNorm", "WeightGradNorm"]


def calls_at(steps, monkeypatch, *, interval=1, layers=20, is_logged=False, is_read=False):
    """The calls of some steps in a row, none of which is recorded yet; and the model."""
    monkeypatch.delitem(sys.modules, STAGE, raising=False)  # once imported, it is asked each time
    monkeypatch.setattr("taiyi_fx.step.postponed.FIRST", 1)  # nearly from the first step on
    monkeypatch.setattr("taiyi_fx.step.postponed.SECONDS", math.inf)
    model = nn.Sequential(*(m for _ in range(layers) for m in (nn.Linear(4, 4), nn.Tanh())))
    given = Given({"Linear": [[name, f"every({interval})"] for name in NORMS]}, model)

    def step_at(step):
        loss = given.model(torch.ones(2, 4)).sum()
        loss.backward()
        if is_logged:
            given.monitor.log("loss", loss)
        given.monitor.track(step)
        if is_read:
            assert given.monitor.records[-1].step == step

    for step in range(steps.start):
        step_at(step)
    return [calls_of(lambda step=step: step_at(step)) for step in steps], given.monitor


@pytest.mark.parametrize(("is_logged", "most"), [(False, 12), (True, 32)])
def test_an_undue_step_calls_few_functions(is_logged, most, monkeypatch):
    steps = range(11, 15)
    found, monitor = calls_at(steps, monkeypatch, interval=10, is_logged=is_logged)
    for calls in found:
        assert calls.total() <= most, calls.most_common()
        assert max(calls.values()) <= 2
    series = monitor.records.series()
    assert series["0", "InputSndNorm"].keys() == {0, 10}
    assert series.get(("", "loss"), {}).keys() == set(range(15) if is_logged else ())


def test_a_due_step_calls_no_function_for_a_layer_and_few_others(monkeypatch):
    steps = range(8, 9)
    (few,), _ = calls_at(steps, monkeypatch, layers=10)
    (many,), monitor = calls_at(steps, monkeypatch, layers=30)
    assert many.total() - few.total() < 10, (many - few).most_common()
    assert few.total() <= 150, f"{few.most_common()}"
    assert len(monitor.records) == 9 * 4 * 30


def test_who_reads_records_at_each_step_does_not_have_them_looked_at_one_by_one(monkeypatch):
    steps = range(8, 9)
    (unread,), _ = calls_at(steps, monkeypatch)
    (read,), monitor = calls_at(steps, monkeypatch, is_read=True)
    assert read.total() - unread.total() <= 35, (read - unread).most_common()
    assert "Watch.after" not in read
    assert monitor._postponed.are_waiting
    monitor.close()
    assert not monitor._postponed.are_waiting


@dataclass(frozen=True)
class Own:
    """A schedule of the user's own, which knows the next step only."""

    steps: frozenset[int]

    def is_due(self, step):
        return step in self.steps


SCHEDULES = [
    "every(7)",
    "linear(9, 4)",
    "at_steps(3, 17)",
    "adaptive(8, 2)",
    Own(frozenset({5, 11})),
]


def forward_beside(given, step):
    other = threading.Thread(target=forward, args=(given, step))
    other.start()
    other.join()


def evaluate(given, step):
    given.model.eval()(torch.ones(2, 3))
    given.model.train()


def track_another(given, step):
    with given.monitor.at(step + 30):
        forward(given, step)
        given.monitor.track(step + 30)
    given.monitor.start_at(step)


ACTIONS = {
    "log": lambda given, step: given.monitor.log("loss", torch.tensor(float(step))),
    "log nan": lambda given, step: given.monitor.log("loss", math.nan),
    "forward": forward,
    "forward beside": forward_beside,
    "evaluate": evaluate,
    "track another": track_another,
    "raise the cadence": lambda given, step: given.monitor.raise_cadence(steps=3),
    "pause": lambda given, step: given.monitor.pause(),
    "resume": lambda given, step: given.monitor.resume(),
}
"""What a training may do before it tracks a step, beside a forward; or it may not track it."""


def shown(schedules, program, *, may_pass_over):
    """Everything that a training shows, with steps passed over or each of them tracked."""
    names = ["InputMean", "OutputRMS", "OutputGradRMS", "WeightNorm", "InputSndNorm"]
    entries = [[name, schedule] for name, schedule in zip(names, schedules, strict=False)]
    torch.manual_seed(0)
    told = []
    given = Given({"0": entries}, on_finding=told.append)
    if not may_pass_over:
        given.monitor._tracker.pass_over = lambda step, logged: False
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for step in range(24):
            forward(given, step)
            for action in program.get(step, ()):
                if action in ACTIONS:
                    ACTIONS[action](given, step)
            if "do not track" not in program.get(step, ()):
                given.monitor.track(step)
        records = [(r.step, r.module, r.quantity, f"{r.value:.6g}") for r in given.monitor.records]
    texts = sorted(str(one.message) for one in caught)
    monitor = given.monitor
    return records, monitor.missing, monitor.next_step, texts, [one.kind for one in told]


PROGRAMS = st.dictionaries(
    st.integers(0, 23),
    st.lists(st.sampled_from([*ACTIONS, "do not track"]), min_size=1, max_size=2),
)


@tried(8, of=100)
def test_a_training_shows_the_same_if_no_step_is_passed_over(examples):
    @settings(max_examples=examples)
    @hypothesis.given(st.lists(st.sampled_from(SCHEDULES), min_size=1, max_size=5), PROGRAMS)
    def check(schedules, program):
        found = shown(schedules, program, may_pass_over=True)
        assert found == shown(schedules, program, may_pass_over=False)

    check()


def test_a_loss_of_an_undue_step_is_found_at_that_step():
    told = []
    given = Given({"0": [["InputMean", "every(100)"]]}, on_finding=told.append)
    for step in range(30):
        forward(given, step)
        given.monitor.log("loss", math.nan if step == 21 else 1.0)
        given.monitor.track(step)
        assert bool(told) == (step >= 21)


def test_values_that_come_late_are_recorded_at_undue_steps():
    given = Given({"0": [["InputCovCondition", "every(100)"]]})
    forward(given, 0)
    given.monitor.track(0)
    job = given.monitor._tracker._queue._waiting[0][0].costly if waiting(given.monitor) else None
    if job is not None:
        job.wait()
    forward(given, 1)
    given.monitor.track(1)
    assert waiting(given.monitor) == 0


def test_the_scale_of_an_undue_step_is_not_asked_for():
    class Scaler(torch.amp.GradScaler):
        def get_scale(self):
            asked.append(None)  # a wait for the device
            return 2.0

    asked, scaler = [], Scaler("cpu")
    given = Given({"0": [["InputMean", "every(4)"]]})
    at_steps = []
    for step in range(8):
        forward(given, step)
        given.monitor.track(step, scaler)
        at_steps.append(len(asked))
    assert at_steps == [1, 1, 1, 2, 3, 3, 3, 4]  # and at those before a due one, which prepare it


def test_what_fails_with_a_logged_number_drops_its_step_by_name(monkeypatch):
    given = Given({"0": [["InputMean", "every(100)"]]})
    forward(given, 0)
    given.monitor.track(0)

    def fails(*_):
        raise MemoryError("no more")

    given.monitor.log("loss", 1.0)
    with monkeypatch.context() as patch:
        patch.setattr(given.monitor._tracker._queue, "put", fails)
        with pytest.warns(MonitorWarning, match="step 1 is dropped: MemoryError: no more"):
            given.monitor.track(1)
    given.monitor.log("loss", 2.0)
    given.monitor.track(2)
    assert given.monitor.records.series()["", "loss"] == {2: 2.0}
    given.monitor.log("loss", 3.0)
    given.monitor._tracker._strict = True
    monkeypatch.setattr(given.monitor._tracker._queue, "put", fails)
    with pytest.raises(MemoryError, match="no more"):
        given.monitor.track(3)


def test_the_forwards_of_a_step_are_counted():
    model = taiyi_fx.instrument(nn.Linear(2, 2), {"": ["OutputRMS"]})
    counts = []
    for step, forwards in enumerate([1, 4, 0]):
        for _ in range(forwards):
            model(torch.ones(1, 2)).sum().backward()
        with torch.no_grad():
            model(torch.ones(1, 2))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", taiyi_fx.MonitorWarning)
            model.monitor.track(step)
        counts.append(model.monitor._tracker.whole.forwards)
    assert counts == [1, 4, 4]
