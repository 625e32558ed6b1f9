"""The limit of Python's stack while forwards are read."""

import inspect
import subprocess
import sys
import threading

import pytest
from torch import nn

from taiyi_fx.passes.stack_limit import narrow, widen
from tests.docs.pages import ROOT


@pytest.fixture
def limit():
    before = sys.getrecursionlimit()
    yield before
    sys.setrecursionlimit(before)


def test_it_is_restored_after_the_last_of_several_forwards(limit):
    widen()
    widen()
    narrow()
    assert sys.getrecursionlimit() == 3 * limit
    narrow()
    assert sys.getrecursionlimit() == limit


def test_one_that_a_model_sets_stays(limit):
    widen()
    sys.setrecursionlimit(limit + 77)
    narrow()
    assert sys.getrecursionlimit() == limit + 77


def test_where_threads_have_a_small_stack_it_stays(limit):
    threading.stack_size(2**20)
    try:
        widen()
        assert sys.getrecursionlimit() == limit
        narrow()
        assert sys.getrecursionlimit() == limit
    finally:
        size = threading.stack_size(0)
    assert size == 2**20


class WithoutEnd(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(1, 1)

    def forward(self, x):
        try:
            return self(self.fc(x))
        finally:
            pass


@pytest.mark.parametrize("size", [0, 2**20, pytest.param(2**21, marks=pytest.mark.slow)])
def test_a_model_that_calls_itself_without_end_is_an_error_in_any_thread(size):
    code = f"""
        import threading, torch, taiyi_fx
        from tests.passes.test_stack_limit import WithoutEnd

        def run():
            try:
                taiyi_fx.instrument(WithoutEnd(), {{"*": ["OutputRMS", "BackwardInput"]}})(torch.ones(1))
            except RecursionError:
                print("an error")

        threading.stack_size({size})
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    """
    call = [sys.executable, "-W", "ignore", "-c", inspect.cleandoc(code)]
    done = subprocess.run(call, capture_output=True, text=True, check=False, cwd=ROOT)
    assert (done.returncode, done.stdout) == (0, "an error\n"), done.stderr
