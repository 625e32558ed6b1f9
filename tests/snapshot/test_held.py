"""Entries of Python's objects: read as shallow copies, and written back in place."""

import functools
import random
import threading
from collections import OrderedDict, deque
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from taiyi_fx.snapshot.held import accesses


def closing(value):
    def inner():
        nonlocal value
        value += 1
        return value

    return inner


CHANGES = {
    "dict": ({"a": 1}, lambda held: held.update(b=2)),
    "ordered": (OrderedDict(a=1, b=2), lambda held: held.move_to_end("a")),
    "list": ([1, 2], lambda held: held.reverse()),
    "set": ({1}, lambda held: held.add(2)),
    "deque": (deque([1, 2], maxlen=2), lambda held: held.append(3)),
    "object": (SimpleNamespace(n=1), lambda held: setattr(held, "n", 2)),
    "closure": (closing(1), lambda held: held()),
    "array": (np.zeros(2), lambda held: held.fill(1)),
    "python random": (random.Random(0), lambda held: held.random()),
    "numpy random": (np.random.default_rng(0), lambda held: held.random()),
    "torch random": (torch.Generator(), lambda held: torch.rand(1, generator=held)),
}


@pytest.mark.parametrize("kind", CHANGES)
def test_what_is_changed_is_put_back(kind):
    held, change = CHANGES[kind]
    before = [(access, access.read(held)) for access in accesses(held)]
    change(held)
    assert any(list(access.read(held).items()) != list(saved.items()) for access, saved in before)
    for access, saved in before:
        access.write(held, saved)
        assert list(access.read(held).items()) == list(saved.items())


@pytest.mark.parametrize(
    "value", [1, "text", None, torch.ones(1), int, threading.Lock()], ids=lambda x: type(x).__name__
)
def test_what_holds_nothing_of_the_models_is_not_looked_into(value):
    assert accesses(value) == []


def test_a_partial_is_looked_into_and_stays_as_it_is():
    found = accesses(functools.partial(print, 1, end=""))[0]
    assert found.read(functools.partial(print, 1, end=""))["args"] == (1,)


def test_the_systems_random_numbers_have_no_state():
    access, *_ = accesses(random.SystemRandom())
    assert access.read(random.SystemRandom()) == {}
