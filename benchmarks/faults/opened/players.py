"""Games of which one player is given what it should not have."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.faults.changes import change_class
from benchmarks.faults.fault import WHOLE, fault
from benchmarks.faults.training import Training


def _fool(fooled: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(fooled, torch.ones_like(fooled))


@fault("gan", "discriminator.*", WHOLE)
def judge_that_sees_no_real_points(t: Training) -> None:
    """A discriminator that may call all false: the generator can never win."""

    def backward(model: Any, noise: Tensor, real: Tensor) -> Tensor:
        judged, fooled = model(noise, real)
        false = judged[len(real) :]
        of_discriminator = F.binary_cross_entropy_with_logits(false, torch.zeros_like(false))
        of_generator = _fool(fooled)
        judge, generator = model.discriminator.parameters(), model.generator.parameters()
        of_discriminator.backward(inputs=[*judge], retain_graph=True)
        of_generator.backward(inputs=[*generator])
        return of_discriminator + of_generator

    t.backward = backward


@fault("gan", "{first}", WHOLE, kinds="input|rank")
def noise_that_is_one_point(t: Training) -> None:
    """A generator that is given one row of noise many times."""
    t.change_batch(lambda step, noise, real: (noise[:1].expand_as(noise), real))


@fault("gan", "discriminator.*", WHOLE)
def judge_that_is_trained_to_be_fooled(t: Training) -> None:
    """The generator's gradient stays in the discriminator, which steps with both."""

    def backward(model: Any, noise: Tensor, real: Tensor) -> Tensor:
        judged, fooled = model(noise, real)
        truth = torch.cat([torch.ones(len(real), 1), torch.zeros(len(noise), 1)])
        loss = F.binary_cross_entropy_with_logits(judged, truth) + _fool(fooled)
        loss.backward()
        return loss

    t.backward = backward


def _judge(t: Training, of_generator: Any) -> None:
    """Has a function of the logits of false points make the generator's loss."""

    def backward(model: Any, noise: Tensor, real: Tensor) -> Tensor:
        judged, fooled = model(noise, real)
        truth = torch.cat([torch.ones(len(real), 1), torch.zeros(len(noise), 1)])
        of_judge = F.binary_cross_entropy_with_logits(judged, truth)
        of_judge.backward(inputs=[*model.discriminator.parameters()], retain_graph=True)
        loss = of_generator(fooled)
        loss.backward(inputs=[*model.generator.parameters()])
        return of_judge + loss

    t.backward = backward


@fault("gan", "generator.*", WHOLE)
def generator_that_wants_to_be_found_out(t: Training) -> None:
    """Targets of zeros for the generator too, which then helps the discriminator."""
    _judge(t, lambda z: F.binary_cross_entropy_with_logits(z, torch.zeros_like(z)))
    t.steps = 200


@fault("gan", "generator.*", WHOLE, kinds="unbounded_loss|divergence")
def generator_that_wants_logits_without_end(t: Training) -> None:
    """The loss of another kind of GAN for one of both players: its scale has no bound."""
    _judge(t, lambda z: -z.exp().mean())


@fault("gan", "generator.*", kinds="squash")
def generator_that_ends_in_a_sigmoid(t: Training) -> None:
    """Samples between 0 and 1, for real ones between -1 and 1."""
    change_class(t.model.get_submodule("generator"), lambda self, old, x: old(x).sigmoid())
    t.steps = 200


@fault("gan", "discriminator.*")
def judge_that_rarely_learns(t: Training) -> None:
    """Turns counted the wrong way round: one of the discriminator's for 40 of the generator's."""
    weights = [*t.model.get_submodule("discriminator").parameters()]
    calls = [0]
    t.before_step.append(lambda step: calls.__setitem__(0, step))
    for weight in weights:
        weight.register_hook(lambda g: g if calls[0] % 40 == 39 else None)
        weight.register_hook(lambda g: torch.zeros_like(g) if calls[0] % 40 != 39 else None)
    t.steps = 200


@fault("gan", "generator.*", kinds="zero_gradient|no_update|missing_gradient")
def gradients_of_one_player_cleared_by_the_other(t: Training) -> None:
    """The discriminator's turn begins by clearing all gradients, those of the generator too."""
    before = t.backward

    def backward(model: Any, noise: Tensor, real: Tensor) -> Tensor:
        loss = before(model, noise, real)
        for parameter in model.generator.parameters():
            parameter.grad.zero_()
        return loss

    t.backward = backward


@fault("gan", "discriminator.1", "discriminator.3", "discriminator.*")
def judge_of_straight_lines(t: Training) -> None:
    """Slopes of 1 below zero as above: the discriminator can only tell two half-planes apart."""
    for name in ("discriminator.1", "discriminator.3"):
        t.model.get_submodule(name).negative_slope = 1.0  # pyright: ignore
    t.steps = 250


@fault("gan", "generator.*", WHOLE, kinds="wild|large|drift")
def false_points_pulled_apart_without_end(t: Training) -> None:
    """A reward for points that are far from each other, which outweighs all else."""

    def backward(model: Any, noise: Tensor, real: Tensor) -> Tensor:
        judged, fooled = model(noise, real)
        truth = torch.cat([torch.ones(len(real), 1), torch.zeros(len(noise), 1)])
        of_judge = F.binary_cross_entropy_with_logits(judged, truth)
        of_judge.backward(inputs=[*model.discriminator.parameters()], retain_graph=True)
        loss = F.softplus(-fooled).mean() - 100 * model.generator(noise).var(0).sum()
        loss.backward(inputs=[*model.generator.parameters()])
        return of_judge + loss

    t.backward = backward


@fault("gan", "{first}", WHOLE, kinds="input")
def noise_that_is_whole_numbers_times_fifty(t: Training) -> None:
    """Noise of a generator that is drawn as bytes are, and never scaled."""
    t.change_batch(lambda step, noise, real: (50 * noise.round(), real))


@fault("gan", "discriminator.*", WHOLE, kinds="input")
def real_points_in_other_units(t: Training) -> None:
    """Real samples a hundred times as large as anything the generator makes."""
    t.change_batch(lambda step, noise, real: (noise, 100 * real))


@fault("gan", "discriminator.*", WHOLE, kinds="input|rank")
def real_points_of_one_sample(t: Training) -> None:
    """A loader that gives the same real sample all the time."""
    t.change_batch(lambda step, noise, real: (noise, torch.ones_like(real)))
