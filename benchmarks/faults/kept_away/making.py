"""Mistakes in what makes samples: autoencoders, VAEs, VQ-VAEs, GANs and diffusion."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.faults import data
from benchmarks.faults.data import Batch
from benchmarks.faults.fault import WHOLE, held_out
from benchmarks.faults.own.codebook import VQVAE, VectorQuantizer, quantized, vq_error
from benchmarks.faults.own.diffusion import Denoiser, diffuse
from benchmarks.faults.own.digits import digits, standardized
from benchmarks.faults.own.training import Figure, train
from benchmarks.faults.training import Training, _trained

Game = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]
"""The losses of both players, of numbers of real points, of false ones, and again of these."""


class VAE(nn.Module):
    """A variational autoencoder for flat digits."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 64), nn.ReLU())
        self.fc_mu, self.fc_var = nn.Linear(64, 8), nn.Linear(64, 8)
        self.decoder = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 64))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Logits of pixels, means and logarithms of variances."""
        h = self.encoder(x)
        mu, log_var = self.fc_mu(h), self.fc_var(h)
        z = mu + torch.randn_like(mu) * torch.exp(0.5 * log_var)
        return self.decoder(z), mu, log_var


def _rebuilt(net: Any) -> float:
    """The error of digits that are made of means."""
    with torch.no_grad():
        x, _ = digits(900)
        made = net.decoder(net.fc_mu(net.encoder(x)))
        return float(F.mse_loss(torch.sigmoid(made), x))


def _kl(mu: Tensor, log_var: Tensor) -> Tensor:
    return -0.5 * (1 + log_var - mu.pow(2) - log_var.exp()).sum(1)


@held_out("cnn", WHOLE, "fc_mu", "fc_var", kinds="rank_collapse|odd_loss")
def mean_of_pixels_and_sum_of_latents(t: Training, *, mended: bool = False) -> Figure:
    """All reconstructions are the same blurry image: a mean over pixels beside a sum of KL.

    podgorskiy/VAE#1, wiseodd/generative-models#40
    """

    def loss(net: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        made, mu, log_var = net(x)
        pixels = F.binary_cross_entropy_with_logits(made, y, reduction="none")
        return (pixels.sum(1).mean() if mended else pixels.mean()) + _kl(mu, log_var).mean()

    train(t, VAE(), loss, digits, lr=5e-3)
    t.steps = 200
    return _rebuilt


@held_out("cnn", WHOLE, kinds="unbounded_loss|divergence|^growth|non_finite")
def kl_with_the_other_sign(t: Training, *, mended: bool = False) -> Figure:
    """The loss is more and more negative: the divergence is subtracted.

    FluxML/model-zoo#147, AntixK/PyTorch-VAE#68, Lasagne/Recipes#54
    """

    def loss(net: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        made, mu, log_var = net(x)
        pixels = F.binary_cross_entropy_with_logits(made, y, reduction="none").sum(1).mean()
        kl = _kl(mu, log_var).mean()
        return pixels + kl if mended else pixels - kl

    train(t, VAE(), loss, digits, lr=3e-3)
    return _rebuilt


class Copied(VectorQuantizer):
    """Rows are replaced without a detach."""

    def passed_on(self, x: Tensor, z: Tensor) -> Tensor:
        """The entries, with the gradient of these alone."""
        return x + (z - x)


@held_out("cnn", "encoder*", kinds="detached|missing_gradient|zero_gradient")
def nothing_is_straight_through(t: Training, *, mended: bool = False) -> Figure:
    """Quantized = inputs + (quantized - inputs), whose detach was forgotten.

    NTU-AIoT-Lab/EfficientFi#4
    """
    train(t, VQVAE(VectorQuantizer if mended else Copied), quantized, standardized, lr=3e-3)
    t.steps = 300
    return vq_error


class Adversaries(nn.Module):
    """A generator of points and a critic of them.

    Args:
        cut: Whether the points that the generator is taught by are cut off, too.
        squash: What comes behind the critic.
    """

    def __init__(self, *, cut: bool = False) -> None:
        super().__init__()
        self.cut = cut
        self.generator = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2))
        self.discriminator = nn.Sequential(
            nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 32), nn.LeakyReLU(0.2)
        )
        self.discriminator.append(nn.Linear(32, 1))

    def forward(self, noise: Tensor, real: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Numbers of real points, of false ones, and of false ones for the generator."""
        fake = self.generator(noise)
        pred_real = self.discriminator(real)
        pred_fake = self.discriminator(fake.detach())
        return pred_real, pred_fake, self.discriminator(fake.detach() if self.cut else fake)


def corner(step: int) -> Batch:
    """Noise, and points around (3, 3)."""
    noise, ring = data.ring(step)
    return noise, 0.5 * ring + 3


def _far(net: Any) -> float:
    """How far the made points are from the real ones, in the mean."""
    with torch.no_grad():
        noise, real = corner(900)
        return float((net.generator(noise).mean(0) - real.mean(0)).norm())


def _play(t: Training, net: Adversaries, game: Game) -> None:
    """Trains both by the losses that a game makes of the three outputs."""

    def backward(model: nn.Module, noise: Tensor, real: Tensor) -> Tensor:
        d_loss, g_loss = game(*model(noise, real))
        d_loss.backward(inputs=_trained(model.discriminator), retain_graph=True)
        if not net.cut:
            g_loss.backward(inputs=_trained(model.generator))
        else:
            g_loss.backward(inputs=_trained(model.discriminator))
        return d_loss + g_loss

    t.model, t.backward, t.batch, t.steps = net, backward, corner, 200
    t.optimizer = torch.optim.Adam(net.parameters(), lr=3e-3, betas=(0.5, 0.999))


def _bce(made: Tensor, *, real: bool) -> Tensor:
    target = torch.ones_like(made) if real else torch.zeros_like(made)
    return F.binary_cross_entropy_with_logits(made, target)


@held_out("gan", "generator*", kinds="trivial_loss|odd_loss|unbounded_loss")
def generator_that_wants_to_be_caught(t: Training, *, mended: bool = False) -> Figure:
    """The generator's loss has zeros as labels, as the discriminator's has for false points.

    ptran1203/pytorch-animeGAN#17, https-deeplearning-ai/GANs-Public#1, jacobgil/keras-dcgan#11
    """

    def game(real: Tensor, fake: Tensor, fooled: Tensor) -> tuple[Tensor, Tensor]:
        return _bce(real, real=True) + _bce(fake, real=False), _bce(fooled, real=mended)

    _play(t, Adversaries(), game)
    return _far


@held_out("gan", "generator*", kinds="missing_gradient|detached|zero_gradient|no_update")
def generator_taught_by_detached_points(t: Training, *, mended: bool = False) -> Figure:
    """fake_data.detach() is reused for the generator's turn, which then has no gradient.

    nikhilsinghmus/image2reverb#37, wangle53/CSA-CDGAN#5
    """

    def game(real: Tensor, fake: Tensor, fooled: Tensor) -> tuple[Tensor, Tensor]:
        return _bce(real, real=True) + _bce(fake, real=False), _bce(fooled, real=True)

    _play(t, Adversaries(cut=not mended), game)
    return _far


@held_out("gan", WHOLE, kinds="unbounded_loss|divergence|^growth|^drift")
def critic_that_nothing_bounds(t: Training, *, mended: bool = False) -> Figure:
    """A Wasserstein loss without clipping or penalty: the critic's numbers grow without end.

    torchgan/torchgan#42, LeeDoYup/DeblurGAN-tf#8
    """

    def game(real: Tensor, fake: Tensor, fooled: Tensor) -> tuple[Tensor, Tensor]:
        return fake.mean() - real.mean(), -fooled.mean()

    net = Adversaries()
    _play(t, net, game)

    def clip() -> None:
        for p in net.discriminator.parameters():
            p.data.clamp_(-0.3, 0.3)

    if mended:
        t.each_step(clip)

    def figure(net: Any) -> float:
        with torch.no_grad():
            return float(net.discriminator(corner(900)[1]).abs().mean())

    return figure


@held_out("gan", "generator*", kinds="unbounded_loss|divergence|^growth|^drift")
def generator_in_the_wrong_direction(t: Training, *, mended: bool = False) -> Figure:
    """g_loss.backward(one) in the place of backward(mone).

    Zeleni9/pytorch-wgan#53
    """

    def game(real: Tensor, fake: Tensor, fooled: Tensor) -> tuple[Tensor, Tensor]:
        return fake.mean() - real.mean(), -fooled.mean() if mended else fooled.mean()

    net = Adversaries()
    _play(t, net, game)

    def clip() -> None:
        for p in net.discriminator.parameters():
            p.data.clamp_(-0.3, 0.3)

    t.each_step(clip)
    return _far


@held_out("cnn", "inp", kinds="wild_input")
def diffusion_of_raw_values(t: Training, *, mended: bool = False) -> None:
    """Designs are not normalised before noise is added, which is nothing beside them.

    IDEALLab/EngiOpt#67
    """
    scale = 2.0 if mended else 510.0

    def scaled(step: int) -> Batch:
        x = scale * digits(step)[0] - scale / 2
        return x, x

    diffuse(t, Denoiser(), torch.linspace(0.001, 0.2, 50), scaled)
