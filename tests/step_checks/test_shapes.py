"""A column that meets a row."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import taiyi_fx
from tests.step_checks import steps


class Critic:
    """A temporal difference, whose target is computed without gradient."""

    def __init__(self, squeezes):
        torch.manual_seed(0)
        self.value, self.squeezes = nn.Linear(6, 1), squeezes

    def values(self, x):
        found = self.value(x)
        return found.squeeze(1) if self.squeezes else found

    def step(self, x, reward, after):
        with torch.no_grad():
            target = reward + 0.9 * self.values(after)
        return (target - self.values(x)).square().mean()


def broadcasts(model, step, *batch):
    found = taiyi_fx.step_check(model, step, *batch)
    assert "shapes" in found.looked_at
    return [one for one in found if one.kind == "broadcast"]


@pytest.mark.parametrize("squeezes", [False, True])
def test_a_target_of_all_by_all_is_told_with_its_line(squeezes):
    critic = Critic(squeezes)
    x, reward = steps.batch()[0], torch.rand(steps.BATCH)
    found = broadcasts(critic.value, critic.step, x, reward, x.flip(0))
    if squeezes:
        assert found == []
        return
    (one,) = found
    line = Critic.step.__code__.co_firstlineno + 2
    assert f"shapes (12, 1) and (12,) meet at test_shapes.py:{line}, and make (12, 12)" in one.text
    assert one.severity == "alert"


@pytest.mark.filterwarnings("ignore:Using a target size")
def test_a_loss_of_two_shapes_is_told():
    model = nn.Linear(6, 1)
    x, y = steps.batch()[0], torch.rand(steps.BATCH)
    assert len(broadcasts(model, lambda x, y: F.mse_loss(model(x), y), x, y)) == 1


def test_a_table_that_is_asked_for_is_none():
    model = nn.Linear(6, 1)

    def step(x):
        s = model(x)[:, 0]
        return F.softplus(s[None] - s[:, None]).mean()

    assert broadcasts(model, step, steps.batch()[0]) == []
