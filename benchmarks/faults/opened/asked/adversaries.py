"""Faults of two players of one game: who gets which gradient, and for which label."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.faults.fault import WHOLE, fault
from benchmarks.faults.training import Training

binary = F.binary_cross_entropy_with_logits
GAME = "loss|discriminator|critic|generator|adversar|balance|collapse|plateau"


def _parts(model: nn.Module) -> tuple[nn.Module, nn.Module]:
    return model.get_submodule("generator"), model.get_submodule("discriminator")


def _of_discriminator(model: nn.Module, judged: Tensor, real: int, false: float = 0.0) -> Tensor:
    """Backward of the discriminator's loss."""
    truth = torch.full_like(judged, false)
    truth[:real] = 1
    loss = binary(judged, truth)
    loss.backward(inputs=[*_parts(model)[1].parameters()], retain_graph=True)
    return loss


@fault("gan", WHOLE, "discriminator*", kinds="sigmoid|saturat|logit|" + GAME)
def sigmoid_behind_the_discriminator(t: Training) -> None:
    """Ends the discriminator with a sigmoid, and trains it by a loss of logits."""
    t.model.get_submodule("discriminator").add_module("5", nn.Sigmoid())


@fault("gan", "generator*", kinds="gradient|update|detach|zero|frozen|" + GAME)
def verdict_that_is_detached(t: Training) -> None:
    """Detaches the verdict in the generator's loss, too, which then changes nothing."""

    def backward(model: nn.Module, noise: Tensor, real: Tensor) -> Tensor:
        judged, fooled = model(noise, real)
        of_generator = binary(fooled, torch.ones_like(fooled)).item()
        return _of_discriminator(model, judged, len(real)).detach() + of_generator

    t.backward = backward


@fault("gan", WHOLE, "discriminator*", "generator*", kinds="label|saturat|constant|" + GAME)
def false_samples_labelled_as_real(t: Training) -> None:
    """Gives the discriminator ones for all samples, as the generator's loss has them."""

    def backward(model: nn.Module, noise: Tensor, real: Tensor) -> Tensor:
        judged, fooled = model(noise, real)
        of_discriminator = _of_discriminator(model, judged, len(real), false=1.0)
        of_generator = binary(fooled, torch.ones_like(fooled))
        of_generator.backward(inputs=[*_parts(model)[0].parameters()])
        return of_discriminator + of_generator

    t.backward = backward


@fault("gan", WHOLE, "discriminator*", kinds="accumul|zero|gradient|saturat|" + GAME)
def discriminator_not_cleared(t: Training) -> None:
    """Leaves what the generator's loss gave the discriminator in its gradients."""

    def backward(model: nn.Module, noise: Tensor, real: Tensor) -> Tensor:
        judged, fooled = model(noise, real)
        of_discriminator = _of_discriminator(model, judged, len(real))
        of_generator = binary(fooled, torch.ones_like(fooled))
        of_generator.backward()
        return of_discriminator + of_generator

    t.backward = backward


Penalty = Callable[[nn.Module, Tensor, Tensor], Tensor]


def penalty(critic: nn.Module, real: Tensor, false: Tensor) -> Tensor:
    """How far the slopes of a critic are from one, between real and false samples."""
    return (_slopes(critic, real, false, is_learned=True).norm(dim=1) - 1).square().mean()


def _slopes(critic: nn.Module, real: Tensor, false: Tensor, *, is_learned: bool) -> Tensor:
    share = torch.rand(len(real), 1)
    between = (share * real + (1 - share) * false).requires_grad_()
    return torch.autograd.grad(critic(between).sum(), between, create_graph=is_learned)[0]


def critic_with_penalty(t: Training, penalty: Penalty = penalty, weight: float = 10.0) -> None:
    """Trains a critic that is held to slopes of one, and a generator.

    Args:
        t: Is changed.
        penalty: Of the critic, real and false samples.
        weight: Of the penalty.
    """

    def backward(model: nn.Module, noise: Tensor, real: Tensor) -> Tensor:
        judged, fooled = model(noise, real)
        generator, critic = _parts(model)
        true, false = judged.chunk(2)
        loss = false.mean() - true.mean()
        held = loss + weight * penalty(critic, real, generator(noise).detach())
        held.backward(inputs=[*critic.parameters()], retain_graph=True)
        (-fooled.mean()).backward(inputs=[*generator.parameters()])
        return held

    t.backward = backward
    t.optimizer = torch.optim.Adam(t.model.parameters(), lr=1e-3, betas=(0.0, 0.9))
    t.steps = 150


@fault("gan", WHOLE, "discriminator*", kinds="penalty|explod|diverg|grow|large|" + GAME)
def penalty_without_a_graph(t: Training) -> None:
    """Computes the gradient for a penalty without create_graph, so that it teaches nothing."""

    def constant(critic: nn.Module, real: Tensor, false: Tensor) -> Tensor:
        return (_slopes(critic, real, false, is_learned=False).norm(dim=1) - 1).square().mean()

    critic_with_penalty(t, penalty=constant)


@fault("gan", WHOLE, "discriminator*", kinds="penalty|explod|diverg|grow|large|" + GAME)
def penalty_on_each_coordinate(t: Training) -> None:
    """Takes the length of each coordinate of a slope by itself."""

    def apart(critic: nn.Module, real: Tensor, false: Tensor) -> Tensor:
        slopes = _slopes(critic, real, false, is_learned=True)
        return (slopes.unsqueeze(1).norm(dim=1) - 1).square().mean()

    critic_with_penalty(t, penalty=apart)


@fault("gan", "discriminator*", WHOLE, kinds="softmax|constant|zero|gradient|dead|" + GAME)
def softmax_behind_the_critic(t: Training) -> None:
    """Takes a network with a softmax for the critic, whose one score is then always one."""
    critic_with_penalty(t)
    t.model.get_submodule("discriminator").add_module("5", nn.Softmax(-1))
