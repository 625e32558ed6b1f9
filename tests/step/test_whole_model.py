"""The model as a whole knows its optimizers, and the losses of late."""

import pytest
import torch
from torch import nn

from taiyi_fx.passes.ir import Reading, Site
from taiyi_fx.reductions import Norm, Raw
from taiyi_fx.step.parameters import ReadingUnavailable
from taiyi_fx.step.transfer import Column
from taiyi_fx.step.whole_model import WholeModel, check_optimizers

LOSSES = Reading(Site("logged"), Raw())
GRADIENTS = Reading(Site("gradients"), Norm())


def logged(whole, step, value, name="loss", mode="train"):
    of = (("", name),)
    whole.log(Column(step, mode, of, of, torch.tensor([value])))


def losses(whole, step):
    (found,) = whole.read(LOSSES, step, None)
    return found.tolist()


def test_losses_are_those_of_the_first_series_that_is_called_one():
    whole = WholeModel(nn.Linear(2, 2))
    for step in range(3):
        logged(whole, step, 9.0, "accuracy")
        logged(whole, step, float(step), "train_loss")
        logged(whole, step, 7.0, "aux_loss")
        logged(whole, step, 8.0, "train_loss", mode="eval")
    assert losses(whole, 2) == [0, 1, 2]


def test_the_last_and_128_before_are_kept():
    whole = WholeModel(nn.Linear(2, 2))
    for step in range(500):
        logged(whole, step, float(step))
    assert losses(whole, 499) == list(range(371, 500))
    whole.clear()
    with pytest.raises(ReadingUnavailable):
        losses(whole, 499)


def test_a_loss_of_another_step_is_not_that_of_this_one():
    whole = WholeModel(nn.Linear(2, 2))
    logged(whole, 3, 1.0)
    with pytest.raises(ReadingUnavailable, match="logged for this step"):
        losses(whole, 4)


def test_parameters_that_are_not_the_models_belong_to_no_group_of_it():
    model, other = nn.Linear(2, 2, bias=False), nn.Linear(2, 2)
    whole = WholeModel(model)
    whole.optimizers = (
        torch.optim.SGD([model.weight, other.weight]),
        torch.optim.SGD([other.bias]),
    )
    for p in (model.weight, other.weight, other.bias):
        p.grad = torch.ones_like(p)
    (norms,) = whole.read(GRADIENTS, 0, None)
    assert norms.tolist() == [2, 2, 0]


@pytest.mark.parametrize("given", [None, (), []])
def test_no_optimizer_is_none(given):
    assert check_optimizers(given) == ()
