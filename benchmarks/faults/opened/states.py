"""Optimizers, schedules and scalers: what they hold, and what they forget."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.faults.changes import rate, set_all
from benchmarks.faults.fault import WHOLE, fault
from benchmarks.faults.training import Training

_STALL = "small_steps|plateau|no_update|stopped"
_BLOWN_UP = "large_steps|divergence|loss_spike|odd_rate"


@fault("cnn mlp-tanh", WHOLE, kinds=_STALL + "|odd_setting")
def dampening_of_one(t: Training) -> None:
    """SGD that adds nothing of a gradient to its velocity but at the first step."""
    set_all(t, dampening=1.0, weight_decay=0.0)


@fault("lstm gpt", WHOLE, kinds=_STALL + "|loss_spike")
def amsgrad_that_remembers_one_bad_batch(t: Training) -> None:
    """Largest second moments, after gradients that were ten thousand times too large once."""
    t.optimizer = torch.optim.AdamW(t.model.parameters(), lr=rate(t), amsgrad=True)
    now = [0]
    t.before_step.append(lambda step: now.__setitem__(0, step))
    for parameter in t.model.parameters():
        parameter.register_hook(lambda g: 1e4 * g if now[0] == 8 else g)


@fault("lstm", WHOLE, kinds=_STALL)
def accumulator_that_begins_full(t: Training) -> None:
    """Adagrad whose sums of squares begin at a million."""
    t.optimizer = torch.optim.Adagrad(t.model.parameters(), 0.02, initial_accumulator_value=1e6)


@fault("cnn lstm", WHOLE, kinds=_STALL)
def rate_cut_whenever_the_loss_falls(t: Training) -> None:
    """A schedule that watches a loss as if it were an accuracy, and cuts while all goes well."""
    t.schedule = lambda step: 0.1 ** (step // 4)


@fault("mlp", "{late}")
def hook_that_is_registered_at_each_step(t: Training) -> None:
    """A hook that makes a gradient a little larger, one more of it at each step."""
    named = t.module("late").named_parameters()
    weights = [parameter for name, parameter in named if name.startswith("weight")]
    t.each_step(lambda: [w.register_hook(lambda gradient: 1.2 * gradient) for w in weights])


@fault("lstm", WHOLE, kinds="drift|decay|zero_weight|plateau")
def sparsity_that_leaves_nothing(t: Training) -> None:
    """A sum of all sizes of weights, a thousand times heavier than was meant."""

    def backward(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        loss = F.cross_entropy(model(x).flatten(0, -2), y.flatten())
        loss = loss + 0.3 * sum(p.abs().sum() for p in t.model.parameters())
        loss.backward()
        return loss

    t.backward = backward


@fault("mlp", WHOLE, kinds=_STALL + "|zero_gradient|underflow")
def scale_of_a_billionth(t: Training) -> None:
    """A scaler whose scale leaves float16 nothing of any gradient."""
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**-30, growth_interval=10**6)
    t.autocast, t.scaler = True, scaler

    def backward(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        loss = F.cross_entropy(model(x).flatten(0, -2).float(), y.flatten())
        scaler.scale(loss).backward()
        return loss

    t.backward = backward


@fault("lstm", WHOLE, kinds=_STALL)
def updates_that_bfloat16_rounds_away(t: Training) -> None:
    """Weights in bfloat16 at a rate whose steps are less than half of what they can show."""
    t.model.bfloat16()
    t.optimizer = torch.optim.AdamW(t.model.parameters(), lr=2e-5)


@fault("mlp-tanh lstm", WHOLE, kinds="weight_jump|loss_spike|large_steps|divergence|rate")
def search_for_the_rate_that_goes_on(t: Training) -> None:
    """A schedule for finding a rate, from a thousandth to two thousand times, left in."""
    t.schedule = lambda step: 1e-3 * 1.16**step


@fault("cnn", WHOLE, kinds="large_steps|divergence|loss_spike|odd_setting")
def velocity_that_grows_with_each_copy(t: Training) -> None:
    """Velocities that are loaded anew every tenth step, 30 times as large."""

    def load(step: int) -> None:
        for state in t.optimizer.state.values():
            if step % 10 == 9 and state.get("momentum_buffer") is not None:
                state["momentum_buffer"] *= 30

    t.before_step.append(load)


@fault("lstm", WHOLE, kinds=_STALL + "|state")
def state_of_a_longer_training(t: Training) -> None:
    """A state of another training, whose second moments are those of far larger gradients."""
    for parameter in t.model.parameters():
        t.optimizer.state[parameter] = {
            "step": torch.tensor(5000.0),
            "exp_avg": torch.zeros_like(parameter),
            "exp_avg_sq": torch.full_like(parameter, 1e8),
        }
