"""More faults of functions, layers and gradients."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.faults.changes import change_class, set_all
from benchmarks.faults.fault import WHOLE, fault
from benchmarks.faults.training import Training


def _stage(t: Training) -> int:
    return int(t.names["stage"].rpartition(".")[2])


def _between(t: Training, change) -> None:
    t.model.between = lambda i, x: change(x) if i == _stage(t) else x


@fault("mlp cnn gpt", "{stage}*", "{next}*")
def noise_between(t: Training) -> None:
    """Noise between two stages that drowns what passes."""
    _between(t, lambda x: x + 10 * torch.randn_like(x))


@fault("mlp cnn gpt", "{stage}*", "{next}*")
def mean_of_the_batch_between(t: Training) -> None:
    """A mean over the batch, where one over features was meant."""
    _between(t, lambda x: x.mean(0, keepdim=True).expand_as(x))


@fault("mlp cnn gpt", "{stage}*", "{next}*")
def divided_by_its_smallest(t: Training) -> None:
    """A division by what may be nearly zero."""
    _between(t, lambda x: x / x.abs().amin(-1, keepdim=True).clamp(min=1e-6))


@fault("mlp cnn gpt", "{stage}*", "{next}*")
def squared_three_times_between(t: Training) -> None:
    """A power where there should be none."""
    _between(t, lambda x: (x**8).clamp(max=1e6))


@fault("mlp cnn gpt", "{stage}*", "{next}*")
def rounded_between(t: Training) -> None:
    """A rounding, which passes no gradient."""
    _between(t, torch.round)


@fault("mlp cnn gpt", "{last}")
def relu_behind_the_head(t: Training) -> None:
    """Logits that cannot be negative."""
    change_class(t.module("last"), lambda self, old, x: F.relu(old(x) - 2))


@fault("cnn gpt", "{norm}", "{stage}*", "{next}*")
def norm_left_out(t: Training) -> None:
    """A norm that passes what it is given, a hundred times as large."""
    change_class(t.module("norm"), lambda self, old, x: 100 * x)


@fault("mlp cnn gpt", "{act}", "{stage}*", "{next}*")
def exponential_as_activation(t: Training) -> None:
    """An exponential in place of an activation."""
    change_class(t.module("act"), lambda self, old, x: (3 * x).clamp(max=20).exp())


@fault("mlp cnn gpt", "{middle}")
def gradient_of_zero_by_a_hook(t: Training) -> None:
    """A hook that returns a gradient of nothing."""
    t.module("middle").weight.register_hook(lambda g: g * 0)


@fault("mlp cnn gpt", "{middle}")
def noise_in_the_gradient(t: Training) -> None:
    """Noise that something adds to the gradient of one weight."""
    t.module("middle").weight.register_hook(lambda g: g + torch.randn_like(g) * g.std() * 5)


@fault("mlp cnn gpt", "{middle}")
def gradient_clamped_to_nothing(t: Training) -> None:
    """A clamp of the gradient of one weight that leaves nothing."""
    t.module("middle").weight.register_hook(lambda g: g.clamp(-1e-9, 1e-9))


@fault("mlp cnn gpt lstm", WHOLE, kinds="large_steps|divergence|loss|weight_jump|non_finite")
def rate_that_rises_each_step(t: Training) -> None:
    """A learning rate that grows by a tenth at each step."""
    t.schedule = lambda step: 1.12**step


@fault("mlp cnn gpt lstm", WHOLE, kinds="large_steps|divergence|loss|non_finite")
def rate_wild_for_three_steps(t: Training) -> None:
    """A learning rate that is 300 times too large at three steps."""
    t.schedule = lambda step: 300.0 if 50 <= step < 53 else 1.0


@fault("mlp cnn gpt lstm", WHOLE, kinds="no_update|small_steps|stopped|plateau")
def rate_of_zero_from_step_10(t: Training) -> None:
    """A schedule that ends far too early."""
    t.schedule = lambda step: 1.0 if step < 10 else 0.0


@fault("mlp cnn gpt lstm", WHOLE, kinds="no_update|small_steps|plateau|zero_gradient")
def loss_times_zero(t: Training) -> None:
    """A loss whose weight is zero."""

    def backward(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        loss = F.cross_entropy(model(x).flatten(0, -2), y.flatten())
        (0 * loss).backward()
        return loss

    t.backward = backward


@fault("mlp cnn gpt lstm", WHOLE, kinds="drift|growth|decay|divergence|large_steps|non_finite")
def weight_decay_of_the_wrong_sign(t: Training) -> None:
    """Weights that grow by themselves."""
    set_all(t, weight_decay=-0.05 / float(t.optimizer.param_groups[0]["lr"]))


@fault("mlp cnn", "{middle}", "{after}")
def weights_swapped_at_step_50(t: Training) -> None:
    """Weights that were loaded into the wrong layers while training goes on."""
    one, other = t.module("middle").weight, t.module("after").weight

    @torch.no_grad()
    def load() -> None:
        one.copy_(torch.randn_like(one) * one.std())
        other.copy_(torch.randn_like(other) * other.std())

    t.at(50, load)


@fault("mlp cnn gpt", "{middle}")
def weights_rounded_each_step(t: Training) -> None:
    """A weight that is rounded to tenths at each step."""
    weight = t.module("middle").weight

    @torch.no_grad()
    def round_() -> None:
        weight.copy_((weight * 3).round() / 3)

    t.each_step(round_)


@fault("mlp gpt lstm", "{middle}")
def bias_that_grows(t: Training) -> None:
    """A bias that something adds to at each step."""
    bias = t.module("middle")
    bias = bias.bias if isinstance(bias.bias, Tensor) else bias.get_parameter("bias_ih_l0")

    @torch.no_grad()
    def grow() -> None:
        bias.add_(0.5)

    t.each_step(grow)


@fault("gpt lstm", "{first}")
def one_row_of_the_embedding_of_nan(t: Training) -> None:
    """One token whose row is not a number."""
    with torch.no_grad():
        t.module("first").weight[3 if t.names["middle"] == "lstm" else 101] = float("nan")


@fault("mlp cnn", WHOLE, "{first}", kinds="input|plateau|rank")
def rows_that_are_all_equal(t: Training) -> None:
    """A batch of one sample, many times."""
    t.change_batch(lambda step, x, y: (x[:1].expand_as(x), y))


@fault("mlp cnn gpt", WHOLE, kinds="non_finite|loss")
def loss_of_infinity(t: Training) -> None:
    """A loss that is infinite at one step."""
    step = [0]
    t.before_step.append(lambda now: step.__setitem__(0, now))

    def backward(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        loss = F.cross_entropy(model(x).flatten(0, -2), y.flatten())
        loss = loss * (float("inf") if step[0] == 40 else 1.0)
        loss.backward()
        return loss

    t.backward = backward


@fault("mlp cnn", WHOLE, kinds="large_steps|divergence|loss|non_finite")
def loss_times_1000(t: Training) -> None:
    """A loss that is scaled up for another reason, and never down."""

    def backward(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        loss = F.cross_entropy(model(x).flatten(0, -2), y.flatten())
        (1000 * loss).backward()
        return loss

    t.backward = backward


@fault("gan", "generator*")
def generator_of_one_point(t: Training) -> None:
    """A generator that makes the same point of any noise."""
    with torch.no_grad():
        t.model.get_submodule("generator.0").weight.zero_()
    t.model.get_submodule("generator.0").weight.requires_grad_(False)


@fault("gan", "generator*", kinds="gradient")
def generator_far_away(t: Training) -> None:
    """A generator whose points are a thousand times too far out."""
    change_class(t.model.get_submodule("generator"), lambda self, old, x: 1000 * old(x))


@fault("gan", "discriminator*", kinds="gradient|plateau")
def discriminator_of_zero(t: Training) -> None:
    """A discriminator whose last layer is zero and never learns."""
    last = t.model.get_submodule("discriminator.4")
    nn.init.zeros_(last.weight)
    last.requires_grad_(False)


@fault("lstm", "{middle}")
def states_that_are_reset(t: Training) -> None:
    """A forget gate that is shut, so that nothing is remembered."""
    nn.init.constant_(t.module("middle").get_parameter("bias_hh_l0").data[32:64], -30.0)


@fault("gpt", "{stage}*", "{next}*")
def residual_added_twice(t: Training) -> None:
    """A block that doubles its input, ten times over."""
    change_class(t.module("stage"), lambda self, old, x: old(x) + 10 * x)


@fault("cnn", "{norm}")
def batch_norm_of_a_fixed_gain(t: Training) -> None:
    """A gain of a BatchNorm a hundred times too large."""
    nn.init.constant_(t.module("norm").weight, 100.0)
