"""A step that is run again and again."""

import random

import pytest
import torch
from torch import nn

from taiyi_fx.step_checks.batch import batch_of
from taiyi_fx.step_checks.trial import loss_of, trial


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.dropout = nn.Linear(4, 4), nn.Dropout(0.5)
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return self.dropout(self.linear(x)) * self.calls


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Counting()


def trying(model, dtype=torch.float64, **options):
    def step(x):
        return model(x).square().mean() + random.random()

    return trial({"": model}, step, batch_of(step, (torch.ones(3, 4),), {}), (), dtype, **options)


def test_each_run_begins_anew(model):
    with trying(model) as tried:
        first = tried.loss()
        assert tried.loss() == first
        assert tried.loss(seed=1) != first
        assert tried.evaluating().loss() != first
        assert model.calls == 0
    assert model.calls == 0
    assert model.training


def test_parameters_are_moved_a_little_so_that_none_are_zero(model):
    nn.init.zeros_(model.linear.weight)
    with trying(model) as tried:
        assert tried.parameters["linear.weight"].abs().min() > 0
        assert tried.parameters["linear.weight"].abs().max() < 0.01
    with trying(model, shakes=False) as tried:
        assert not tried.parameters["linear.weight"].any()
    assert not model.linear.weight.any()


def test_only_what_an_optimizer_has_is_learned(model):
    optimizer = torch.optim.SGD([model.linear.bias], lr=0.1)
    batch = batch_of(model, (torch.ones(3, 4),), {})
    with trial({"": model}, model, batch, [optimizer], None) as tried:
        assert [*tried.parameters] == ["linear.bias"]


def test_a_module_can_be_called_again_as_it_was(model):
    with trying(model) as tried:
        call = tried.evaluating().run(records=True).calls[-1]
        again = tried.evaluating().called_again(call)
    assert call.module == ""
    assert torch.equal(again[-1].outputs[0], call.outputs[0])


def test_training_goes_on_from_step_to_step_and_leaves_nothing(model):
    model.dropout.p = 0.0
    before = model.linear.weight.clone()

    def step(x):
        return model.linear(x).square().mean()

    with trial({"": model}, step, batch_of(step, (torch.ones(3, 4),), {}), (), None) as tried:
        losses = tried.train([torch.optim.SGD(tried.parameters.values(), lr=0.1)], 5)
    assert losses == sorted(losses, reverse=True)
    assert torch.equal(model.linear.weight, before)
    assert model.linear.weight.grad is None


def test_a_loss_is_found_in_what_is_returned():
    loss = torch.ones(1, 1)

    class Output:
        pass

    output = Output()
    output.loss = loss
    assert [x.shape for x in (loss_of(loss), loss_of({"loss": loss}), loss_of(output))] == [()] * 3
    with pytest.raises(TypeError, match="but gave a dict without a loss"):
        loss_of({"logits": loss})
