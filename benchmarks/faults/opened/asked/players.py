"""Faults of players who learn from rewards: targets, advantages, and whose gradient is whose."""

from __future__ import annotations

import copy

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.faults.fault import WHOLE, fault
from benchmarks.faults.opened.asked.small_tasks import begin, perceptron
from benchmarks.faults.training import Training

VALUE = "loss|value|grow|large|explod|diverg|target|rate|jump|drift"


class Values(nn.Module):
    """The value of each of five actions, and a copy for targets that stays behind."""

    def __init__(self) -> None:
        super().__init__()
        self.online = perceptron(16, 64, 64, 5)
        self.target = copy.deepcopy(self.online).requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        """Values of (batch, 5)."""
        return self.online(x)


def walks(t: Training, *, is_ending: bool = True) -> None:
    """Trains values of actions: each is rewarded where it is the teacher's, and half end a walk.

    Args:
        t: Is changed.
        is_ending: Whether nothing is expected behind an end.
    """

    def backward(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        action = torch.randint(5, y.shape)
        reward, ended = (action == y).float(), torch.rand(y.shape) < 0.5
        following = x.roll(1, 0)
        with torch.no_grad():
            later = model.get_submodule("target")(following).max(1).values
        told = reward + 0.99 * later * (~ended if is_ending else 1.0)
        loss = F.smooth_l1_loss(model(x).gather(1, action.unsqueeze(1)).squeeze(1), told)
        loss.backward()
        return loss

    player = Values()
    begin(t, player, backward, 3e-3)
    t.steps = 200

    def follow(step: int, *_: object) -> None:
        if step % 10 == 9:
            player.target.load_state_dict(player.online.state_dict())

    t.after_step.append(follow)


@fault("mlp", WHOLE, "online*", kinds=VALUE)
def ends_that_are_not_heeded(t: Training) -> None:
    """Expects rewards behind the end of a walk."""
    walks(t, is_ending=False)


class Player(nn.Module):
    """A policy and a value on one body."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh())
        self.policy, self.value = nn.Linear(64, 5), nn.Linear(64, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Logits of actions, and the value of each state."""
        x = self.body(x)
        return self.policy(x), self.value(x).squeeze(-1)


def playing(t: Training, *, is_detached: bool = True, is_averaged: bool = False) -> None:
    """Trains a policy by drawn actions, which are rewarded where they are the teacher's.

    Args:
        t: Is changed.
        is_detached: Whether the advantage has no gradient.
        is_averaged: Whether the mean of log-probabilities is multiplied by each advantage.
    """

    def backward(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        logits, value = model(x)
        choice = torch.distributions.Categorical(logits=logits)
        action = choice.sample()
        reward = 2 * (action == y).float() - 1
        gain, told = reward - value, choice.log_prob(action)
        gain = gain.detach() if is_detached else gain
        told = told.mean() if is_averaged else told
        loss = F.mse_loss(value, reward) / 2 - (told * gain).mean()
        loss.backward()
        return (1 - reward).mean() / 2

    begin(t, Player(), backward, 3e-3)
    t.steps, t.clip = 200, 0.5


POLICY = "loss|policy|value|entropy|collapse|plateau|advantage|saturat|slow|explod|grow"


@fault("mlp", WHOLE, "value", "policy", kinds=POLICY)
def advantage_that_trains_the_value(t: Training) -> None:
    """Leaves the value in the policy's loss with its gradient."""
    playing(t, is_detached=False)


@fault("mlp", WHOLE, "policy", kinds=POLICY)
def one_probability_for_all_actions(t: Training) -> None:
    """Multiplies the mean of all log-probabilities by each advantage."""
    playing(t, is_averaged=True)


class Pilot(nn.Module):
    """An actor, and a critic of its actions."""

    def __init__(self) -> None:
        super().__init__()
        self.actor = nn.Sequential(perceptron(16, 64, 2), nn.Tanh())
        self.critic = perceptron(18, 64, 64, 1)

    def forward(self, x: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        """The value of an action, and of what the actor would do."""
        own = self.actor(x)
        told, judged = torch.cat([x, action], 1), torch.cat([x, own], 1)
        return self.critic(told).squeeze(1), self.critic(judged).squeeze(1)


def flying(t: Training, *, is_apart: bool = True) -> None:
    """Trains an actor to come near a point, and a critic that tells how near it comes.

    Args:
        t: Is changed.
        is_apart: Whether the critic gets no gradient of the actor's loss.
    """

    def backward(model: nn.Module, x: Tensor, _: Tensor) -> Tensor:
        action = 2 * torch.rand(len(x), 2) - 1
        value, own = model(x, action)
        of_critic = F.mse_loss(value, -(action - x[:, :2].tanh()).square().sum(1))
        actor = [*model.get_submodule("actor").parameters()]
        of_critic.backward(retain_graph=True)
        (-own.mean()).backward(inputs=actor if is_apart else None)
        return of_critic

    begin(t, Pilot(), backward, 3e-3)
    t.steps = 200


@fault("mlp", "critic*", WHOLE, kinds="accumul|zero|" + VALUE)
def actor_that_flatters_the_critic(t: Training) -> None:
    """Lets the gradient of the actor's loss stay in the critic, which then finds all better."""
    flying(t, is_apart=False)
