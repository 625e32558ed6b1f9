"""Faults of models that make samples: of their latents, their codes and their noise."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.faults.changes import change_class
from benchmarks.faults.fault import WHOLE, fault
from benchmarks.faults.opened.asked.small_tasks import begin, perceptron
from benchmarks.faults.training import Training

LATENT = "loss|collapse|latent|kl|posterior|noise|vanish|unused|constant|plateau"


class Variational(nn.Module):
    """An encoder to a mean and a variance of each latent, and a decoder."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 64), nn.ReLU())
        self.mean, self.variance = nn.Linear(64, 8), nn.Linear(64, 8)
        self.decoder = perceptron(8, 64, 64)
        self.share = 0.5

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Images as rows, and means and logarithms of variances of the latents."""
        x = self.encoder(x.flatten(1))
        mean, variance = self.mean(x), self.variance(x)
        z = mean + (self.share * variance).exp() * torch.randn_like(mean)
        return self.decoder(z), mean, variance


Bound = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


def divergence(mean: Tensor, variance: Tensor) -> Tensor:
    """That of each latent of each sample from a normal one."""
    return 0.5 * (mean.square() + variance.exp() - 1 - variance)


def bound(x: Tensor, found: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
    """The error of a sample and the divergence of its latents, with sums over both."""
    return F.mse_loss(found, x, reduction="sum") / len(x) + divergence(mean, variance).sum(1).mean()


def variational(t: Training, bound: Bound = bound) -> None:
    """Trains a variational autoencoder of digits.

    Args:
        t: Is changed.
        bound: Of samples, what is found, and means and logarithms of variances.
    """

    def backward(model: nn.Module, x: Tensor, _: Tensor) -> Tensor:
        loss = bound(x.flatten(1), *model(x))
        loss.backward()
        return loss / 64

    begin(t, Variational(), backward, 3e-3)


@fault("cnn", WHOLE, "mean", "variance", kinds=LATENT)
def sum_of_divergences_and_mean_of_errors(t: Training) -> None:
    """Sums the divergence over the batch, and takes the mean of errors over pixels."""

    def unbalanced(x: Tensor, found: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        return 64 * (F.mse_loss(found, x) + divergence(mean, variance).sum())

    variational(t, bound=unbalanced)


@fault("cnn", WHOLE, "mean", "variance", kinds=LATENT)
def mean_of_divergences(t: Training) -> None:
    """Takes the mean of the divergence over latents, and of errors over pixels, times ten."""

    def light(x: Tensor, found: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        return 64 * (F.mse_loss(found, x) + 10 * divergence(mean, variance).mean())

    variational(t, bound=light)


@fault("cnn", WHOLE, "variance", "mean", kinds=LATENT)
def deviation_that_is_the_variance(t: Training) -> None:
    """Draws with the exponential of a logarithm of a variance, without the half."""
    variational(t)
    model: Any = t.model
    model.share = 1.0


@fault("cnn", "variance", WHOLE, kinds="relu|softplus|dead|" + LATENT)
def logarithm_that_is_never_negative(t: Training) -> None:
    """Puts a softplus behind the logarithm of the variance, which is thus above one."""
    variational(t)
    model: Any = t.model
    model.variance = nn.Sequential(model.variance, nn.Softplus())


@fault("cnn", WHOLE, "variance", "mean", kinds=LATENT)
def noise_of_a_hundredth(t: Training) -> None:
    """Draws latents with a hundredth of the deviation that the bound reckons with."""
    variational(t)

    def forward(model: Any, _: Any, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x = model.encoder(x.flatten(1))
        mean, variance = model.mean(x), model.variance(x)
        z = mean + (0.5 * variance).exp() * 0.01 * torch.randn_like(mean)
        return model.decoder(z), mean, variance

    change_class(t.model, forward)


class Quantised(nn.Module):
    """An encoder whose output is replaced by the nearest of some codes, and a decoder."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = perceptron(64, 64, 32), perceptron(32, 64, 64)
        self.codes = nn.Embedding(32, 8)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Images as rows; what was encoded, its codes, and these with the gradient of the first."""
        encoded = self.encoder(x.flatten(1)).view(-1, 8)
        nearest = torch.cdist(encoded.detach(), self.codes.weight.detach()).argmin(1)
        codes = self.codes(nearest)
        passed = encoded + (codes - encoded).detach()
        return self.decoder(passed.view(len(x), -1)), encoded, codes, passed


def quantised(t: Training, *, is_passed: bool = False, is_swapped: bool = False) -> None:
    """Trains an autoencoder of digits with a codebook.

    Args:
        t: Is changed.
        is_passed: Whether the codebook's loss is of what is passed on.
        is_swapped: Whether each of the losses of codes teaches what the other should.
    """

    def backward(model: nn.Module, x: Tensor, _: Tensor) -> Tensor:
        found, encoded, codes, passed = model(x)
        looked_up = passed if is_passed else codes
        to_codes = F.mse_loss(looked_up, encoded.detach())
        to_encoder = F.mse_loss(encoded, codes.detach())
        of_codes, of_encoder = (0.25, 1.0) if is_swapped else (1.0, 0.25)
        loss = F.mse_loss(found, x.flatten(1)) + of_codes * to_codes + of_encoder * to_encoder
        loss.backward()
        return loss

    begin(t, Quantised(), backward, 3e-3)
    t.steps = 150


@fault("cnn", "codes", WHOLE, kinds="embedding|code|gradient|update|zero|detach|unused|frozen")
def codebook_loss_of_what_is_passed_on(t: Training) -> None:
    """Computes the loss of the codebook from what has the encoder's gradient."""
    quantised(t, is_passed=True)


@fault("cnn", WHOLE, "codes", "encoder*", kinds="embedding|code|loss|collapse|commit|weight")
def weight_on_the_other_loss_of_codes(t: Training) -> None:
    """Detaches the other side in both losses of codes, so that each has the other's weight."""
    quantised(t, is_swapped=True)


class Denoiser(nn.Module):
    """Tells the noise in points of the plane, by how far they are diffused."""

    def __init__(self) -> None:
        super().__init__()
        self.time, self.net = nn.Embedding(50, 32), perceptron(34, 64, 64, 2)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        """The noise in points of (batch, 2)."""
        return self.net(torch.cat([x, self.time(time)], 1))


Mix = Callable[[Tensor, Tensor, Tensor], Tensor]


def mix(x: Tensor, noise: Tensor, kept: Tensor) -> Tensor:
    """Points of which a share of the variance is kept."""
    return kept.sqrt() * x + (1 - kept).sqrt() * noise


def diffusion(t: Training, mix: Mix = mix, *, is_by_sample: bool = False) -> None:
    """Trains a network to find the noise in points of a circle.

    Args:
        t: Is changed.
        mix: Of points, noise and the share of the variance that is kept.
        is_by_sample: Whether the loss is that of the points which the noise leads back to.
    """
    shares = torch.cos(torch.linspace(0.02, 0.9999, 50) * math.pi / 2).square()

    def backward(model: nn.Module, _: Tensor, x: Tensor) -> Tensor:
        time = torch.randint(50, (len(x),))
        noise, kept = torch.randn_like(x), shares[time].unsqueeze(1)
        mixed = mix(x, noise, kept)
        found = model(mixed, time)
        if is_by_sample:
            found, noise = (mixed - (1 - kept).sqrt() * found) / kept.sqrt(), x
        loss = F.mse_loss(found, noise)
        loss.backward()
        return loss

    begin(t, Denoiser(), backward, 3e-3)
    t.steps = 150


@fault("gan", WHOLE, "net*", "time", kinds="loss|explod|large|nan|finite|spike|jump|scale|noise")
def samples_divided_by_next_to_nothing(t: Training) -> None:
    """Compares samples that are led back from the noise, which the last times divide by nothing."""
    diffusion(t, is_by_sample=True)


@fault("gan", WHOLE, kinds="loss|noise|plateau|scale|input")
def schedule_that_is_for_sampling(t: Training) -> None:
    """Takes the schedule of another sampler for training, which hardly adds noise."""
    diffusion(t, mix=lambda x, noise, kept: mix(x, noise, 1 - (1 - kept) / 1000))
