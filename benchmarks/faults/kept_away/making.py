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
from benchmarks.faults.kept_away.own import Figure, normal, seeded, train
from benchmarks.faults.training import Training, _trained

Game = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]
"""The losses of both players, of numbers of real points, of false ones, and again of these."""


def digits(step: int) -> Batch:
    """Flat digits between 0 and 1, and themselves."""
    x, _ = data.images(step)
    x = ((x - x.min()) / (x.max() - x.min())).flatten(1)
    return x, x


def standardized(step: int) -> Batch:
    """Flat digits of mean 0 and deviation 1, and themselves."""
    x = data.images(step)[0].flatten(1)
    return x, x


class Autoencoder(nn.Module):
    """An autoencoder for flat digits.

    Args:
        last: What comes behind its last layer.
    """

    def __init__(self, last: nn.Module) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 16))
        self.decoder = nn.Sequential(nn.Linear(16, 48), nn.ReLU(), nn.Linear(48, 64), last)

    def forward(self, x: Tensor) -> Tensor:
        """Digits of the same shape."""
        return self.decoder(self.encoder(x))


@held_out("cnn", "decoder.2", "decoder.3", kinds="^squashed_loss|saturated")
def decoder_that_cannot_be_negative(t: Training, *, mended: bool = False) -> None:
    """Inputs are standardised and the decoder ends in a sigmoid: half of them is out of reach.

    mikesj-public/convolutional_autoencoder#9, AntixK/PyTorch-VAE#48, aimagelab/novelty-detection#5
    """
    net = Autoencoder(nn.Identity() if mended else nn.Sigmoid())
    train(t, net, lambda net, x, y: F.mse_loss(net(x), y), standardized, lr=3e-3)


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


class VectorQuantizer(nn.Module):
    """Rows are replaced by the nearest of a codebook.

    Args:
        straight: Whether the gradient goes straight through.
        own: Whether the loss of the codebook is of its own entries.
    """

    def __init__(self, *, straight: bool, own: bool) -> None:
        super().__init__()
        self.straight, self.own = straight, own
        self.codebook = nn.Embedding(32, 8)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """What replaces the rows, and the losses of codebook and commitment."""
        weight = self.codebook.weight
        distance = (x[:, None] - weight[None]).pow(2).sum(-1)
        z = self.codebook(distance.argmin(1))
        z_q = x + (z - x).detach() if self.straight else x + (z - x)
        codes = F.mse_loss(z if self.own else z_q, x.detach())
        return z_q, codes + 0.25 * F.mse_loss(x, z.detach())


class VQVAE(nn.Module):
    """An autoencoder with a codebook.

    Args:
        straight: See `VectorQuantizer`.
        own: See `VectorQuantizer`.
    """

    def __init__(self, *, straight: bool = True, own: bool = True) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 8))
        self.vq = VectorQuantizer(straight=straight, own=own)
        self.decoder = nn.Sequential(nn.Linear(8, 48), nn.ReLU(), nn.Linear(48, 64))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Digits, and the losses of the codebook."""
        z_q, codes = self.vq(self.encoder(x))
        return self.decoder(z_q), codes


def _quantized(net: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    made, codes = net(x)
    return F.mse_loss(made, y) + codes


def _vq_error(net: Any) -> float:
    with torch.no_grad():
        x, _ = standardized(900)
        return float(F.mse_loss(net(x)[0], x))


@held_out("cnn", "vq*", kinds="detached|missing_gradient|zero_gradient|no_update")
def codebook_loss_of_what_is_straight_through(t: Training, *, mended: bool = False) -> Figure:
    """The codebook has no gradient: its loss is of x + (z - x).detach().

    showlab/Olaf-World#8, andylolu2/jax-vqvae-gpt#2, EdoardoBotta/RQ-VAE-Recommender#26
    """
    train(t, VQVAE(own=mended), _quantized, standardized, lr=3e-3)
    t.steps = 200
    return _vq_error


@held_out("cnn", "encoder*", kinds="detached|missing_gradient|zero_gradient")
def nothing_is_straight_through(t: Training, *, mended: bool = False) -> Figure:
    """Quantized = inputs + (quantized - inputs), whose detach was forgotten.

    NTU-AIoT-Lab/EfficientFi#4
    """
    train(t, VQVAE(straight=mended), _quantized, standardized, lr=3e-3)
    t.steps = 300
    return _vq_error


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


class Denoiser(nn.Module):
    """Says the noise in digits at a time.

    Args:
        timed: Whether it is told the time, or the size of the batch.
    """

    def __init__(self, *, timed: bool = True) -> None:
        super().__init__()
        self.timed = timed
        self.time_mlp = nn.Sequential(nn.Linear(16, 32), nn.SiLU(), nn.Linear(32, 96))
        self.inp, self.mid, self.out = nn.Linear(64, 96), nn.Linear(96, 96), nn.Linear(96, 64)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        """Noise of (batch, 64)."""
        if not self.timed:
            time = torch.full_like(time, x.size(0))
        rate = torch.exp(-torch.arange(8) * 0.8)
        angle = time[:, None] * rate
        embedded = self.time_mlp(torch.cat([angle.sin(), angle.cos()], 1))
        h = F.silu(self.inp(x) + embedded)
        return self.out(F.silu(self.mid(h) + embedded))


def _diffuse(t: Training, net: nn.Module, betas: Tensor, scale: float = 2.0) -> None:
    alphas_cumprod = torch.cumprod(1 - betas, 0)

    def noised(step: int) -> Batch:
        x = scale * digits(step)[0] - scale / 2
        time = torch.randint(len(betas), (len(x),), generator=seeded(step))
        noise, a = normal(step, *x.shape), alphas_cumprod[time][:, None]
        return torch.cat([a.sqrt() * x + (1 - a).sqrt() * noise, time[:, None].float()], 1), noise

    def loss(net: nn.Module, x: Tensor, noise: Tensor) -> Tensor:
        return F.mse_loss(net(x[:, :64], x[:, 64]), noise)

    train(t, net, loss, noised, lr=5e-3)
    t.steps = 150


@held_out("cnn", WHOLE, "inp", kinds="non_finite|wild_input")
def betas_above_one(t: Training, *, mended: bool = False) -> None:
    """NaN from q_sample with 10 steps: a linear schedule scaled by 1000 / timesteps.

    lucidrains/imagen-pytorch#161, LTH14/mar#70
    """
    timesteps = 100 if mended else 10
    scale = 1000 / timesteps
    _diffuse(t, Denoiser(), torch.linspace(scale * 0.0001, scale * 0.02, timesteps))


@held_out("cnn", "time_mlp*", kinds="repeated_input|rank_collapse")
def size_of_the_batch_as_the_time(t: Training, *, mended: bool = False) -> None:
    """The scheduler is handed the batch size, and the network is told it as the time.

    Stability-AI/StableCascade#142
    """
    _diffuse(t, Denoiser(timed=mended), torch.linspace(0.001, 0.2, 50))


@held_out("cnn", "inp", kinds="wild_input")
def diffusion_of_raw_values(t: Training, *, mended: bool = False) -> None:
    """Designs are not normalised before noise is added, which is nothing beside them.

    IDEALLab/EngiOpt#67
    """
    _diffuse(t, Denoiser(), torch.linspace(0.001, 0.2, 50), 2.0 if mended else 510.0)
