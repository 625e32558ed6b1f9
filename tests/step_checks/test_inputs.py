"""Tensors of a batch that have no effect."""

import torch
import torch.nn.functional as F
from torch import nn

import taiyi_fx
from tests.step_checks import steps


def unused(model, step, *batch):
    found = taiyi_fx.step_check(model, step, *batch)
    return [one for one in found if one.kind == "unused_input"], found


def test_weights_that_are_not_applied_are_told_by_name():
    model = steps.net()
    weights = torch.rand(steps.BATCH)

    def step(x, y, weights):
        losses = F.cross_entropy(model(x), y, reduction="none")
        (losses * weights).mean()
        return losses.mean()

    (one,), _ = unused(model, step, *steps.batch(), weights)
    assert one.severity == "warning"
    assert "whatever 'weights' holds" in one.text


def test_parts_of_a_batch_are_told_by_their_place():
    model = steps.net()
    x, y = steps.batch()

    def step(batch):
        return F.cross_entropy(model(batch["x"]), batch["y"])

    (one,), _ = unused(model, step, {"x": x, "y": y, "extra": [torch.rand(steps.BATCH)]})
    assert one.severity == "note"
    assert "whatever \"batch['extra'][0]\" holds" in one.text
    assert one.text.endswith("the step does not even read it")


def test_a_head_of_zeros_uses_its_inputs_all_the_same():
    model = steps.net()
    nn.init.zeros_(model[3].weight)
    nn.init.zeros_(model[3].bias)
    assert unused(model, lambda x, y: F.cross_entropy(model(x), y), *steps.batch())[0] == []


def test_what_is_the_same_for_all_samples_says_nothing():
    model = steps.net()
    same = torch.ones(steps.BATCH)
    found, _ = unused(model, lambda x, y, _: F.cross_entropy(model(x), y), *steps.batch(), same)
    assert found == []


def test_an_input_of_which_a_mean_is_left_is_used():
    model = nn.Linear(6, 3)
    x = steps.batch()[0]
    aim = torch.randn(steps.BATCH, 3)

    def step(x, aim):
        return F.mse_loss(model(x).mean(0, keepdim=True).expand(len(x), -1), aim)

    assert unused(model, step, x, aim)[0] == []  # what is left of it is the mean


def test_a_ratio_that_is_1_at_first_has_its_inputs_in_the_gradient():
    model = steps.net()

    def step(x, actions, advantages):
        logs = F.log_softmax(model(x), -1).gather(1, actions[:, None])[:, 0]
        return -((logs - logs.detach()).exp() * advantages).mean()

    found, every = unused(model, step, *steps.batch(), torch.randn(steps.BATCH))
    assert found == []
    assert "inputs" in every.looked_at
