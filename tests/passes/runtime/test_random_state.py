"""Every random stream, taken and put back."""

import random

import numpy as np
import torch

from taiyi_fx.passes.runtime.random_state import random_state, restore_random_state


def drawn():
    return random.random(), torch.rand(3).tolist(), np.random.rand(3).tolist()


def test_streams_go_on_where_they_were():
    state = random_state()
    first = drawn()
    assert drawn() != first
    restore_random_state(state)
    assert drawn() == first
