"""Stand-ins for the training's own model and optimizers."""

import pytest
import torch
from torch import nn

import taiyi_fx
from taiyi_fx.recorder.replay.stand_ins import StandIn, with_training, without_training


def test_the_model_is_known_plain_instrumented_and_wrapped():
    model, other = nn.Linear(2, 2), nn.Linear(2, 2)
    one = taiyi_fx.instrument(model, {})
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    wrapped = nn.DataParallel(one)
    given = (model, one, torch.compile(one), wrapped, other, optimizer, 3)
    args, kwargs = without_training(given, {"model": one}, model, [optimizer])
    assert args == (*[StandIn()] * 4, other, StandIn(0), 3)
    assert kwargs == {"model": StandIn()}
    assert with_training(args, kwargs, other, [optimizer]) == (
        (*[other] * 5, optimizer, 3),
        {"model": other},
    )


def test_an_optimizer_that_is_not_there_is_told():
    with pytest.raises(ValueError, match="takes an optimizer that is not one of torch's"):
        with_training((StandIn(0),), {}, nn.Linear(2, 2), [])
