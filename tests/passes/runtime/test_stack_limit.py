"""The limit of Python's stack while forwards are read."""

import sys

import pytest

from taiyi_fx.passes.runtime.stack_limit import narrow, widen


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
