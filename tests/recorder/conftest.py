"""Hooks of recorders that earlier tests left open are taken back before a test of its own."""

import pytest

from taiyi_fx.recorder import ending


@pytest.fixture(autouse=True)
def no_hooks_before():
    for one in [*ending._OPEN]:
        ending.tell_no_more(one)
    ending._HOOKS.take_back()
