"""Mistakes in reinforcement learning: values, policies, targets and shapes."""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.faults.data import Batch
from benchmarks.faults.fault import WHOLE, held_out
from benchmarks.faults.own.training import Figure, Loss, seeded, train
from benchmarks.faults.training import Training

LENGTH, GAMMA = 6, 0.9


def _seen(places: Tensor) -> Tensor:
    """A corridor's places as one-hot rows."""
    return F.one_hot(places, LENGTH).float()


def transitions(step: int) -> Batch:
    """Random moves in a corridor whose right end pays 1 and ends the game.

    The rows are state, next state; the targets are action, reward and whether it ended.
    """
    generator = seeded(step)
    at = torch.randint(LENGTH - 1, (64,), generator=generator)
    action = torch.randint(2, (64,), generator=generator)
    to = (at + 2 * action - 1).clamp(0)
    done = to == LENGTH - 1
    rest = torch.stack([action.float(), done.float(), done.float()], 1)
    return torch.cat([_seen(at), _seen(to)], 1), rest


def true_values() -> Tensor:
    """The values of going left and right at each place but the last."""
    q = torch.zeros(LENGTH, 2)
    for _ in range(200):
        best = q.max(1).values
        best[-1] = 0
        for at in range(LENGTH - 1):
            q[at, 0] = GAMMA * best[max(at - 1, 0)]
            q[at, 1] = float(at + 1 == LENGTH - 1) + GAMMA * best[at + 1]
    return q[:-1]


class DQN(nn.Module):
    """A network of values and its target."""

    def __init__(self) -> None:
        super().__init__()
        self.policy_net = nn.Sequential(nn.Linear(LENGTH, 48), nn.ReLU(), nn.Linear(48, 2))
        self.target_net = copy.deepcopy(self.policy_net)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Values of the states, and of the next ones by the target."""
        return self.policy_net(x[:, :LENGTH]), self.target_net(x[:, LENGTH:])


def _wrong(net: Any) -> float:
    with torch.no_grad():
        made = net.policy_net(_seen(torch.arange(LENGTH - 1)))
    return float((made - true_values()).abs().mean())


def _dqn(t: Training, net: DQN, loss: Loss) -> Figure:
    train(t, net, loss, transitions)
    t.optimizer = torch.optim.Adam(net.policy_net.parameters(), lr=5e-3)
    t.steps = 250

    def update(step: int) -> None:
        if step % 10 == 0:
            net.target_net.load_state_dict(net.policy_net.state_dict())

    t.before_step.append(update)
    return _wrong


def _chosen(q: Tensor, rest: Tensor) -> Tensor:
    return q.gather(1, rest[:, :1].long()).squeeze(1)


@held_out("mlp", WHOLE, kinds="^growth|^drift|wild_loss")
def values_behind_the_end(t: Training, *, mended: bool = False) -> Figure:
    """Values are too large and never settle: done is stored, and not used for the target.

    navneet-nmk/pytorch-rl#2, seungeunrho/minimalRL#21, cyoon1729/deep-Q-networks#6
    """

    def loss(net: nn.Module, x: Tensor, rest: Tensor) -> Tensor:
        q, following = net(x)
        going_on = 1 - rest[:, 2] if mended else 1
        target = rest[:, 1] + GAMMA * following.max(1).values.detach() * going_on
        return F.mse_loss(_chosen(q, rest), target)

    return _dqn(t, DQN(), loss)


@held_out("mlp", WHOLE, kinds="odd_loss")
def actions_not_taken_are_taught_zero(t: Training, *, mended: bool = False) -> Figure:
    """Targets are zeros but for the action that was taken, and the loss is over all actions.

    kuz/DeepMind-Atari-Deep-Q-Learner#22
    """

    def loss(net: nn.Module, x: Tensor, rest: Tensor) -> Tensor:
        q, following = net(x)
        value = rest[:, 1] + GAMMA * following.max(1).values.detach() * (1 - rest[:, 2])
        targets = q.detach().clone() if mended else torch.zeros_like(q)
        targets[torch.arange(len(q)), rest[:, 0].long()] = value
        return F.mse_loss(q, targets)

    return _dqn(t, DQN(), loss)


@held_out("mlp", "policy_net*", kinds="broadcast")
def rewards_in_a_column(t: Training, *, mended: bool = False) -> Figure:
    """Q of (64,) beside a target of (64, 1): every value is taught every target.

    PacktPublishing/Deep-Reinforcement-Learning-Hands-On#33, pytorch/rl#1243
    """

    def loss(net: nn.Module, x: Tensor, rest: Tensor) -> Tensor:
        q, following = net(x)
        best = following.max(1, keepdim=True).values.detach()
        target = rest[:, 1:2] + GAMMA * best * (1 - rest[:, 2:])
        error = _chosen(q, rest) - (target.squeeze(1) if mended else target)
        return error.pow(2).mean()

    return _dqn(t, DQN(), loss)


class Policy(nn.Module):
    """A policy over five actions and a value."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(16, 48), nn.Linear(48, 48)
        self.fc3, self.critic = nn.Linear(48, 5), nn.Linear(48, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Logarithms of probabilities of (batch, 5), and values of (batch, 1)."""
        x = F.relu(self.fc2(F.relu(self.fc1(x))))
        return F.log_softmax(self.fc3(x), dim=-1), self.critic(x)


def _played(log_p: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Actions that are drawn, and their rewards: 1 for the right one, else 0."""
    actions = torch.distributions.Categorical(logits=log_p.detach()).sample()
    return actions, (actions == y).float()


def _bandit(t: Training, net: nn.Module, loss: Loss) -> Figure:
    """Has a policy learn what a teacher would do, by rewards alone."""
    fresh = t.batch
    train(t, net, loss, lr=3e-3)
    t.steps = 200

    def figure(net: nn.Module) -> float:
        """The share of wrong actions."""
        with torch.no_grad():
            x, y = fresh(900)
            return float((net(x)[0].argmax(1) != y).float().mean())

    return figure


@held_out("mlp", WHOLE, kinds="unbounded_loss|odd_loss|divergence")
def reinforce_without_the_minus(t: Training, *, mended: bool = False) -> Figure:
    """log_prob * reward is minimised: good actions become rare.

    datascience.stackexchange.com/questions/57114
    """

    def loss(net: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        log_p, _ = net(x)
        actions, reward = _played(log_p, y)
        gain = (log_p.gather(1, actions[:, None]).squeeze(1) * (reward - 0.2)).mean()
        return -gain if mended else gain

    return _bandit(t, Policy(), loss)


@held_out("mlp", "critic", "fc3", kinds="broadcast")
def advantages_of_all_by_ratios_of_all(t: Training, *, mended: bool = False) -> Figure:
    """Slow to converge: advantages of (n, 1) by log-probabilities of (n,).

    RITCHIEHuang/DeepRL_Algorithms#13, thu-ml/tianshou#155, pytorch/rl#2756
    """

    def loss(net: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        log_p, value = net(x)
        actions, reward = _played(log_p, y)
        advantage = reward[:, None] - value
        taken = log_p.gather(1, actions[:, None]).squeeze(1)
        gain = advantage.detach().reshape(-1) if mended else advantage.detach()
        return -(gain * taken).mean() + 0.5 * advantage.pow(2).mean()

    return _bandit(t, Policy(), loss)


@held_out("mlp", "critic", kinds="^growth|^drift|unbounded_loss|divergence")
def advantage_that_teaches_the_critic(t: Training, *, mended: bool = False) -> Figure:
    """The policy's loss goes back into the critic: reward - value is not detached.

    astariul/encode-attend-navigate-pytorch#2, coreylynch/async-rl#8, keras-team/keras-io#194
    """

    def loss(net: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        log_p, value = net(x)
        actions, reward = _played(log_p, y)
        advantage = reward - value.squeeze(1)
        taken = log_p.gather(1, actions[:, None]).squeeze(1)
        gain = advantage.detach() if mended else advantage
        return -(gain * taken).mean() + 0.5 * advantage.pow(2).mean()

    _bandit(t, Policy(), loss)
    fresh = t.batch

    def figure(net: nn.Module) -> float:
        """How far values are from the chance of the reward."""
        with torch.no_grad():
            x, y = fresh(900)
            log_p, value = net(x)
            return float((value.squeeze(1) - log_p.exp()[torch.arange(len(y)), y]).abs().mean())

    return figure


@held_out("mlp", WHOLE, kinds="detached|zero_gradient|missing_gradient|no_update")
def log_probabilities_kept_as_numbers(t: Training, *, mended: bool = False) -> Figure:
    """select_action returns log_prob.item(), and the episode's loss is made of numbers.

    discuss.pytorch.org/t/policy-gradient-using-loss-as-reward/13877
    """

    def loss(net: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        log_p, _ = net(x)
        actions, reward = _played(log_p, y)
        taken = log_p.gather(1, actions[:, None]).squeeze(1)
        if not mended:
            taken = torch.tensor(taken.tolist(), requires_grad=True)
        return -(taken * (reward - 0.2)).mean()

    return _bandit(t, Policy(), loss)
