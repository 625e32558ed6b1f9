"""Steps become records in their order, when they are complete; reasons and sites are told once."""

import warnings

import pytest

import taiyi_fx
from taiyi_fx.records.epochs import Epochs
from taiyi_fx.step import queue
from taiyi_fx.step.collect import TrackedStep
from taiyi_fx.step.non_finite import Sites
from taiyi_fx.step.queue import StepQueue
from taiyi_fx.step.transfer import Outcome
from taiyi_fx.writers.writer_group import WriterGroup
from tests.examples import some_or_all
from tests.step.given import arrived, column
from tests.writers.given import run
from tests.writers.interrupts import chosen, instructions_of, interrupted_at


class Collected:
    """A writer that keeps its batches."""

    def __init__(self):
        self.batches = []

    def open(self, run):
        pass

    def write(self, batch):
        self.batches.append(batch)

    def flush(self):
        pass

    def close(self):
        pass


class Costly:
    """Work in the background, until it is told to be done."""

    def __init__(self, outcome=None, error=None):
        self.is_done, self._outcome, self._error = False, outcome or Outcome(), error

    def outcome(self):
        if self._error is not None:
            raise self._error
        return self._outcome


@pytest.fixture
def writer():
    return Collected()


@pytest.fixture
def steps(writer):
    writers = WriterGroup()
    writers.add([writer])
    writers.open(run())
    return StepQueue(Epochs("exact"), writers)


def step_of(number, costly=None, **values):
    return TrackedStep(number, arrived(column(number, **values)), costly)


def rows(queue):
    return [(r.step, r.quantity, r.value) for r in queue.records]


def test_steps_are_recorded_in_their_order_once_complete(steps):
    costly = Costly(arrived(column(0, late=9.0)).outcome())
    steps.put(step_of(0, costly, a=1.0))
    steps.put(step_of(1, a=2.0))
    steps.take(all_of_it=False)
    assert rows(steps) == []  # step 1 is complete, but step 0 comes first
    costly.is_done = True
    steps.take(all_of_it=False)
    assert rows(steps) == [(0, "a", 1.0), (0, "late", 9.0), (1, "a", 2.0)]


def test_all_of_it_waits_for_what_is_not_done(steps):
    steps.put(step_of(0, Costly(arrived(column(0, late=9.0)).outcome()), a=1.0))
    steps.take(all_of_it=True)
    assert rows(steps) == [(0, "a", 1.0), (0, "late", 9.0)]


def test_series_of_a_step_are_in_the_order_of_the_configuration(steps):
    transfer = arrived(column(0, second=2.0), column(0, first=1.0), column(0, logged=3.0))
    order = {("", "first"): 0, ("", "second"): 1}
    steps.put(TrackedStep(0, transfer, order=order))
    steps.take(all_of_it=True)
    assert [name for _, name, _ in rows(steps)] == ["first", "second", "logged"]


def test_a_costly_quantity_that_raises_leaves_the_others_their_records(steps):
    steps.put(step_of(0, Costly(error=ValueError("no luck")), a=1.0))
    steps.put(step_of(1, a=2.0))
    with pytest.raises(ValueError, match="no luck"):
        steps.take(all_of_it=True)
    steps.take(all_of_it=True)
    assert rows(steps) == [(0, "a", 1.0), (1, "a", 2.0)]


def test_a_dropped_step_is_not_recorded(steps):
    steps.put(step_of(0, a=1.0))
    steps.put(step_of(1, a=2.0))
    steps.drop(0)
    steps.take(all_of_it=True)
    assert rows(steps) == [(1, "a", 2.0)]


def test_a_reason_is_warned_of_again_only_when_it_changes(steps, writer):
    series = "fc", "Norm"
    with pytest.warns(taiyi_fx.MonitorWarning, match="no value for\n  - Norm of 'fc': not called"):
        steps.report(0, {series: "not called"})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        steps.report(1, {series: "not called"})
    with pytest.warns(taiyi_fx.MonitorWarning, match="Norm of 'fc': frozen"):
        steps.report(2, {series: "frozen"})
    assert steps.missing == {series: "frozen"}
    steps.write_pending()
    events = [event for batch in writer.batches for event in batch.events]
    assert [(e.step, e.kind, e.module, e.text) for e in events] == [
        (0, "warning", "fc", "Norm: not called"),
        (2, "warning", "fc", "Norm: frozen"),
    ]


def test_a_reason_that_differs_in_numbers_alone_is_told_once(steps, writer):
    """As the error of a reshape that names the sizes, which are others at each step."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for step, size in enumerate((3, 14, 15)):
            steps.report(step, {("a", "q"): f"cannot view shape (2, j{size}, 8)"})
        steps.report(3, {("a", "q"): "something else"})
    assert [str(w.message).count("\n") for w in told] == [1, 1]
    assert steps.missing["a", "q"] == "something else"


def test_a_warning_shows_ten_reasons_and_counts_the_others(steps):
    failures = {("", f"q{i}"): "none" for i in range(13)}
    with pytest.warns(taiyi_fx.MonitorWarning) as caught:
        steps.report(0, failures)
    text = str(caught[0].message)
    assert text.startswith("no value for\n  - q0 of 'the model': none\n")
    assert text.count("  - ") == 10
    assert text.endswith("\n  and 3 more (see monitor.missing)")


def test_a_value_that_comes_late_does_not_end_what_is_missing_since(steps):
    steps.put(step_of(3, a=1.0))
    with pytest.warns(taiyi_fx.MonitorWarning):
        steps.report(4, {("", "a"): "its memory was given back"})
    steps.take(all_of_it=True)
    assert steps.missing == {("", "a"): "its memory was given back"}
    steps.put(step_of(5, a=1.0))
    steps.take(all_of_it=True)
    assert steps.missing == {}


@pytest.mark.filterwarnings("ignore::taiyi_fx.MonitorWarning")
def test_a_reason_that_comes_late_does_not_stand_for_a_later_one(steps):
    transfer = arrived(reasons={("", "a"): "this is the first due step"})
    steps.put(TrackedStep(3, transfer))
    steps.report(4, {("", "a"): "not called"})
    steps.take(all_of_it=True)
    assert steps.missing == {("", "a"): "not called"}


@pytest.mark.filterwarnings("ignore::taiyi_fx.MonitorWarning")
def test_where_steps_begin_anew_a_value_ends_what_was_missing_before(steps):
    steps.put(step_of(7, b=1.0))
    steps.report(7, {("", "a"): "not called"})
    steps.take(all_of_it=True)
    steps.put(step_of(0, a=1.0))
    steps.take(all_of_it=True)
    assert steps.missing == {}


def test_a_value_ends_what_was_missing(steps):
    with pytest.warns(taiyi_fx.MonitorWarning):
        steps.report(0, {("", "a"): "not called", ("", "b"): "frozen"})
    steps.put(step_of(1, a=1.0))
    steps.take(all_of_it=True)
    assert steps.missing == {("", "b"): "frozen"}


def test_a_reason_that_is_no_failure_is_kept_without_a_warning(steps):
    transfer = arrived(reasons={("", "a"): "this is the first due step"})
    steps.put(TrackedStep(0, transfer))
    steps.take(all_of_it=True)
    assert steps.missing == {("", "a"): "this is the first due step"}


def test_writers_get_each_step_once_and_the_end_of_an_epoch(steps, writer):
    for number in range(2):
        steps.put(step_of(number, a=float(number)))
    steps.take(all_of_it=True)
    closed = steps.close_epoch(7)
    written = [[(r.step, r.value) for r in batch] for batch in writer.batches]
    assert written == [[(0, 0.0)], [(1, 1.0)], []]
    assert writer.batches[-1].ended == (0, 7, closed)
    assert [(s.epoch, s.quantity, s.mean) for s in closed] == [(7, "a", 0.5)]


def counted(number, *, may_overflow=False, **counts):
    """A step that counted NaN and Inf at outputs, or at gradients where the name says so."""
    ports = {
        (("", name), "train"): "output_grad" if name.startswith("grad") else "output"
        for name in counts
    }
    transfer = arrived(*[column(number, **{name: count}) for name, count in counts.items()])
    sites = Sites(ports, list(range(len(counts))))
    return TrackedStep(number, transfer, sites=sites, may_overflow=may_overflow)


def test_the_first_site_that_is_not_finite_is_warned_of_once_and_kept(steps):
    with pytest.warns(
        taiyi_fx.MonitorWarning, match="step 3: the first NaN or Inf is in the output"
    ):
        steps.put(counted(3, a=0, b=5, c=6))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        steps.put(counted(4, a=2))
    assert [(site.step, site.count) for site in steps.non_finite] == [(3, 5), (4, 2)]


def test_an_overflow_under_a_scaler_is_kept_without_a_warning(steps):
    steps.put(counted(0, may_overflow=True, grad=4))
    assert [site.is_overflow for site in steps.non_finite] == [True]


def test_beyond_a_bound_the_oldest_records_are_dropped_with_one_warning(monkeypatch):
    monkeypatch.setattr(queue, "_KEPT_NUMBERS", 100)
    steps = StepQueue(Epochs("exact"), WriterGroup())
    values = {f"q{i}": float(i) for i in range(50)}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for number in range(50):
            steps.put(step_of(number, **values))
            steps.take(all_of_it=True)
    (text,) = [str(warning.message) for warning in caught]
    assert text.startswith("100 numbers are in memory: from here on the oldest are dropped")
    found = {r.step for r in steps.records}
    assert 49 in found
    assert 0 not in found


def test_cleared_it_has_nothing(steps):
    steps.put(step_of(0, a=1.0))
    steps.take(all_of_it=True)
    steps.clear()
    assert rows(steps) == []
    assert steps.close_epoch(None) == []


FEW = 100
"""The instructions at which the quick tests interrupt, evenly chosen."""


class TakesOnce(Collected):
    """One that is given a batch again where an interrupt came, and tells it apart."""

    takes_once = True

    def write(self, batch):
        if not any(batch is other for other in self.batches):
            self.batches.append(batch)


def begun(sort):
    writer = TakesOnce()
    group = WriterGroup()
    group.add([writer])
    group.open(run())
    queue = StepQueue(Epochs(sort), group)
    queue.put(step_of(0, a=1.0))
    queue.put(counted(1, b=5))
    queue.put(step_of(2, Costly(arrived(column(2, late=9.0)).outcome()), a=2.0))
    return queue, writer


def end(queue):
    queue.take(all_of_it=True)
    queue.report(2, {("", "c"): "not called"})
    queue.write_pending(at_once=True)


def rows_of(records):
    return [(r.step, r.quantity, r.value) for r in records]


ROWS = [(0, "a", 1.0), (1, "b", 5), (2, "a", 2.0), (2, "late", 9.0)]


@pytest.mark.filterwarnings("ignore::taiyi_fx.MonitorWarning")
@some_or_all("few", FEW, None)
@pytest.mark.parametrize("statistics", ["exact", "streaming"])
def test_an_interrupt_loses_and_doubles_no_record(statistics, few):
    for place in chosen(instructions_of(lambda: end(begun(statistics)[0])), few):
        queue, writer = begun(statistics)
        interrupted_at(lambda queue=queue: end(queue), place)
        end(queue)
        assert rows(queue) == ROWS, place
        assert rows_of(r for batch in writer.batches for r in batch) == ROWS, place
        assert [site.step for site in queue.non_finite] == [1], place
        events = [event for batch in writer.batches for event in batch.events]
        assert [e.kind for e in events if e.kind == "non_finite"] == ["non_finite"], place
        assert {s.quantity: s.count for s in queue.close_epoch(None)} == {"a": 2, "b": 1, "late": 1}


@pytest.mark.filterwarnings("ignore::taiyi_fx.MonitorWarning")
def test_an_interrupt_while_a_step_is_put_takes_logged_numbers_along_once():
    def begun():
        queue = StepQueue(Epochs("exact"), WriterGroup())
        queue.log(column(0, loss=3.0))
        return queue

    def put(queue):
        logged = [*queue.logged]
        queue.put(TrackedStep(0, arrived(*logged)), len(logged))

    for place in instructions_of(lambda: put(begun())):
        queue = begun()
        interrupted_at(lambda queue=queue: put(queue), place)
        put(queue)
        queue.take(all_of_it=True)
        assert rows(queue) == [(0, "loss", 3.0)], place
