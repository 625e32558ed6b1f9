"""Trainings of agents: values, policies and both, in small worlds of their own."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributions import Categorical, Normal

import taiyi_fx
from benchmarks.faults.sound.training import sound
from taiyi_fx import Monitor


class Poles:
    """Many poles on carts at once, by the equations of CartPole; those that fall begin anew."""

    def __init__(self, count: int) -> None:
        self.state = 0.1 * torch.rand(count, 4) - 0.05

    def step(self, action: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The next state before any new beginning, the reward, and whether it fell."""
        x, speed, angle, turn = self.state.unbind(1)
        force = 20.0 * action.float() - 10.0
        sin, cos = angle.sin(), angle.cos()
        push = (force + 0.05 * turn.square() * sin) / 1.1
        pull = (9.8 * sin - cos * push) / (0.5 * (4 / 3 - 0.1 * cos.square() / 1.1))
        slide = push - 0.05 * pull * cos / 1.1
        moved = [x + 0.02 * speed, speed + 0.02 * slide, angle + 0.02 * turn, turn + 0.02 * pull]
        after = torch.stack(moved, 1)
        fell = (after[:, 0].abs() > 2.4) | (after[:, 2].abs() > 0.21)
        begun = 0.1 * torch.rand_like(after) - 0.05
        self.state = torch.where(fell[:, None], begun, after)
        return after, torch.ones(len(after)), fell


class Dueling(nn.Module):
    """A value and advantages over one trunk."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(4, width), nn.ReLU())
        self.value = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))
        self.advantage = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 2))

    def forward(self, x: Tensor) -> Tensor:
        """Of (samples, 2)."""
        x = self.trunk(x)
        advantage = self.advantage(x)
        return self.value(x) + advantage - advantage.mean(1, keepdim=True)


@sound({}, {"double": True}, {"samples": 2, "width": 32})
def dqn(samples: int = 128, width: int = 64, double: bool = False) -> Iterator[Monitor]:
    """The tutorial "Reinforcement Learning (DQN)": a replay memory and a soft target."""
    if double:
        model: Any = Dueling(width)
    else:
        model = nn.Sequential(
            nn.Linear(4, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 2)
        )
    target = copy.deepcopy(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, amsgrad=True)
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    world, memory = Poles(8), deque(maxlen=500)
    for step in range(300):
        state = world.state
        with torch.no_grad():
            greedy = model(state).argmax(1)
        explores = torch.rand(8) < max(0.05, 0.9 - step / 150)
        action = torch.where(explores, torch.randint(2, (8,)), greedy)
        after, reward, fell = world.step(action)
        memory.append((state, action, after, reward, fell))
        rows = [torch.cat(part) for part in zip(*memory, strict=True)]
        drawn = torch.randint(len(rows[0]), (samples,))
        state, action, after, reward, fell = (part[drawn] for part in rows)
        with torch.no_grad():
            told = target(after)
            best = model(after).argmax(1) if double else told.argmax(1)
            goal = reward + 0.99 * told.gather(1, best[:, None])[:, 0] * ~fell
        found = model(state).gather(1, action[:, None])
        loss = F.smooth_l1_loss(found, goal.unsqueeze(1))
        optimizer.zero_grad()
        model.monitor.log("loss", loss)
        loss.backward()
        model.monitor.track(step)
        nn.utils.clip_grad_value_(model.parameters(), 100)
        optimizer.step()
        with torch.no_grad():
            for old, new in zip(target.parameters(), model.parameters(), strict=True):
                old.lerp_(new, 0.005)
        yield model.monitor


class ActorCritic(nn.Module):
    """A policy and a value; over one trunk, or apart with orthogonal weights as in CleanRL."""

    def __init__(self, width: int, *, shared: bool) -> None:
        super().__init__()
        self.shared = shared

        def layers() -> nn.Sequential:
            return nn.Sequential(nn.Linear(4, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh())

        self.body = layers()
        self.other = nn.Identity() if shared else layers()
        self.actor, self.critic = nn.Linear(width, 2), nn.Linear(width, 1)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                gain = {self.actor: 0.01, self.critic: 1.0}.get(module, 2**0.5)
                nn.init.orthogonal_(module.weight, gain)
                nn.init.zeros_(module.bias)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Logits of (samples, 2) and values of (samples,)."""
        y = self.body(x)
        z = y if self.shared else self.other(x)
        return self.actor(y), self.critic(z).squeeze(1)


def rollout(model: Any, world: Poles, length: int) -> dict[str, Tensor]:
    """What happened in some steps of all worlds, with advantages by GAE."""
    seen: list[tuple[Tensor, ...]] = []
    with torch.no_grad():
        for _ in range(length):
            logits, value = model(world.state)
            policy, state = Categorical(logits=logits), world.state
            action = policy.sample()
            _, reward, fell = world.step(action)
            seen.append((state, action, policy.log_prob(action), reward, fell, value))
        _, after = model(world.state)
    states, actions, likely, rewards, falls, values = (
        torch.stack(part) for part in zip(*seen, strict=True)
    )
    gain, gains = torch.zeros_like(after), []
    for t in reversed(range(length)):
        alive = 1 - falls[t].float()
        error = rewards[t] + 0.99 * after * alive - values[t]
        gain, after = error + 0.99 * 0.95 * alive * gain, values[t]
        gains.insert(0, gain)
    advantages = torch.stack(gains)
    found = {
        "state": states,
        "action": actions,
        "likely": likely,
        "gain": advantages,
        "return": advantages + values,
    }
    return {name: part.flatten(0, 1) for name, part in found.items()}


@sound({}, {"shared": True}, {"width": 4, "minibatch": 4})
def ppo(width: int = 64, minibatch: int = 64, shared: bool = False) -> Iterator[Monitor]:
    """CleanRL's PPO: four passes over each rollout in minibatches, rates that fall to 0."""
    model: Any = ActorCritic(width, shared=shared)
    optimizer = torch.optim.Adam(model.parameters(), lr=2.5e-4, eps=1e-5)
    model, step, worlds = taiyi_fx.instrument(model, optimizer=optimizer), 0, Poles(8)
    for update in range(6):
        optimizer.param_groups[0]["lr"] = (1 - update / 6) * 2.5e-4
        seen = rollout(model, worlds, 32)
        for _ in range(4):
            for rows in torch.randperm(256)[: 12 * minibatch].split(minibatch):
                part = {name: values[rows] for name, values in seen.items()}
                logits, value = model(part["state"])
                policy = Categorical(logits=logits)
                ratio = (policy.log_prob(part["action"]) - part["likely"]).exp()
                gain = (part["gain"] - part["gain"].mean()) / (part["gain"].std() + 1e-8)
                of_policy = torch.max(-gain * ratio, -gain * ratio.clamp(0.8, 1.2)).mean()
                of_value = 0.5 * (value - part["return"]).square().mean()
                loss = of_policy - 0.01 * policy.entropy().mean() + 0.5 * of_value
                optimizer.zero_grad()
                model.monitor.log("policy_loss", of_policy)
                model.monitor.log("value_loss", of_value)
                model.monitor.log("loss", loss)
                loss.backward()
                model.monitor.track(step)
                nn.utils.clip_grad_norm_(model.parameters(), 0.5)
                optimizer.step()
                step += 1
                yield model.monitor


@sound({}, {"shared": False})
def a2c(shared: bool = True) -> Iterator[Monitor]:
    """Advantage actor-critic over one trunk, RMSprop, five steps of eight worlds each."""
    model: Any = ActorCritic(32, shared=shared)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=7e-4, alpha=0.99, eps=1e-5)
    model, worlds = taiyi_fx.instrument(model, optimizer=optimizer), Poles(8)
    for step in range(250):
        seen = rollout(model, worlds, 5)
        logits, value = model(seen["state"])
        policy = Categorical(logits=logits)
        of_policy = -(policy.log_prob(seen["action"]) * seen["gain"]).mean()
        of_value = F.mse_loss(value, seen["return"])
        loss = of_policy + 0.5 * of_value - 0.01 * policy.entropy().mean()
        optimizer.zero_grad()
        model.monitor.log("loss", loss)
        loss.backward()
        model.monitor.track(step)
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        yield model.monitor


@sound()
def reinforce() -> Iterator[Monitor]:
    """PyTorch's example reinforce.py: an episode a step, returns that are normed."""
    model: Any = nn.Sequential(nn.Linear(4, 64), nn.Dropout(0.6), nn.ReLU(), nn.Linear(64, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    for step in range(120):
        world, likely, fell = Poles(1), [], torch.tensor([False])
        while not fell and len(likely) < 60:
            policy = Categorical(logits=model(world.state))
            action = policy.sample()
            likely.append(policy.log_prob(action))
            _, _, fell = world.step(action)
        returns, value = [], 0.0
        for _ in likely:
            value = 1 + 0.99 * value
            returns.insert(0, value)
        gains = torch.tensor(returns)
        gains = (gains - gains.mean()) / (gains.std() + 1e-6)
        loss = -(torch.cat(likely) * gains).sum()
        optimizer.zero_grad()
        model.monitor.log("loss", loss)
        loss.backward()
        model.monitor.track(step)
        optimizer.step()
        yield model.monitor


def layers(inputs: int, outputs: int, width: int = 64) -> nn.Sequential:
    """Two hidden layers with ReLUs."""
    return nn.Sequential(
        nn.Linear(inputs, width),
        nn.ReLU(),
        nn.Linear(width, width),
        nn.ReLU(),
        nn.Linear(width, outputs),
    )


class Agent(nn.Module):
    """SAC's actor, both critics, and the logarithm of its temperature."""

    def __init__(self) -> None:
        super().__init__()
        self.actor = layers(3, 2)
        self.critics = nn.ModuleList(layers(4, 1) for _ in range(2))
        self.targets = copy.deepcopy(self.critics).requires_grad_(False)
        self.log_alpha = nn.Parameter(torch.zeros(()))

    def act(self, state: Tensor) -> tuple[Tensor, Tensor]:
        """Actions, and the logarithm of their likelihood."""
        mean, spread = self.actor(state).chunk(2, 1)
        policy = Normal(mean, spread.clamp(-5, 2).exp())
        raw = policy.rsample()
        likely = policy.log_prob(raw) - torch.log(1 - raw.tanh().square() + 1e-6)
        return raw.tanh(), likely

    def values(self, critics: Any, state: Tensor, action: Tensor) -> Tensor:
        """Of (2, samples, 1)."""
        both = torch.cat([state, action], 1)
        return torch.stack([critic(both) for critic in critics])


@sound({}, {"samples": 16})
def soft_actor_critic(samples: int = 64) -> Iterator[Monitor]:
    """SAC with three optimizers, twin critics, their targets and a temperature that is learnt."""
    model: Any = Agent()
    optimizers = {
        "actor": torch.optim.Adam(model.actor.parameters(), lr=3e-4),
        "critics": torch.optim.Adam(model.critics.parameters(), lr=1e-3),
        "alpha": torch.optim.Adam([model.log_alpha], lr=3e-4),
    }
    model = taiyi_fx.instrument(model, optimizer=list(optimizers.values()))
    monitor = model.monitor
    for step in range(200):
        state, action = torch.randn(samples, 3), 2 * torch.rand(samples, 1) - 1
        after = 0.8 * state + 0.3 * action + 0.05 * torch.randn(samples, 3)
        reward = -after.square().mean(1, keepdim=True) - 0.1 * action.square()
        with monitor.reading():
            with torch.no_grad():
                then, likely = model.act(after)
                told = model.values(model.targets, after, then).amin(0)
                goal = reward + 0.95 * (told - model.log_alpha.exp() * likely)
            of_critics = (model.values(model.critics, state, action) - goal).square().mean()
            optimizers["critics"].zero_grad()
            monitor.log("critic_loss", of_critics)
            of_critics.backward()
            model.critics.requires_grad_(False)
            tried, likely = model.act(state)
            best = model.values(model.critics, state, tried).amin(0)
            of_actor = (model.log_alpha.exp().detach() * likely - best).mean()
            optimizers["actor"].zero_grad()
            monitor.log("actor_loss", of_actor)
            of_actor.backward()
            model.critics.requires_grad_(True)
        of_alpha = -(model.log_alpha * (likely.detach() - 1.0)).mean()
        optimizers["alpha"].zero_grad()
        of_alpha.backward()
        monitor.track(step)
        for optimizer in optimizers.values():
            optimizer.step()
        with torch.no_grad():
            pairs = zip(model.targets.parameters(), model.critics.parameters(), strict=True)
            for old, new in pairs:
                old.lerp_(new, 0.005)
        yield monitor


@sound({}, {"samples": 7, "is_sure": False})
def behaviour_cloning(samples: int = 64, is_sure: bool = True) -> Iterator[Monitor]:
    """What an expert does, by a squared error, or by a Gaussian's likelihood with one spread."""
    model: Any = layers(6, 2)
    model.log_std = nn.Parameter(torch.zeros(2))
    if is_sure:
        del model.log_std
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    weights = torch.randn(6, 2) / 6**0.5
    for step in range(250):
        state = torch.randn(samples, 6)
        action = torch.tanh(state @ weights) + 0.05 * torch.randn(samples, 2)
        mean = model(state)
        if is_sure:
            loss = F.mse_loss(mean, action)
        else:
            loss = -Normal(mean, model.log_std.exp()).log_prob(action).sum(1).mean()
        optimizer.zero_grad()
        model.monitor.log("loss", loss)
        loss.backward()
        model.monitor.track(step)
        optimizer.step()
        yield model.monitor


@sound({}, {"second_order": True})
def maml(second_order: bool = False) -> Iterator[Monitor]:
    """Sines of many tasks: the loss after a step of its own for each (arXiv 1703.03400)."""
    model: Any = nn.Sequential(
        nn.Linear(1, 40), nn.ReLU(), nn.Linear(40, 40), nn.ReLU(), nn.Linear(40, 1)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    for step in range(120):
        losses = []
        for _ in range(4):
            height, phase = 1 + torch.rand(()), 3.14 * torch.rand(())
            x = 10 * torch.rand(20, 1) - 5
            y = height * torch.sin(x + phase)
            weights = dict(model.named_parameters())
            inner = F.mse_loss(torch.func.functional_call(model, weights, (x[:10],)), y[:10])
            found = torch.autograd.grad(inner, [*weights.values()], create_graph=second_order)
            fast = {n: w - 0.01 * g for (n, w), g in zip(weights.items(), found, strict=True)}
            losses.append(F.mse_loss(torch.func.functional_call(model, fast, (x[10:],)), y[10:]))
        loss = torch.stack(losses).mean()
        optimizer.zero_grad()
        model.monitor.log("loss", loss)
        loss.backward()
        model.monitor.track(step)
        optimizer.step()
        yield model.monitor
