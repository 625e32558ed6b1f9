"""Faults of players that learn by rewards, and of models that learn by preferences.

Threads: verl-project/verl#2506, kuz/DeepMind-Atari-Deep-Q-Learner#22, meta-pytorch/torchforge#571.
"""

from __future__ import annotations

import copy
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.faults import data
from benchmarks.faults.data import Batch
from benchmarks.faults.fault import WHOLE, fault
from benchmarks.faults.training import Training
from benchmarks.faults.twinned.twin import Loss, set_up

POLICY = "loss|entropy|collapse|policy|plateau|diverg|steps"


def layers(*widths: int, act: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    """Linear layers with activations between them."""
    made = [part for a, b in pairwise(widths) for part in (nn.Linear(a, b), act())]
    return nn.Sequential(*made[:-1])


def _regret(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """How much less than the best reward the actions of the policy earn on average."""
    return 1 - model(x).softmax(1).gather(1, y.unsqueeze(1)).mean()


def _drawn(logits: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Log-probabilities, rewards and the distribution of drawn actions."""
    policy = torch.distributions.Categorical(logits=logits)
    actions = policy.sample()
    return policy.log_prob(actions), (actions == y).float(), policy.entropy()


@fault("mlp", WHOLE, "4", kinds=POLICY)
def advantages_passed_as_the_mask(t: Training, *, is_mended: bool = False) -> Loss:
    """Passes the advantages where the mask of valid steps belongs, in a mean over these."""

    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        log, reward, _ = _drawn(model(x), y)
        advantage = (reward - reward.mean()) / (reward.std() + 1e-6)
        valid = torch.ones_like(advantage)
        valid[::4] = 0
        mask = valid if is_mended else advantage
        return (-log * advantage * mask).sum() / (mask.sum() + 1e-8)

    return set_up(t, layers(16, 64, 64, 5), data.rows, loss, _regret)


@fault("mlp", WHOLE, "4", kinds=POLICY)
def entropy_that_is_made_small(t: Training, *, is_mended: bool = False) -> Loss:
    """Adds the entropy of the policy to the loss, and does not take it away."""
    sign = -1 if is_mended else 1

    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        log, reward, entropy = _drawn(model(x), y)
        return -(log * (reward - reward.mean())).mean() + sign * 0.05 * entropy.mean()

    return set_up(t, layers(16, 64, 64, 5), data.rows, loss, _regret)


@fault("mlp", WHOLE, "4", kinds="loss|value|plateau|target|constant")
def zeros_for_actions_that_were_not_taken(t: Training, *, is_mended: bool = False) -> Loss:
    """Compares the values of all actions with targets that are 0 but for the one that was taken."""

    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        value = model(x)
        action = torch.randint(5, (len(x), 1))
        reward = 2.0 - (action - y.unsqueeze(1)).abs()
        if is_mended:
            return F.mse_loss(value.gather(1, action), reward)
        return F.mse_loss(value, torch.zeros_like(value).scatter(1, action, reward))

    def judge(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        true = 2.0 - (torch.arange(5) - y.unsqueeze(1)).abs()
        return F.mse_loss(model(x), true)

    return set_up(t, layers(16, 64, 64, 5), data.rows, loss, judge)


def _pairs(step: int) -> Batch:
    x, y = data.rows(step)
    return x, torch.stack([y, (y + 1 + step % 4) % 5], 1)


@fault("mlp", WHOLE, "*", kinds="loss|plateau|gradient|update|detach")
def reference_that_is_the_policy_itself(t: Training, *, is_mended: bool = False) -> Loss:
    """Prefers one of two answers beside a reference, for which it takes the model itself."""
    policy = layers(16, 64, 64, 5)
    reference = copy.deepcopy(policy).requires_grad_(False)

    def margin(model: nn.Module, x: Tensor, pair: Tensor) -> Tensor:
        chosen, rejected = model(x).log_softmax(1).gather(1, pair).unbind(1)
        return chosen - rejected

    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        of = reference if is_mended else model
        return -F.logsigmoid(0.5 * (margin(model, x, y) - margin(of, x, y))).mean()

    def judge(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        return (margin(model, x, y) < 0).float().mean()

    return set_up(t, policy, _pairs, loss, judge)
