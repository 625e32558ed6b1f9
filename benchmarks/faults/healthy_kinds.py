"""Healthy trainings of other kinds: of players, pairs, teachers, and of time before samples."""

from __future__ import annotations

import copy
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.faults import data
from benchmarks.faults.fault import healthy
from benchmarks.faults.training import Losses, Training


def _anew(t: Training, model: nn.Module, backward: Losses, rate: float = 1e-3) -> None:
    """Trains another model by Adam."""
    t.model, t.backward = model, backward
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    t.optimizer = torch.optim.Adam(trained, lr=rate)


def _perceptron(*widths: int) -> nn.Sequential:
    layers = [layer for a, b in pairwise(widths) for layer in (nn.Linear(a, b), nn.Tanh())]
    return nn.Sequential(*layers)


@healthy("gan")
def critic_whose_weights_are_clipped(t: Training) -> None:
    """Two players of one game, of which each gets the other's gradient with the sign turned."""

    def backward(model: nn.Module, noise: Tensor, real: Tensor) -> Tensor:
        generator, critic = (model.get_submodule(n) for n in ("generator", "discriminator"))
        judged, fooled = model(noise, real)
        true, false = judged.chunk(2)
        of_critic = false.mean() - true.mean()
        of_critic.backward(inputs=[*critic.parameters()], retain_graph=True)
        (-fooled.mean()).backward(inputs=[*generator.parameters()])
        return of_critic

    @torch.no_grad()
    def clip(*_: object) -> None:
        for parameter in t.model.get_submodule("discriminator").parameters():
            parameter.clamp_(-0.05, 0.05)

    t.backward, t.steps = backward, 150
    t.optimizer = torch.optim.RMSprop(t.model.parameters(), lr=1e-3)
    t.after_step.append(clip)


class ActorCritic(nn.Module):
    """A policy and a value, of which the first begins as a guess, as is usual."""

    def __init__(self) -> None:
        super().__init__()
        self.body = _perceptron(16, 64, 64)
        self.policy, self.value = nn.Linear(64, 5), nn.Linear(64, 1)
        nn.init.orthogonal_(self.policy.weight, 0.01)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Logits of actions, and the value of each state."""
        x = self.body(x)
        return self.policy(x), self.value(x).squeeze(-1)


@healthy("mlp")
def actor_and_critic(t: Training) -> None:
    """Actions that are drawn, and rewarded where they are the teacher's."""

    def backward(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        logits, value = model(x)
        choice = torch.distributions.Categorical(logits=logits)
        action = choice.sample()
        reward = 2 * (action == y).float() - 1
        gain = (reward - value).detach()
        loss = F.mse_loss(value, reward) / 2 - (choice.log_prob(action) * gain).mean()
        loss = loss - 0.01 * choice.entropy().mean()
        loss.backward()
        return loss

    _anew(t, ActorCritic(), backward, 3e-3)
    t.steps, t.clip = 200, 0.5


class Towers(nn.Module):
    """Two towers whose outputs are to be alike for the halves of one sample."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = _perceptron(8, 64, 16), _perceptron(8, 64, 16)
        self.scale = nn.Parameter(torch.tensor(2.6))

    def forward(self, x: Tensor) -> Tensor:
        """Similarities of (batch, batch)."""
        left, right = x.chunk(2, -1)
        towers = self.left(left), self.right(right)
        left, right = (F.normalize(tower, dim=-1) for tower in towers)
        return self.scale.exp() * left @ right.T


@healthy("mlp")
def two_towers(t: Training) -> None:
    """Pairs that are told from all others of a batch."""

    def backward(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        found, pair = model(x), torch.arange(len(x))
        loss = (F.cross_entropy(found, pair) + F.cross_entropy(found.T, pair)) / 2
        loss.backward()
        return loss

    def halves(step: int) -> data.Batch:
        x, y = data.rows(step)
        x[:, 8:] = x[:, :8].flip(1) + 0.1 * x[:, 8:]
        return x, y

    _anew(t, Towers(), backward)
    t.batch, t.steps = halves, 200


class Student(nn.Module):
    """A network, and an average of it over time that tells it what to predict.

    Args:
        network: The network.
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network, self.teacher = network, copy.deepcopy(network).requires_grad_(False)
        self.predictor = nn.Sequential(nn.Linear(10, 32), nn.BatchNorm1d(32), nn.ReLU())
        self.last = nn.Linear(32, 10)

    def forward(self, x: Tensor, other: Tensor) -> Tensor:
        """The distance from what is told of another view."""
        with torch.no_grad():
            told = self.teacher(other)
        found = self.last(self.predictor(self.network(x)))
        return 2 - 2 * F.cosine_similarity(found, told).mean()


@healthy("cnn")
def average_as_the_teacher(t: Training) -> None:
    """Two views of an image, without labels."""

    def backward(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        loss = model(x, x + 0.3 * torch.randn_like(x))
        loss.backward()
        return loss

    @torch.no_grad()
    def average(*_: object) -> None:
        teacher, network = model.teacher.parameters(), model.network.parameters()
        for told, own in zip(teacher, network, strict=True):
            told.lerp_(own, 0.01)

    model = Student(t.model)
    _anew(t, model, backward)
    t.after_step.append(average)


class TimeFirst(nn.Module):
    """Recurrent layers whose input is time, samples, features, by their last and mean states."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(16, 16)
        self.both, self.one = nn.GRU(16, 24, bidirectional=True), nn.LSTM(48, 24)
        self.head = nn.Linear(48, 4)

    def forward(self, ids: Tensor) -> Tensor:
        """Logits of (batch, 4)."""
        states, _ = self.one(self.both(self.words(ids.T))[0])
        return self.head(torch.cat([states[-1], states.mean(0)], -1))


@healthy("lstm")
def time_before_samples(t: Training) -> None:
    """Layers without batch_first, as they are meant."""
    _anew(t, TimeFirst(), t.backward, 1e-2)
