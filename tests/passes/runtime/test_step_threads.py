"""Whose forwards belong to a step, where several threads run them."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from taiyi_fx.passes.runtime.step_threads import NOT_OF_TRACK, SEVERAL, StepThreads


@pytest.fixture
def beside():
    """Runs a function in another thread, the same each time."""
    with ThreadPoolExecutor(1) as pool:
        yield lambda function, *args: pool.submit(function, *args).result()


def forward(threads):
    """A forward of this thread: whether it is read, and whether what was read is forgotten."""
    return threads.may_read() and (True, threads.begin())


def test_all_forwards_of_one_thread_are_read(beside):
    for run in (lambda function, *args: function(*args), beside):
        threads = StepThreads()
        for _ in range(3):
            assert run(forward, threads) == (True, False)
            assert run(forward, threads) == (True, False)
            assert run(threads.end_step, 0) is None
        assert not threads.has_beside


def test_a_thread_beside_the_tracking_one_is_never_read(beside):
    threads = StepThreads()
    for _ in range(3):
        assert forward(threads) == (True, False)
        assert beside(forward, threads) is False
        assert threads.end_step(0) is None
    assert beside(forward, threads) is False  # also when it comes first
    assert threads.has_beside


def test_what_came_before_the_thread_that_comes_first_is_forgotten(beside):
    threads = StepThreads()
    assert beside(forward, threads) == (True, False)
    assert forward(threads) == (True, True)
    assert threads.end_step(0) is None
    assert beside(forward, threads) is False


def test_a_training_in_another_thread_than_instrument_loses_one_step_at_most(beside):
    threads = StepThreads()
    assert forward(threads) == (True, False)
    assert beside(forward, threads) is False
    assert beside(threads.end_step, 0) == SEVERAL
    assert forward(threads) is False
    assert beside(forward, threads) == (True, False)
    assert beside(threads.end_step, 0) is None


def test_forwards_of_workers_are_read_where_the_tracking_thread_runs_none(beside):
    threads = StepThreads()
    for _ in range(2):
        assert beside(forward, threads) == (True, False)
        with ThreadPoolExecutor(1) as another:
            assert another.submit(forward, threads).result() == (True, False)
        assert threads.end_step(0) is None


def test_a_training_that_moves_to_a_worker_is_read_from_the_second_step_on(beside):
    threads = StepThreads()
    forward(threads)
    beside(forward, threads)
    threads.end_step(0)
    assert beside(forward, threads) is False
    assert threads.end_step(0) == NOT_OF_TRACK
    assert beside(forward, threads) == (True, False)
    assert threads.end_step(0) is None


def test_a_forward_that_could_not_be_read_leaves_the_step_out(beside):
    threads = StepThreads()
    assert beside(forward, threads) == (True, False)
    threads.leave_unread()
    assert threads.end_step(0) == SEVERAL
    assert beside(forward, threads) is False


def test_what_a_forward_brings_that_goes_on_past_its_step_is_forgotten(beside):
    threads, idents = StepThreads(), []
    beside(lambda: idents.append(__import__("threading").get_ident()))
    assert forward(threads) == (True, False)
    assert threads.end_step(idents[0]) is None
    assert forward(threads) == (True, True)
