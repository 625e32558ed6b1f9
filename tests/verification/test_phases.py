"""What each phase of training and evaluation leaves."""

import torch
from torch import nn

from taiyi_fx.passes.runtime.random_state import random_state
from taiyi_fx.snapshot.state import State
from taiyi_fx.verification.batch import Batch
from taiyi_fx.verification.phases import Subject, Task, phases


def task(*args, steps=2):
    return Task(Batch(args, {}), None, steps, random_state())


def test_phases_are_named_in_words():
    assert task(steps=2).names == ["the first step", "the second step", "evaluation"]
    assert task(steps=11).names[8:] == ["the ninth step", "step 10", "step 11", "evaluation"]


def test_a_run_is_the_same_each_time_and_begins_where_the_model_was():
    model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Dropout(0.5))
    subject, given = Subject(model, State(model)), task(torch.randn(5, 4))
    first, second = (list(phases(subject, given)) for _ in range(2))
    for one, other in zip(first, second, strict=True):
        assert one.keys() == other.keys()
        assert torch.equal(one["output"], other["output"])
    assert not torch.equal(first[0]["output"], first[1]["output"]), "dropout draws anew"
    assert torch.equal(first[0]["buffer '1.num_batches_tracked'"], torch.tensor(1))
    assert torch.equal(first[1]["buffer '1.num_batches_tracked'"], torch.tensor(2))


def test_gradients_are_those_of_the_loss():
    model = nn.Linear(4, 1, bias=False)
    x = torch.randn(3, 4)
    first, *_ = phases(Subject(model, State(model)), task(x))
    weights = torch.cos(torch.arange(3.0))
    torch.testing.assert_close(first["gradient of 'weight'"], (weights @ x).reshape(1, 4))
